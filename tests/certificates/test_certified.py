"""Certificates prove what enumeration in fractions finds: kinds of lists and graphs, metrics, regions and trees.

The problems are those of `problems.py` and `graph_problems.py`, whose oracles share no code with engines and checker.
"""

import gzip
import re
import time
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pytest
from certificates import assert_refused, base, document, layout, rewrite
from commands import COLUMNS, json_of, python, refusal, succeeded
from graph_problems import METRICS as GRAPH_METRICS, Drawn, graph_problem, with_ties
from problems import FEATURES, REGIONS, WORTHS, Case, at_odds, problem, random_lists
from searches import many_more, peak_of
from shared import librispeech, needs_shared, swahili, train_choices

import lpmert
from lpmert import CertificateError, Linear, LpmertError, MethodError, NBest, Region, RegionError, verify
from lpmert.certificates.format import CertificateReader, Header, Record, certificate_writer
from lpmert.certificates.write.certify import write_certificate

pytestmark = pytest.mark.usefixtures("poor_start")

TREES = ("boxes", "selections", None)
WHERE = ["", *(region for region in REGIONS if region != "many")]  # whose cones take exact arithmetic minutes
TIES = ("first", "best", "worst")
REFUSALS = "fewer digits|no weights to certify|tie|too large for a certificate|no proof is known for a loss above 1"
"""What is refused: regions in decimals, weights that doubles do not have, graphs, and some fractions."""
FEW_BOXES = layout(document("few boxes"))
PACKED = gzip.compress(FEW_BOXES.encode())
HEADER = Header(
    fingerprint="0" * 64, metric="metric:loss|columns:1", ties="first", found_by="nobody",
    loss=Fraction(7, 2), bound=Fraction(-3), weights={"am": 0.1, "lm": -(2.0**-40)},
    limits=[[1.0, 0.3]], exponents={"lm": -3},
)  # fmt: skip
RECORDS: list[Record] = [{"split": [0, 1]}, {}, {"out": [[0, 1, 0, 2, 255]], "branch": 3}]


def certified(case: Case, path: Path, tree: str | None = None, ties: str = "first") -> str:
    """Hold the certificate of the optimum to the least loss; return how it ended."""
    settings = {"metric": case.metric, "region": case.region, "ties": ties}
    try:
        result = lpmert.minimize(case.data, **settings)
    except RegionError:
        return "nothing inside, or digits that doubles do not hold"
    if tree and lpmert.Problem(case.nbest, case.metric, region=case.region).canonical.n_features == 0:
        tree = None
    try:
        if tree:
            write_certificate(path, case.nbest, result, **settings, kind=tree)
        else:
            lpmert.certify(case.data, result, path, **settings)
    except (MethodError, CertificateError) as error:
        assert re.search(REFUSALS, str(error)), case.name  # noqa: PT017
        return "refused"
    found = verify(path, case.data, metric=case.metric, ties=ties)
    least, attained = case.least, case.attained(result.weights.tolist())[0]
    slack = 0 if case.loss is None or case.exact else Fraction(1, 10**12)
    assert abs(found.bound - Fraction(least)) <= slack, case.name
    assert abs(found.loss - Fraction(attained)) <= slack or case.equations, case.name
    assert found.proved == (found.loss == found.bound)
    return "proved" if found.proved else "a gap"


@pytest.mark.parametrize("seeds", [range(1), many_more(range(1, 12))])
@pytest.mark.parametrize("kind", FEATURES)
def test_certificates_of_lists_prove_the_least_loss(kind: str, seeds: range, tmp_path: Path) -> None:
    """Losses, metrics, trees and rules for ties take turns."""
    ended: Counter[str] = Counter()
    place = list(FEATURES).index(kind)
    for seed in seeds:
        for k, region in enumerate(WHERE):
            turn = place + k + 10 * seed
            case = problem(kind, WORTHS[turn % len(WORTHS)], 200 + seed, kind=region)
            ties = TIES[turn % 3] if case.loss is None and isinstance(case.metric, str) else "first"
            case = case if ties == "first" else with_ties(case, ties)
            ended[certified(case, tmp_path / f"{turn}.json", TREES[(place + 2 * k + seed) % len(TREES)], ties)] += 1
    assert ended["proved"] > 3 * len(seeds), ended


@pytest.mark.parametrize("seeds", [range(6), many_more(range(6, 60))])
@pytest.mark.parametrize("kind", ["integers", "dyadic", "ternary", "duplicates"])
def test_certificates_of_lattices_and_hypergraphs_prove_the_least_loss_of_all_paths(kind, seeds, tmp_path):
    """With at most three features: a certificate has a cone for each orthant."""
    ended: Counter[str] = Counter()
    for seed in seeds:
        for k, metric in enumerate(GRAPH_METRICS):
            case = graph_problem(kind, metric, seed, kind=WHERE[(seed + 2 * k) % len(WHERE)])
            if case.features.shape[1] <= 3:
                ended[certified(case, tmp_path / f"{seed}-{k}.json")] += 1
    assert ended["proved"] > len(seeds), ended


def test_ties_beside_the_best_path_of_a_lattice_do_not_matter(path: Path) -> None:
    """1,024 partial paths, which differ in a feature of weight 0, lead to a node that is not on the best path."""
    links = [(k, k + 1, (float(up << k), -1.0)) for k in range(10) for up in (0, 1)]
    sources, targets, features = zip(*links, (10, 11, (0.0, -1.0)), (0, 11, (0.0, 5.0)), strict=True)
    words = ["b"] * (len(features) - 1) + ["a"]
    lattices = lpmert.Lattices(features, [0, len(features)], sources, targets, words, ["a"])
    result = replace(lpmert.minimize(lattices), weights=np.array([0.0, 1.0]))
    lpmert.certify(lattices, result, path)
    assert verify(path, lattices).loss == 0


@pytest.mark.parametrize("method", ["sweep", "cells", "choices", "lp-mert", "exhaustive", "mip", "auto"])
def test_the_optimum_of_every_engine_can_be_certified(path: Path, method: str) -> None:
    lists = random_lists("floats", 3, most_features=2)
    result = lpmert.minimize(lists.nbest, method=method)
    write_certificate(path, lists.nbest, result)
    found = verify(path, lists.nbest)
    assert found.loss == found.bound == oracle.best_loss(lists)
    assert f"method:{method}" in found.found_by
    assert [*found.weights.values()] == result.weights.tolist()


def eight_of_swahili(first: int) -> NBest:
    return swahili().restrict(slice(first, first + 8))


@needs_shared
@pytest.mark.parametrize(("lists", "kind", "optimum"), [
    (lambda: librispeech().select_features(["decoder", "lm"]), None, 1779),
    *(many_more(partial(eight_of_swahili, 8 * k), None, best)
      for k, best in enumerate((4.948169, 4.641196, 5.091451, 5.890797))),
    *(many_more(train_choices, kind, 858) for kind in ("boxes", "selections")),
])  # fmt: skip
def test_real_lists_are_certified_and_checked_within_a_minute(path, lists, kind, optimum):
    nbest = lists()
    write_certificate(path, nbest, lpmert.minimize(nbest), kind=kind)
    started = time.process_time()
    found = verify(path, nbest)
    assert time.process_time() - started < 60
    assert (found.proved, float(found.loss)) == (True, pytest.approx(optimum, abs=1e-6))


def test_only_the_optimum_of_these_lists_or_lattices_is_certified(path: Path) -> None:
    lists, (lattices, others) = base("selections")[0], (Drawn(k, "integers", 2, 2).lattices() for k in (3, 4))
    for data, result, said in (
        (lists, lpmert.minimize(lists, node_limit=0), "no optimum to certify"),
        (lists, lpmert.minimize(lists.restrict(slice(1, None))), "other lists"),
        (lattices, lpmert.minimize(others), "other lists"),
    ):
        with pytest.raises(MethodError, match=said):
            lpmert.certify(data, result, path)
        assert not path.exists()


def test_limits_that_doubles_do_not_hold_are_not_certified_as_others(path: Path) -> None:
    """3 times 0.3 needs more than 53 bits, 2 times 0.3 does not."""
    nbest, _ = base("selections")
    limits = [Linear({"feature2": 0.3}, lower=-0.1)]
    few, many = (Region(fixed={"feature1": value}, linear=limits) for value in (2.0, 3.0))
    with pytest.raises(MethodError, match="fewer digits"):
        write_certificate(path, nbest, lpmert.minimize(nbest, region=many), region=many)
    write_certificate(path, nbest, lpmert.minimize(nbest, region=few), region=few)
    (limit,) = (limit for limit in verify(path, nbest).limits if limit[1])
    assert Fraction(limit[0]) / Fraction(limit[1]) == Fraction(0.1) / (2 * Fraction(0.3))


def _least(lists: oracle.Lists, size: int) -> float:
    sets = combinations(range(lists.features.shape[1]), size)
    return min(float(oracle.best_loss(replace(lists, features=lists.features[:, one]), "worst")) for one in sets)


@pytest.mark.parametrize("seed", range(8))
def test_certificates_of_at_most_k_features_agree_with_the_oracle(seed: int, tmp_path: Path) -> None:
    lists, nbest, _ = at_odds(seed, 3 + seed % 2, 3 + seed % 4)
    for size in range(1, nbest.n_features + 1):
        path = tmp_path / f"{size}.json.gz"
        result = lpmert.best_subsets(nbest, at_most=size).subsets[-1].result
        lpmert.certify(nbest, result, path, ties="worst", at_most=size)
        found = verify(path, nbest)
        assert (found.proved, found.at_most, float(found.loss)) == (True, size, _least(lists, size))
        dearer = np.flatnonzero(result.weights == result.weights[result.weights != 0.0][0])[0]
        other = replace(result, weights=np.where(np.arange(nbest.n_features) == dearer, -1.0, 0.0))
        if lpmert.evaluate(nbest, other.weights, ties="worst").loss > result.loss:
            with pytest.raises(MethodError):
                lpmert.certify(nbest, other, path, ties="worst", at_most=size)


@pytest.mark.parametrize("seed", range(8))
def test_certificates_within_budgets_agree_with_all_attainable_selections(seed: int, path: Path) -> None:
    lists, nbest, second = at_odds(seed, 2 + seed % 3, 3 + seed % 4)
    totals = oracle.attainable_totals(lists, np.column_stack([lists.losses, second]))
    for budget in {sums for _, sums in totals}:
        result = lpmert.within_budget(nbest, second, budget)
        lpmert.certify(nbest, result, path, budget={"second": budget}, second=second)
        found = verify(path, nbest, second=second)
        assert (found.proved, found.budget) == (True, {"second": budget})
        assert float(found.loss) == min(loss for loss, own in totals if own <= budget)
        cheaper = [own for loss, own in totals if loss < found.loss]
        if cheaper:
            rewrite(path, budget={"second": str(int(min(cheaper)))})
            assert_refused(path, nbest, second=second)


def test_a_bound_between_two_steps_of_the_losses_is_not_rounded_down(path: Path) -> None:
    """With a alone the least loss is 3. With b alone losses are 2 and 4, in steps of 2: no bound is between them."""
    nbest = NBest([[1, 0], [0, 1], [0, 0]], [0, 3], [3, 2, 4], names=["a", "b"])
    (best,) = lpmert.best_subsets(nbest, at_most=1).subsets
    lpmert.certify(nbest, best.result, path, ties="worst", at_most=1)
    assert verify(path, nbest).bound == 2
    rewrite(path, loss="3", bound="3", weights={"a": (1.0).hex(), "b": (0.0).hex()}, exponents={"a": 0})
    assert_refused(path, nbest, "the bound of this part is 0 units of the loss, and 1 are needed")


def test_a_certificate_of_too_many_sets_is_refused_at_once(path: Path) -> None:
    names = [f"f{k}" for k in range(60)]
    nbest = NBest(np.random.default_rng(0).normal(size=(4, 60)), [0, 2, 4], [0, 1, 1, 0], names=names)
    weights = dict.fromkeys(names, (0.0).hex()) | {"f0": (1.0).hex()}
    other = {"fingerprint": nbest.fingerprint, "weights": weights, "at_most": 30, "limits": []}
    words = "60 features have more than 50,000 sets of 30, one tree each"
    assert_refused(path, nbest, words, content={**document("two features"), **other})


def test_another_second_sum_is_refused(path: Path) -> None:
    nbest, text = base("budget")
    length = nbest.dense_features()[:, -1]
    assert_refused(path, nbest, "do not keep to the budget", content=text, second=length + 1)
    assert_refused(path, nbest, "needed|a core", second=length // 2)
    rewrite(path, budget={"words": "232"})
    assert verify(path, nbest, second=length).budget == {"words": 232}
    with pytest.raises(lpmert.DataError, match="no feature or statistic 'words'"):
        verify(path, nbest)


def test_sums_of_decimals_are_those_that_they_print_as(path: Path) -> None:
    """0.1 + 0.2 is within 0.3, which in doubles it is not."""
    lists = NBest([[1.0], [2.0], [1.0], [2.0]], [0, 2, 4], [[0], [0.1], [0], [0.2]], names=["a"])
    second = [0.1, 0.0, 0.2, 0.0]
    for budget, sums, loss in ((0.3, 0.3, "0"), (0.29, 0.0, "3/10")):
        result = lpmert.within_budget(lists, second, budget)
        assert result.sums == {"second": sums}
        lpmert.certify(lists, result, path, budget={"second": budget}, second=second)
        assert str(verify(path, lists, second=second).loss) == loss


@pytest.mark.parametrize(("message", "arguments"), [
    ("no proof with .* other ties than the 'worst' of best_subsets", {"ties": "first"}),
    ("budget must be {name: number}", {"at_most": None, "budget": [5]}),
    ("goes with second", {"at_most": None, "second": [1] * 60}),
    ("signs and zeros", {"region": Region(total=1.0)}),
    ("cannot be combined", {"budget": {"feature1": 1.0}}),
    ("a budget must be a finite number; got '5'", {"budget": {"feature1": "5"}}),
    ("1 may be", {"at_most": 1}),
    ("other weights lose less", {"at_most": 4}),
    ("one second sum", {"at_most": None, "budget": {"feature1": 1.0}}),
    ("one second sum", {"ties": "first", "at_most": None, "budget": {"feature1": 1.0, "feature2": 1.0}}),
    ("time_limit", {"time_limit": 0}),
])  # fmt: skip
def test_what_cannot_be_certified_is_said(path: Path, message: str, arguments: dict[str, Any]) -> None:
    nbest = base("two features")[0]
    result = lpmert.best_subsets(nbest, at_most=2)[2].result
    with pytest.raises(LpmertError, match=message):
        lpmert.certify(nbest, result, path, **{"ties": "worst", "at_most": 2, **arguments})
    assert not path.exists()


def test_checking_loads_no_search_engine_and_no_solver(path: Path) -> None:
    nbest, text = base("few boxes")
    path.write_text(text)
    np.savez(path.with_suffix(".npz"), features=nbest.features, offsets=nbest.offsets, statistics=nbest.statistics)
    program = (
        "import sys, lpmert; at_import = set(sys.modules)\n"  # importing the package loads nothing more by itself
        f"import numpy; nbest = lpmert.NBest(**numpy.load({str(path.with_suffix('.npz'))!r}))\n"
        f"assert lpmert.verify({str(path)!r}, nbest).proved\nprint(*at_import)\nprint(*sys.modules)"
    )
    at_import, loaded = map(str.split, python("-c", program).stdout.splitlines())
    assert not {name.split(".")[0] for name in loaded} & {"highspy", "scipy", "pulp", "networkx"}
    assert "numpy" not in at_import
    own = {name for name in loaded if name.startswith("lpmert.")}
    allowed = """
        certificates certificates.claims certificates.format certificates.lists certificates.verify errors files limits
        metrics metrics.base metrics.contract metrics.ratio model model.arrays model.nbest numeric numeric.lists
        numeric.rational
    """
    assert own | set(at_import) == {f"lpmert.{name}" for name in allowed.split()} | set(at_import)


def test_checking_lattices_loads_no_search(path: Path) -> None:
    made = 'lpmert.Lattices([[1.0, 0.0], [0.0, 1.0]], [0, 2], [0, 0], [1, 1], ["b", "a"], ["a"])'
    lattices = eval(made)
    lpmert.certify(lattices, lpmert.minimize(lattices), path)
    program = f"import sys, lpmert; assert lpmert.verify({str(path)!r}, {made}).proved; print(*sys.modules)"
    loaded = {name.split(".")[1] for name in python("-c", program).stdout.split() if name.startswith("lpmert.")}
    assert {"certificates", "model"} <= loaded
    assert not loaded & {"search", "methods", "lines", "api", "ranking"}


@pytest.mark.parametrize(("content", "place"), [
    (b"", ": the file is cut short"),
    (b"\x1f\x8b\x08\x00abc", ": the compressed file is damaged"),
    *((PACKED[:end], "") for end in (5, 40, len(PACKED) // 2, -9, -1)),
    (PACKED[:400] + bytes([PACKED[400] ^ 16]) + PACKED[401:], ""),
    (b"\xff\xfe", ": is UTF-16"),
    (b"{}", ":1: no record in the layout of a certificate: Extra data, character 3"),
    *((own, ":1: no record") for own in (b"\n", b"[]\n", b'{"tree": [\n]}\n', b"\x00\x01\x02")),
    (b'{"lpmert certificate": ' + b"[" * 100_000 + b', "tree": [\n]}\n', ":1: no record"),
    (b'{"lpmert certificate": 1, "tree": [\n]}\n', ":1: schema 2 needs a header with"),
    (FEW_BOXES.replace('certificate": 2', 'certificate": 3'), ":1: schema 2 needs a header with"),
    (FEW_BOXES.replace('"bound": ', '"bound": "0", "bound": '), ":1: .*'bound' .*twice"),  # readers differ in which
    (FEW_BOXES + "{}\n", ":27: the tree is closed, but something follows"),
    (FEW_BOXES.encode().replace(b"\n]}", b"\n\xff]}"), ":27: byte 0xff is not UTF-8"),
])  # fmt: skip
def test_a_refusal_names_the_file_once_and_a_line_only_if_there_is_one(path, content, place):
    said = assert_refused(path, base("few boxes")[0], re.escape(str(path)) + place, content=content)
    assert said.count(path.name) - ("iconv" in said) == 1


def write(path: Path, records: list[Record]) -> CertificateReader:
    with certificate_writer(path, HEADER) as add:
        for record in records:
            add(record)
    return CertificateReader(path)


@pytest.mark.parametrize("name", ["c.json", "c.json.gz", "c.json.xz"])
@pytest.mark.parametrize("records", [RECORDS, []])
def test_what_is_written_is_read_again(tmp_path: Path, name: str, records: list[Record]) -> None:
    reader = write(tmp_path / name, records)
    assert reader.header() == HEADER
    assert [reader.record() for _ in records] == records
    reader.end()
    assert reader.line == len(records) + 2


def test_a_second_run_writes_the_same_bytes_and_one_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    nbest, _ = base("selections")
    with pytest.raises(TypeError):
        write(tmp_path / "c.json", [{}, {"branch": object()}])
    assert not list(tmp_path.iterdir())
    first, second = (tmp_path / name for name in ("first.json.gz", "second.json.gz"))
    for path in (first, second):
        write_certificate(path, nbest, lpmert.minimize(nbest), kind="selections")
    assert first.read_bytes() == second.read_bytes()


def test_neither_writing_nor_reading_holds_the_tree_in_memory(path: Path) -> None:
    records: list[Record] = [{"out": [[0, 1, 0, 2, 10**500]]}] * 24_000

    def write_and_read() -> None:
        reader = write(path, records)
        reader.header()
        for _ in records:
            reader.record()
        reader.end()

    assert peak_of(write_and_read) < 7_000_000  # lines are read by the megabyte
    assert path.stat().st_size > 12_000_000


def test_commands_write_and_check_certificates(table: Path, path: Path) -> None:
    succeeded("solve", table, *COLUMNS, "--certificate", path, "--quiet")
    shown = succeeded("verify", path, table, *COLUMNS).stdout
    assert shown.splitlines()[-1].startswith("certificate holds: loss 2 is the least")
    found = json_of("verify", path, table, *COLUMNS)
    assert (found["loss"], found["bound"], found["proved"]) == (2.0, 2.0, True)
    path.write_text(path.read_text().replace('"2"', '"1"'))
    said = refusal("verify", path, table, *COLUMNS, code=5)
    assert f"certificate refused: {path}:1: the weights lose 2, not 1" in said
    path.unlink()
    outcome = succeeded("solve", table, *COLUMNS, "--target", "100", "--certificate", path)  # stopped before the end
    assert ("no certificate written" in outcome.stderr, path.exists()) == (True, False)
    # 2 * (1 + 3) / (2 + 3 + 5) = 0.8 is the best F1
    rows = ("list am lm match predicted gold", "a 1 0 1 2 2", "a 0 1 0 2 2", "b 1 0 3 3 3", "b 0 1 2 3 3")
    table.write_text("\n".join(rows).replace(" ", "\t"))
    columns = ("--segment", "list", "--features", "am,lm", "--statistics", "match,predicted,gold", "--metric", "f1")
    succeeded("solve", table, *columns, "--certificate", path, "--quiet")
    shown = succeeded("verify", path, table, *columns).stdout
    assert shown.splitlines()[-1].startswith("certificate holds: loss 0.2 is the least (metric:f1")


@pytest.mark.parametrize(("region", "said"), [
    (["--bounds", "am:..0"], ["where -1 am > 0", "within 1 limit "]),
    (["--fix", "am=1", "--bounds", "lm:-0.3333..7"], ["where +0.3333 am +1 lm > 0", "where +1 am -1/7 lm > 0"]),
    (["--linear", "am=1,lm=-0.3:0..0"], ["where +1 am -0.3 lm = 0", "within 1 equation "]),
    (["--bounds", "am:0..", "--at-most", "1"], ["where +1 am >= 0", "with at most 1 feature within 1 limit "]),
])  # fmt: skip
def test_limits_are_named_in_full(table: Path, path: Path, region: list[str], said: list[str]) -> None:
    succeeded("solve", table, *COLUMNS, *region, "--certificate", path, "--quiet")
    shown = succeeded("verify", path, table, *COLUMNS).stdout
    assert [one for one in said if one not in shown] == []


def test_control_characters_in_names_are_shown_as_such(table: Path, path: Path) -> None:
    """A terminal would obey them."""
    name = "\x1b[31mam"
    table.write_text(table.read_text().replace("am", name, 1))
    columns = [one.replace("am", name) for one in COLUMNS]
    limits = ("--bounds", f"{name}:0..", "--budget", f"{name}=9")
    solved = succeeded("solve", table, *columns, *limits, "--certificate", path, "-q")
    assert "\n\\x1b[31mam    0\n" in solved.stdout
    shown = succeeded("verify", path, table, *columns).stdout
    assert "where +1 \\x1b[31mam > 0" in shown
    assert "within 1 limit and \\x1b[31mam of at most 9 (" in shown
