"""What must hold of every result on the problems of `problems.py` and `graph_problems.py`.

Run as a program, it looks for a problem that fails, and counts what it has checked:

python tests/fuzz.py --seconds 3600 --seed 1
"""

import argparse
import atexit
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import count, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import graph_problems
import numpy as np
from graph_problems import GraphCase, graph_problem, with_ties
from long_searches import after, long_searches, same
from problems import FEATURES, WORTHS, Case, feature_names, problem
from searches import short_descent, two_processes

import lpmert
from lpmert import DataError, MethodError, Region, RegionError, Result, Status
from lpmert.configurable import Option
from lpmert.methods import Method
from lpmert.metrics import LinearFraction
from lpmert.metrics.contract import metric_of
from lpmert.registry import METHODS
from lpmert.search import driver

SUMS = ("choices", "cells", "lp-mert", "exhaustive", "auto", "groups")
TEXT_METRICS = ("wer", "cer", "bleu")  # metrics of lists that are made of lattices
RATIOS = ("choices", "cells", "auto", "groups")
STOPPED = {*Status} - {Status.OPTIMAL, Status.OPTIMAL_TO_TOLERANCE, Status.HEURISTIC, Status.INTERRUPTED}
ROUNDING = 1e-12
"""Of losses that are no exact sums, relative: the resolution of fixed point that docs/exactness.md promises."""
EQUATIONS = 1e-9  # what weights may miss an equation by, relative to the sum of its terms without their signs
_SECONDS = 10.0  # what a search may take; one that takes longer counts as stopped, and is held to its bound only

Outcome = tuple[str, Status]
LIMITS: tuple[dict[str, Any], ...] = (
    *({"node_limit": limit} for limit in (0, 1, 2, 5, 20)), {"time_limit": 0.0}, {"gap": 0.5}, {"memory_limit": 1},
)  # fmt: skip
"""What ends searches early; beside a target, which hangs on the problem."""
ANOTHER_QUESTION = {"published", "cosine_test"}
"""Options of lp-mert whose other value is the paper's rule, which asks another question or gives the proof up."""
_DRAWN, _MOST_NODES = 12, 5_000
"""Problems of which the one is taken whose search has the most nodes: most are over before there are units of work. No
clock ends a search here: one that is late leaves weights where they are, which would look like another way.
"""


def methods(case: Case) -> tuple[str, ...]:
    """The exact methods that take a problem."""
    if isinstance(case, GraphCase):
        return ("auto", "cells")
    width = case.features.shape[1]
    fraction = isinstance(case.metric, LinearFraction)
    if case.region is not None and case.region.cosine is not None:
        return ("choices", "auto") if case.loss is not None and not fraction else (*SUMS[:3], "auto")
    if case.loss is None or fraction:
        return (*SUMS, *(("sweep",) if width <= 2 else ()))
    return RATIOS


def choose(case: Case, seed: int, number: int) -> list[str]:
    """So many of the methods for a problem, in turns."""
    own = methods(case)
    return [own[(seed + k * 2) % len(own)] for k in range(min(number, len(own)))]


def slack_of(case: Case, losses: Iterable[Fraction | float]) -> float:
    """By how much losses of this size may be off."""
    return 0.0 if case.exact else ROUNDING * max((abs(float(loss)) for loss in losses), default=0.0)


def some_weights(rng: np.random.Generator, width: int) -> list[float]:
    return [float(rng.choice([0.0, 1.0, -1.0, 2.0, 0.1, rng.normal()])) for _ in range(width)]


def check_result(case: Case, result: Result, least: Fraction | float | None) -> None:
    """The loss is that of the weights; it is the least where it is called optimal; no bound is above the least.

    least: `None` where it is not known; the bound must be below what the weights attain then.
    """
    about = f"{case.name}: {result.method} says {result.status.name} {result.loss!r}, bound {result.lower_bound!r}"
    attained, strict = case.attained(result.weights.tolist())
    assert _fulfils(result.weights.tolist(), case.equations), f"{about}, but off the equations"
    best = attained if least is None else least
    slack = slack_of(case, [attained, best])
    assert abs(result.loss - float(attained)) <= slack, f"{about}, but the weights have {float(attained)!r}"
    if result.lower_bound is None:
        assert result.status is Status.HEURISTIC, about
        return
    assert result.lower_bound <= float(best) + slack, f"{about}, but {float(best)!r} is attained"
    assert result.lower_bound <= result.loss, about
    if result.status is Status.OPTIMAL:
        assert strict, f"{about}, but by a tie"
        assert result.lower_bound == result.loss, about
        assert abs(result.loss - float(best)) <= slack, f"{about}, but the least is {float(best)!r}"
        if case.equations:
            near, strict = case.attained(case.on_equations(result.weights.tolist()))
            assert strict, f"{about}, but by a tie on the equations"
            assert abs(result.loss - float(near)) <= slack, f"{about}, but {float(near)!r} on the equations"
    elif result.status is Status.OPTIMAL_TO_TOLERANCE:
        # The order of directions that `sweep` goes through is that of rounded features, where equations round these.
        region = case.region
        doubtful = region is not None and (result.method == "sweep" or region.cosine is not None)
        assert case.thin or not case.exact or doubtful, f"{about}, on plain data"
    else:
        assert result.status in STOPPED, about


def run(case: Case, method: str | Method, **settings: object) -> Outcome:
    """Solve a problem and check the result; settings: those of `lpmert.minimize`."""
    settings = {"time_limit": _SECONDS, **settings}
    try:
        result = lpmert.minimize(case.data, metric=case.metric, method=method, region=case.region, **settings)
    except RegionError as error:
        if case.least is not None and "digits" not in str(error):
            raise
        return str(method), Status.HEURISTIC
    except MethodError as error:
        if "64 bits" not in str(error):  # a refusal that names the remedy
            raise
        return str(method), Status.HEURISTIC
    method = result.method
    assert case.least is not None, f"{case.name}: {method} does not see that the region is empty"
    check_result(case, result, case.least)
    return method, result.status


def check_problem(features: str, worth: str, seed: int, *, in_region: bool, number: int) -> list[Outcome]:
    case = problem(features, worth, seed, in_region=in_region)
    return [run(case, method, seed=seed % 3) for method in choose(case, seed, number)]


def check_limits(features: str, worth: str, seed: int) -> list[Outcome]:
    """Stop searches early in every way: they never raise, and what they say holds."""
    case = problem(features, worth, seed)
    early = [*LIMITS, {"target": float(case.least) + 1.0}]
    own = choose(case, seed, 2)
    return [run(case, method, **early[(seed + k) % len(early)]) for k in range(3) for method in own]


def relatives(case: Case, seed: int) -> list[tuple[str, Case]]:
    """Problems with the same least loss, and how they came about."""
    rng = np.random.default_rng([seed, 7])
    rows, offsets = case.features, case.offsets
    width, count_of_lists = rows.shape[1], len(offsets) - 1
    order = rng.permutation(count_of_lists)
    moved = np.concatenate([np.arange(offsets[s], offsets[s + 1]) for s in order])
    ends = [0, *np.cumsum(np.diff(offsets)[order]).tolist()]
    s = int(rng.integers(count_of_lists))
    source = int(rng.integers(offsets[s], offsets[s + 1]))
    twice = np.insert(np.arange(offsets[-1]), offsets[s + 1], source)
    longer = [end + (k > s) for k, end in enumerate(offsets)]
    signs = rng.choice([-1.0, 1.0], width)
    constant = np.repeat(rng.integers(-9, 10, count_of_lists).astype(float), np.diff(offsets))
    return [
        ("scaled", replace(case, features=rows * 2.0 ** rng.integers(-20, 21, width))),
        ("all scaled", replace(case, features=rows * 8.0)),
        ("lists permuted", with_rows(case, moved, ends)),
        ("a hypothesis twice", with_rows(case, twice, longer)),
        ("a constant feature", replace(case, features=np.column_stack([rows, constant]))),
        ("features negated", replace(case, features=rows * signs)),
    ]


def with_rows(case: Case, rows: np.ndarray, offsets: list[int]) -> Case:
    values = [case.values[row] for row in rows.tolist()]
    return replace(case, features=case.features[rows], offsets=offsets, statistics=case.statistics[rows], values=values)


def check_relatives(features: str, worth: str, seed: int) -> list[Outcome]:
    """Changes that do not matter do not change the least loss."""
    case = problem(features, worth, seed)
    method = choose(case, seed, 1)[0]
    outcomes = [run(case, method)]
    changed = relatives(case, seed)
    for how, other in (changed[seed % 6], changed[(seed + 1) % 6]):
        # The relation gives what is expected: the oracle does not look at the changed problem.
        settings = {"metric": other.metric, "method": "choices" if method == "sweep" else method}
        result = lpmert.minimize(other.nbest, **settings, time_limit=_SECONDS)
        check_result(replace(other, name=f"{case.name}, {how}"), result, case.least)
        outcomes.append((method, result.status))
    return outcomes


def check_cosine(features: str, worth: str, seed: int) -> list[Outcome]:
    """Inside a cap the weights have the cosine asked for, and nothing that is seen there is below the bound."""
    rng = np.random.default_rng([seed, 3])
    case = problem(features, worth, seed)
    width = case.features.shape[1]
    centre = rng.integers(-4, 5, width).astype(float)
    centre[0] += not centre.any()
    cosine = float(rng.choice([0.2, 0.5, 0.8, 0.95]))
    around = dict(zip(feature_names(width), centre.tolist(), strict=True))
    case = replace(case, name=f"{case.name}, cosine", region=Region(cosine=cosine, around=around))
    seen: list[Fraction | float] = []
    for near in rng.uniform(0.0, 1.0, 40):
        weights = (centre / np.linalg.norm(centre) + near * rng.normal(size=width)).tolist()
        if _cosine_reaches(weights, centre.tolist(), cosine):
            attained, strict = case.attained(weights)
            seen += [attained] if strict else []
    outcomes, losses = [], []
    for method in choose(case, seed, 2):
        result = lpmert.minimize(case.nbest, metric=case.metric, method=method, region=case.region, time_limit=_SECONDS)
        check_result(case, result, None)
        about = f"{case.name}: {method} says {result.status.name} {result.loss!r}, bound {result.lower_bound!r}"
        least = float(min(seen, default=np.inf))
        assert _cosine_reaches(result.weights.tolist(), centre.tolist(), cosine - 1e-12), about
        assert result.lower_bound <= least + slack_of(case, seen), f"{about}, but {least} is attained"
        losses += [result.loss] if result.status is Status.OPTIMAL else []
        outcomes.append((method, result.status))
    if losses:
        unlike = max(losses) - min(losses)
        assert unlike <= slack_of(case, losses), f"{case.name}: methods prove different losses, {losses}"
    return outcomes


def graph_of(features: str, worth: str, seed: int, *, in_region: bool) -> GraphCase:
    """Lattices or hypergraphs with a metric that the kind of loss stands for."""
    metric = graph_problems.METRICS[sum(worth.encode()) % len(graph_problems.METRICS)]
    return graph_problem(features, metric, seed, in_region=in_region)


def check_graphs(features: str, worth: str, seed: int) -> list[Outcome]:
    """Lattices and hypergraphs, in regions and without: the bound holds for all paths, and so do early ends."""
    case = graph_of(features, worth, seed, in_region=seed % 2 == 0)
    early = [{"node_limit": 1}, {"gap": 0.5}, {"time_limit": 0.0}][seed % 3]
    method = methods(case)[seed % 2]
    ended = [run(case, method, **early)] if case.least is not None and seed % 4 == 1 else []
    return [run(case, method, seed=seed % 3), *ended]


def with_options(method: str, rng: np.random.Generator) -> Method:
    """The method with some of its options drawn anew: none of them may change an optimum."""

    def drawn(option: Option) -> str:
        if option.choices:
            return str(rng.choice(option.choices))
        if option.kind is bool:
            return str(rng.choice(["yes", "no"]))
        least = 0 if option.least is None else option.least
        usual = option.default if option.default is not None else 3
        values = [least, least + 1, least + (usual - least) / 4, 2 * usual]
        values = [value for value in values if option.most is None or value <= option.most]
        value = float(rng.choice(values))
        return str(int(value)) if option.kind is int else repr(value)

    plain = METHODS.build(method)
    options = [one for one in plain.options() if one.name not in ANOTHER_QUESTION]
    chosen = [one for one in options if rng.random() < 3 / (3 + len(options) / 2)]
    return plain.configured({one.name: drawn(one) for one in chosen})


def check_options(features: str, worth: str, seed: int) -> list[Outcome]:
    """No option, rule for ties, number of jobs or way of long searches changes what holds of results."""
    rng = np.random.default_rng([seed, 5])
    case = problem(features, worth, seed, in_region=seed % 3 == 0)
    ties = "first"
    if case.loss is None and rng.random() < 0.3:
        ties = str(rng.choice(["best", "worst"]))
        case = with_ties(case, ties)
    outcomes = []
    for name in choose(case, seed, 2):
        method = with_options(name, rng)
        long, jobs = bool(rng.random() < 0.4), int(rng.choice([1, 1, 2]))
        case = replace(case, name=f"{case.name}, {method.settings()}, long={long}, jobs={jobs}")
        with long_searches(int(rng.choice([50, 500, 2000]))) if long else nullcontext():
            outcomes.append(run(case, method, ties=ties, jobs=jobs, seed=seed % 3))
    return outcomes


def _changed(value: Any, rng: np.random.Generator) -> Any:
    """A state with one number, text or array in it that is another: of an array one entry, or the shape."""
    if isinstance(value, dict) and value:
        name = str(rng.choice(list(value)))
        return {**value, name: _changed(value[name], rng)}
    if isinstance(value, list) and value and rng.random() < 0.8:
        place = int(rng.integers(len(value)))
        return [*value[:place], _changed(value[place], rng), *value[place + 1 :]]
    if isinstance(value, list):
        return value[1:]
    if isinstance(value, np.ndarray) and value.size and rng.random() < 0.9:
        flat = value.reshape(-1).copy()
        place = int(rng.integers(flat.size))
        if flat.dtype.kind == "f":
            flat[place] = rng.choice([0.0, -flat[place], np.nan, np.inf, 1e300, rng.choice(flat)])
        elif flat.dtype.kind in "iu":
            most = np.iinfo(flat.dtype)
            flat[place] = [0, most.max, most.min, rng.choice(flat)][rng.integers(4)]
        else:
            flat[place] = not flat[place]
        return flat.reshape(value.shape)
    others: list[Any] = [None, -1, 2**70, "x", [], {}, np.zeros(3)]
    return others[rng.integers(len(others))]


def check_forged(features: str, worth: str, seed: int) -> list[Outcome]:
    """A search that is resumed ends as truly; a checkpoint that was changed, with the right checksum, is refused, or
    taken: the loss is that of the weights then.
    """
    rng = np.random.default_rng([seed, 9])
    case = (graph_of if seed % 4 == 0 else problem)(features, worth, seed, in_region=seed % 3 == 0)
    if case.least is None:
        return []
    taken = [name for name in methods(case) if name != "sweep"]
    method = taken[seed % len(taken)]
    outcomes: list[Outcome] = []
    with TemporaryDirectory() as folder, long_searches(int(rng.choice([50, 200]))):
        path = Path(folder) / "checkpoint"

        def search(**settings: Any) -> Result:
            given = {"metric": case.metric, "method": method, "region": case.region, "checkpoint": path}
            return lpmert.minimize(case.data, **given, **settings)

        try:
            search(callback=after(int(rng.integers(1, 6))), time_limit=_SECONDS)
        except (MethodError, RegionError):  # what `run` looks at
            return []
        header, state = driver._read_checkpoint(path)
        asked = {name: value for name, value in header.items() if name != "state"}
        for number in range(5):
            driver._write_checkpoint(path, asked, _changed(dict(state), rng) if number else state)
            try:
                result = search(resume=True, time_limit=2.0)
            except DataError:
                assert number
                outcomes.append((method, Status.HEURISTIC))
                continue
            assert result.resumed
            if not number:
                check_result(case, result, case.least)
            attained = float(case.attained(result.weights.tolist())[0])
            off = abs(result.loss - attained)
            assert off <= slack_of(case, [attained]), f"{case.name}: {method} says {result.loss}, not {attained}"
            outcomes.append((method, result.status))
    return outcomes


def check_faces(features: str, worth: str, seed: int) -> list[Outcome]:
    """`check` and `compare` tell losses that weights have, and call nothing optimal that is not."""
    rng = np.random.default_rng([seed, 8])
    case = problem(features, worth, seed, in_region=seed % 3 == 0)
    if case.least is None:
        return []
    anywhere = replace(case, region=None, rows=[], equations=[])
    weights = some_weights(rng, case.features.shape[1])
    slack = slack_of(case, [1.0, case.least])

    def holds(loss: float, at: Sequence[float], what: str) -> None:
        attained = float(anywhere.attained(at)[0])
        assert abs(loss - attained) <= slack, f"{case.name}: {what} says {loss!r} of weights with {attained!r}"

    holds(lpmert.evaluate(case.nbest, weights, metric=case.metric).loss, weights, "evaluate")
    settings: dict[str, Any] = {"metric": case.metric, "region": case.region, "optimum": "auto"}
    compared = lpmert.compare(case.nbest, ["och", "random"], seeds=2, **settings)
    for entry in compared.methods:
        for one in entry.runs:
            holds(one.loss, one.weights.tolist(), entry.name)
    check_result(case, compared.optimum, case.least)
    return [(compared.optimum.method, compared.optimum.status)]


def check_n_best(features: str, worth: str, seed: int) -> list[Outcome]:
    """N-best lists of graphs are the best of all their paths by text, in order, and are solved as truly."""
    rng = np.random.default_rng([seed, 12])
    metric = TEXT_METRICS[sum(worth.encode()) % len(TEXT_METRICS)]
    case = graph_problem(features, metric, seed, in_region=seed % 3 == 0)
    weights = some_weights(rng, case.features.shape[1])
    n = int(rng.choice([1, 2, 3, 5, 1000]))
    lists = lpmert.n_best(case.data, weights, n=n, metric=metric)
    about = f"{case.name}: the {n} best at {weights}"
    exact = [Fraction(weight) for weight in weights]
    scores = [sum((a * b for a, b in zip(row, exact, strict=True)), Fraction(0)) for row in case.sums]
    values = []
    assert lists.n_lists == len(case.offsets) - 1, about
    for (begin, end), (first, last) in zip(pairwise(case.offsets), pairwise(lists.offsets.tolist()), strict=True):
        best: dict[str, int] = {}
        for path in sorted(range(begin, end), key=lambda path: -scores[path]):
            best.setdefault(case.texts[path], path)
        paths = [*best.values()][:n]
        assert list(lists.texts[first:last]) == [case.texts[path] for path in paths], about
        for row, path in zip(range(first, last), paths, strict=True):
            assert list(map(Fraction, lists.dense_features()[row].tolist())) == case.sums[path], about
            values.append(case.values[path])
            assert tuple(map(Fraction, lists.statistics[row].tolist())) == values[-1], about
    listed = Case(
        f"{case.name}, {n} best", lists.dense_features(), lists.offsets.tolist(), lists.statistics, values,
        metric_of(None, lists.statistic_names), case.loss, case.region, case.rows, case.equations, case.exact,
        case.thin,
    )  # fmt: skip
    return [run(listed, method, seed=seed % 3) for method in choose(listed, seed, 2)]


@cache
def _cluster() -> str:
    """Two Dask workers for as long as this process lives."""
    found = two_processes()
    atexit.register(found.close)
    return str(found.scheduler_address).replace("tcp://", "dask://")


def check_workers(features: str, worth: str, seed: int) -> list[Outcome]:
    """Threads and a Dask cluster find what one thread finds, and that holds."""
    found: list[tuple[Case, dict[str, Any], Result]] = []
    with long_searches(50):
        for k in range(_DRAWN * seed, _DRAWN * (seed + 1)):
            case = (graph_of if seed % 4 == 0 else problem)(features, worth, k, in_region=k % 3 == 0)
            taken = [name for name in methods(case) if name not in ("sweep", "exhaustive")]
            settings = {"metric": case.metric, "region": case.region, "method": taken[seed % len(taken)]}
            with suppress(RegionError, MethodError):  # what `run` looks at
                alone = lpmert.minimize(case.data, **settings, node_limit=_MOST_NODES)
                if alone.status is not Status.NODE_LIMIT:
                    found.append((case, settings, alone))
        if not found:
            return []
        case, settings, alone = max(found, key=lambda one: one[2].counters.get("nodes", 0))
        backend, jobs = (_cluster(), 1) if seed % 2 else ("threads", 2)
        result = lpmert.minimize(case.data, **settings, backend=backend, jobs=jobs)
    for one in (alone, result):
        check_result(case, one, case.least)
    assert same(alone, result), f"{case.name}: {result.method} differs with {backend.partition(':')[0]}"
    return [(result.method, one.status) for one in (alone, result)]


def _cosine_reaches(weights: Sequence[float], centre: Sequence[float], least: float) -> bool:
    """Whether, in exact arithmetic, the cosine of two vectors is at least this number above 0."""
    first, second = [Fraction(v) for v in weights], [Fraction(v) for v in centre]
    product = sum(a * b for a, b in zip(first, second, strict=True))
    squares = sum(a * a for a in first) * sum(b * b for b in second)
    return product > 0 and product * product >= Fraction(least) ** 2 * squares


def _fulfils(weights: Sequence[float], equations: Sequence[Sequence[Fraction]]) -> bool:
    """Whether weights fulfil equations but for rounding, in relation to the terms of these."""
    terms = [[Fraction(w) * value for w, value in zip(weights, row, strict=True)] for row in equations]
    return all(abs(sum(row)) <= Fraction(EQUATIONS) * sum(map(abs, row)) for row in terms)


CHECKS = {
    "plain": lambda features, worth, seed: check_problem(features, worth, seed, in_region=False, number=3),
    "regions": lambda features, worth, seed: check_problem(features, worth, seed, in_region=True, number=2),
    "limits": check_limits,
    "relatives": check_relatives,
    "cosines": check_cosine,
    "graphs": check_graphs,
    "options": check_options,
    "forged": check_forged,
    "faces": check_faces,
    "n_best": check_n_best,
    "workers": check_workers,
}


def main() -> None:
    """Check problems of every kind until the time is over; print each that fails, and count how searches ended."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (default %(default)g)")
    parser.add_argument("--seed", type=int, default=0, help="different problems for every seed")
    for name, every in (("checks", CHECKS), ("features", FEATURES), ("worth", WORTHS)):
        parser.add_argument(f"--{name}", default=",".join(every), help="which, with commas between (default: all)")
    options = parser.parse_args()
    kinds = [text.split(",") for text in (options.checks, options.features, options.worth)]
    rng = np.random.default_rng(options.seed)
    ends = time.monotonic() + options.seconds
    counted: Counter[tuple[str, str]] = Counter()
    for number in count(options.seed * 1_000_000):
        if time.monotonic() > ends:
            break
        check, features, worth = (str(rng.choice(names)) for names in kinds)
        counted[check, "problems"] += 1
        try:
            with short_descent():
                outcomes = CHECKS[check](features, worth, number)
            counted.update((check, status.name) for _, status in outcomes)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is to be reported with its problem
            counted[check, "failures"] += 1
            print(f"{check}({features!r}, {worth!r}, {number}): {type(error).__name__}: {error}", flush=True)  # noqa: T201
    for (check, what), number in sorted(counted.items()):
        print(f"{check:10} {what:24} {number:9,}")  # noqa: T201
    raise SystemExit(any(what == "failures" for _, what in counted))


if __name__ == "__main__":
    main()
