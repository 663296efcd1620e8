"""The optimum over all paths of lattices, against all of them one by one in exact arithmetic that shares no code."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from operator import mul
from time import process_time

import numpy as np
import oracle
import pytest
from graph_problems import Drawn, decoded_loss, least_loss, limits_of
from long_searches import long_searches, open_lattices
from shared import asr_lattices, needs_shared

import lpmert
from lpmert import Region, Status
from lpmert.methods.auto import Auto
from lpmert.model.canonical import CallerWeights
from lpmert.model.graphs import Lattices
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.result import Limits
from lpmert.search.driver import solve
from lpmert.workers import using_workers


def check(seed: int, kind: str, *, most: int = 400) -> None:
    rng = np.random.default_rng(1000 + seed)
    n_lattices, width = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    drawn = Drawn(seed, kind, n_lattices, width)
    if np.prod([len(drawn.paths(s)) for s in range(n_lattices)]) > most or not all(
        any(drawn.paths(s)) for s in range(n_lattices)
    ):
        return
    region, limits = limits_of(seed, width)
    problem = LatticeProblem(drawn.lattices(), "wer", region)
    result = solve(Auto(), problem)
    expected = least_loss(drawn, limits)
    assert expected is not None
    assert result.loss == expected
    assert result.lower_bound is not None
    assert result.lower_bound <= expected
    if result.status is Status.OPTIMAL:
        assert result.lower_bound == expected
    else:
        assert result.status is Status.OPTIMAL_TO_TOLERANCE
        assert kind == "steep"
    # What the weights say they lose is what decoding with them loses.
    assert decoded_loss(*drawn.listed(), result.weights) == expected


def check_on_equation(seed: int) -> Counter[Status]:
    """Bounds of searches that end in every way hold on an equation, whose sums of features doubles must round."""
    rng = np.random.default_rng(2000 + seed)
    n_lattices, width = int(rng.integers(1, 3)), int(rng.integers(2, 5))
    drawn, names = Drawn(seed, "integers", n_lattices, width), [f"feature{d + 1}" for d in range(width)]
    counts = [len(drawn.paths(s)) * any(drawn.paths(s)) for s in range(n_lattices)]
    factors = rng.choice([-3.0, -1.0, 0.1, 0.7, 1.0, 3.0], width) * (rng.random(width) < 0.7)
    if not 0 < np.prod(counts) <= 200 or np.count_nonzero(factors) < 2:
        return Counter()
    # Multiples of one or two vectors: many paths are tied, or would be but for the last bits.
    shares = rng.integers(-3, 4, (len(drawn.features), 2)) * [1, seed % 2]
    drawn.features = shares @ rng.normal(size=(2, width))
    units = drawn.lattices().units
    drawn.features = np.rint(drawn.features / units) * units  # as lattices hold them
    assert drawn.lattices().units.tolist() == units.tolist()
    equation = lpmert.Linear({n: f for n, f in zip(names, factors.tolist(), strict=True) if f}, lower=0, upper=0)
    features, offsets, losses = drawn.listed()
    basis = oracle.null_space([[Fraction(factor) for factor in factors.tolist()]], width)
    rows = [[sum(map(mul, row, column), Fraction(0)) for column in basis] for row in features]
    least = min(sum(losses[row] for row in chosen) for chosen in oracle.attainable(rows, offsets))
    problem = LatticeProblem(drawn.lattices(), "wer", Region(linear=[equation]))
    ended: Counter[Status] = Counter()
    for limits in (Limits(), Limits(gap=0.5), Limits(target=least + 1), *(Limits(node_limit=n) for n in range(4))):
        result = solve(Auto(), problem, limits)
        assert decoded_loss(*drawn.listed(), result.weights) == result.loss
        assert result.lower_bound is not None
        assert result.lower_bound <= least
        if result.status is Status.OPTIMAL:
            assert (result.loss, result.lower_bound) == (least, least)
        ended[result.status] += 1
    return ended


@pytest.mark.parametrize("comparisons", [1, 40])
def test_bounds_hold_on_equations_whose_sums_doubles_must_round(comparisons: int) -> None:
    ended: Counter[Status] = Counter()
    with open_lattices(comparisons=comparisons):
        for seed in range(60):
            ended += check_on_equation(seed)
    assert ended[Status.OPTIMAL] > 50
    assert ended[Status.OPTIMAL_TO_TOLERANCE] <= 0.1 * ended[Status.OPTIMAL]


def test_a_cosine_beside_an_equation_leaves_the_optimum_of_the_same_paths_as_lists() -> None:
    compared = 0
    for seed in range(24):
        drawn = Drawn(seed, "integers", 2, 3)
        if not 0 < np.prod([len(drawn.paths(s)) * any(drawn.paths(s)) for s in range(2)]) <= 400:
            continue
        drawn.features = drawn.features * np.random.default_rng(seed).normal(size=3)
        units = drawn.lattices().units
        drawn.features = np.rint(drawn.features / units) * units
        features, offsets, losses = drawn.listed()
        lists = lpmert.NBest(np.array(features, dtype=float), offsets, losses)
        equation = lpmert.Linear({"feature1": 3.0, "feature2": -0.7, "feature3": 1.0}, lower=0, upper=0)
        region = Region(linear=[equation], cosine=0.4, around=[1.0, 2.0, -1.0])
        one, other = (lpmert.minimize(data, region=region) for data in (drawn.lattices(), lists))
        assert (one.loss, one.lower_bound, one.status) == (other.loss, other.lower_bound, other.status)
        compared += 1
    assert compared > 8


KINDS = ("integers", "ternary", "dyadic", "large", "steep")


@pytest.mark.parametrize("kind", ["integers", "dyadic", "large"])
@pytest.mark.parametrize("comparisons", [1, 10, 100])
def test_lattices_that_stay_open_at_first_end_with_the_same_optimum(kind: str, comparisons: int) -> None:
    with open_lattices(comparisons=comparisons):
        for seed in range(500, 515):
            check(seed, kind)


@pytest.mark.parametrize("comparisons", [1, 100])
def test_units_of_work_end_with_the_same_optimum(comparisons: int) -> None:
    with long_searches(), open_lattices(comparisons=comparisons):
        for seed in range(520, 530):
            check(seed, "dyadic")


@pytest.mark.parametrize("metric", ["wer", "bleu"])
def test_several_threads_change_nothing_but_the_time(metric: str) -> None:
    for seed in range(600, 612):
        drawn = Drawn(seed, "dyadic", 3, 3)
        counts = [len(drawn.paths(s)) * any(drawn.paths(s)) for s in range(3)]
        if not 0 < np.prod(counts) <= 400:
            continue
        one, two = (lpmert.minimize(drawn.lattices(), metric=metric, jobs=jobs) for jobs in (1, 2))
        assert (one.loss, one.lower_bound, one.status) == (two.loss, two.lower_bound, two.status)
        assert one.weights.tolist() == two.weights.tolist()
        assert one.counters == two.counters


@pytest.mark.parametrize("jobs", [2, 3, 7])
def test_threads_decode_lattices_side_by_side_as_one_does(jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lpmert.model.lattice_problem._LINKS_OF_UNIT", 3)
    for seed in range(700, 712):
        lattices = Drawn(seed, "ternary", 6, 3).lattices()
        weights = CallerWeights(np.random.default_rng(seed).integers(-2, 3, 3).astype(np.float64))
        alone = LatticeProblem(lattices).decode(weights)
        with using_workers("threads", jobs):
            together = LatticeProblem(lattices).decode(weights)
        assert [sorted(way.tolist() for way in won.ways) for won in alone.winners] == [
            sorted(way.tolist() for way in won.ways) for won in together.winners
        ]
        assert (alone.loss, alone.strict) == (together.loss, together.strict)


def test_paths_that_are_remembered_are_those_of_the_weights_asked_about() -> None:
    lattices = Drawn(720, "integers", 4, 2).lattices()
    remembering = LatticeProblem(lattices)
    asked = [[1.0, 2.0], [2.0, 1.0], [-1.0, 1.0], [1.0, -1.0], [-1.0, -2.0], [3.0, 1.0]]
    for weights in [*asked, *reversed(asked), *asked]:
        given = remembering.evaluate(weights)
        given.statistics[:] = -1.0  # whoever gets an evaluation may write to it
        anew = LatticeProblem(lattices).evaluate(weights)
        again = remembering.evaluate(weights)
        assert (again.loss, again.tied_lists) == (anew.loss, anew.tied_lists)
        assert again.statistics.tolist() == anew.statistics.tolist()


@needs_shared
@pytest.mark.slow
@pytest.mark.parametrize(("n_lattices", "errors", "most"), [(60, 228, 55), (100, 386, None)])
def test_the_least_errors_of_a_recogniser_are_those_of_an_independent_search(
    n_lattices: int, errors: int, most: int | None
) -> None:
    """The figures are those of a search of its own, in its data's description, by plain dominance at the rays."""
    folder = asr_lattices()
    silent = ["<sil>", "[NOISE]", "[SPEECH]"]
    whole = lpmert.load_lattices(folder / "lattices.tar.xz", folder / "references.tsv.gz", silent=silent, variants=True)
    lattices = part_of(whole, n_lattices)
    region = Region(fixed={"acoustic": 1.0}, bounds={"lm": (3.0, 20.0), "words": (-12.0, 12.0)})
    result = lpmert.minimize(lattices, region=region)
    assert (result.loss, result.lower_bound, result.status) == (errors, errors, Status.OPTIMAL)
    assert lpmert.evaluate(lattices, result).loss == errors
    if most is not None:
        problem = LatticeProblem(lattices)
        assert sum(problem.least_loss(s) for s in range(n_lattices)) == most
        assert lpmert.evaluate(lattices, [1.0, 9.5, -0.63]).loss == 250


def part_of(lattices: Lattices, n: int) -> Lattices:
    """The first n lattices."""
    links = slice(0, int(lattices.offsets[n]))
    return Lattices(
        lattices.features[links],
        lattices.offsets[: n + 1],
        lattices.sources[links],
        lattices.targets[links],
        lattices.words[links],
        lattices.references[:n],
        vocabulary=lattices.vocabulary,
        names=lattices.names,
        list_ids=lattices.list_ids[:n],
    )


def test_of_paths_that_differ_only_where_a_weight_is_fixed_to_0_the_first_counts() -> None:
    """No weights of the region tell them apart: without the rule no weights would do, and the search would not end."""
    proved = 0
    for seed in range(0, 48, 2):
        drawn = Drawn(seed, "ternary", 2, 3)
        if not all(any(drawn.paths(s)) for s in range(2)) or len(drawn.paths(0)) * len(drawn.paths(1)) > 60:
            continue
        features, offsets, losses = drawn.listed()
        left = [row[1:] for row in features]
        least = min(sum(losses[row] for row in rows) for rows in oracle.attainable(left, offsets))
        found = lpmert.minimize(drawn.lattices(), region=Region(fixed={"feature1": 0.0}), time_limit=20.0)
        assert (found.status, found.loss, found.lower_bound) == (Status.OPTIMAL, least, least)
        proved += 1
    assert proved > 8


def test_lattices_with_hundreds_of_features_keep_to_the_time_limit() -> None:
    """The limit is half a second of the clock; processor time does not grow with load, and the margin is large."""
    rng = np.random.default_rng(0)
    places, width, n_features = 6, 3, 640
    sources = np.tile(np.repeat(np.arange(places), width), 2)
    features = rng.integers(-9, 10, size=(len(sources), n_features)).astype(float)
    words = [f"w{k % 3}" for k in range(len(sources))]
    offsets = [0, places * width, 2 * places * width]
    lattices = Lattices(features, offsets, sources, sources + 1, words, ["w0 w1 w2 w0 w1 w2"] * 2)
    began = process_time()
    result = lpmert.minimize(lattices, metric="wer", time_limit=0.5)
    assert process_time() - began < 10.0
    assert result.status is Status.TIME_LIMIT
    assert result.lower_bound is not None
    assert 0.0 <= result.lower_bound <= result.loss
