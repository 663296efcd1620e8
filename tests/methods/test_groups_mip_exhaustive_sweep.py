"""Groups, mip, exhaustive and sweep: bounds, known counts, hulls, cross products in fractions, refusals."""

import inspect
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import partial
from itertools import combinations, pairwise, product
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from late import Late
from numpy.typing import ArrayLike
from oracle import Lists, best_loss
from problems import gaussian_lists
from refusals import refused
from scipy.linalg import block_diag
from scipy.spatial import ConvexHull
from searches import many_more, peak_of
from shared import needs_shared, swahili
from test_known_optima import ring

import lpmert
from lpmert import DataError, MethodError, Problem, Status, core
from lpmert.errors import FloatArray, IntArray
from lpmert.limits import OutOfTime
from lpmert.lines import DEFAULT_BUDGET, descend
from lpmert.methods import Groups, Incumbent, Mip
from lpmert.methods.enumeration import attainable_selections, critical_directions
from lpmert.methods.groups import independent_parts
from lpmert.model.canonical import CanonicalWeights
from lpmert.numeric.cone import LinOptimizer
from lpmert.search.method import Enumeration

pytestmark = pytest.mark.usefixtures("poor_start")


def test_the_bound_beats_the_sum_of_minima_where_no_search_ends() -> None:
    lists = gaussian_lists(6, lists=60, hypotheses=20, features=10)
    result = lpmert.minimize(lists.nbest, method="groups", node_limit=3000)
    assert result.status is Status.NODE_LIMIT
    assert lists.losses.reshape(60, 20).min(axis=1).sum() < result.lower_bound < result.loss


def blocks(*parts: Lists) -> Lists:
    """Lists each of which has features of its own, those of the parts."""
    features = block_diag(*(part.features for part in parts))
    sizes = np.concatenate([np.diff(part.offsets) for part in parts])
    losses = np.concatenate([part.losses for part in parts])
    return Lists(features, np.concatenate([[0], np.cumsum(sizes)]), losses)


def test_lists_without_a_feature_in_common_are_parts_and_a_limit_joins_them() -> None:
    lists = blocks(*(gaussian_lists(seed, lists=3, hypotheses=4, features=2) for seed in range(3)))
    form = Problem(lists.nbest).canonical
    parts = independent_parts(form.features, form.offsets)
    assert [part.tolist() for part in parts] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    region = lpmert.Region(linear=[lpmert.Linear({"feature1": 1.0, "feature6": -1.0}, lower=0)])
    joined = Problem(lists.nbest, region=region).canonical
    assert [len(part) for part in independent_parts(joined.features, joined.offsets)] == [7, 3]


def test_the_parts_of_many_dense_lists_take_less_memory_than_their_features() -> None:
    """There are 200,000 pairs of a list and a feature that varies in it."""
    features, offsets = np.random.default_rng(0).normal(size=(4000, 100)), np.arange(0, 4001, 2)
    independent_parts(features[:4], offsets[:3])  # what is imported then does not count
    assert peak_of(lambda: independent_parts(features, offsets)) < 5 * features.nbytes
    assert [part.tolist() for part in independent_parts(features, offsets)] == [list(range(2000))]


def test_the_optima_of_independent_parts_add_up_to_a_proved_optimum() -> None:
    """One search over all 64 lists and 32 features is far from a proof after many times as many nodes."""
    parts = [gaussian_lists(seed, lists=8, hypotheses=6, features=4) for seed in range(8)]
    optima = [lpmert.minimize(part.nbest, method="choices") for part in parts]
    together = blocks(*parts).nbest
    results = [lpmert.minimize(together, method=Groups(size=size), node_limit=100_000) for size in (2, 8)]
    assert {optimum.status for optimum in (*optima, *results)} == {Status.OPTIMAL}
    assert {result.loss for result in results} == {sum(optimum.loss for optimum in optima)}
    assert results[1].counters["groups"] == 8
    one = lpmert.minimize(together, method="choices", node_limit=4 * results[1].counters["nodes"])
    assert one.status is Status.NODE_LIMIT
    assert one.lower_bound < results[1].loss


@needs_shared
@pytest.mark.slow
def test_all_swahili_lists_have_a_bound_above_their_minima_in_30_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """And better weights than descents from twenty starts; the time is the processor's."""
    monkeypatch.setattr("lpmert.search.incumbent.DEFAULT_BUDGET", DEFAULT_BUDGET)
    nbest, begin = swahili(), time.process_time()
    result = lpmert.minimize(nbest, method="groups", callback=lambda _: time.process_time() - begin >= 30.0)
    oracle = float(np.minimum.reduceat(nbest.statistics[:, 0], nbest.offsets[:-1]).sum())
    assert oracle + 2.0 < result.lower_bound < result.loss
    form = Problem(nbest).canonical
    cost, _ = descend(form.features, form.offsets, form.costs, starts=20, budget=10**10)
    assert result.loss < form.loss_of(cost)


pulp = Late("pulp")


def test_the_optimum_is_never_called_proved_on_the_word_of_a_solver() -> None:
    """The signature names its settings, but no clock."""
    nbest = gaussian_lists(0, lists=8, hypotheses=4, features=3).nbest
    results = [lpmert.minimize(nbest, method="mip", time_limit=limit) for limit in (None, 50, 60)]
    ((status, signature),) = {(result.status, result.signature) for result in results}
    assert (status, "method:mip|" in signature, results[0].loss > 0) == (Status.OPTIMAL_TO_TOLERANCE, True, True)


def test_selections_that_only_ties_reach_are_cut_off() -> None:
    """With equal weights all n lists are tied, which the program takes for the best choice everywhere."""
    for n in (3, 4, 5):
        assert lpmert.minimize(ring(n).lists, method="mip").counters["cores"] >= 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_all_solvers_that_are_there_agree() -> None:
    lists = gaussian_lists(3, lists=6, hypotheses=4, features=3)
    there = {"HiGHS", "PULP_CBC_CMD"} & set(pulp.listSolvers(onlyAvailable=True))
    assert "HiGHS" in there
    for solver in there:
        result = lpmert.minimize(lists.nbest, method=Mip(solver=solver))
        assert result.loss == result.lower_bound == float(best_loss(lists))
        assert solver in result.signature or solver == "HiGHS"


def attained_by(features: FloatArray, offsets: IntArray) -> list[list[int]]:
    return [chosen.tolist() for chosen, _ in attainable_selections(LinOptimizer(features, offsets))]


def joined(blocks: Iterable[ArrayLike]) -> tuple[FloatArray, IntArray]:
    arrays = [np.asarray(block, dtype=np.float64) for block in blocks]
    return np.concatenate(arrays), np.cumsum([0, *map(len, arrays)])


THINGS: dict[str, Callable[[int], Any]] = {
    "threshold functions": lambda n: ([(0,) * (n + 1), (1, *x)] for x in product((0, 1), repeat=n)),
    "permutations": lambda n: combinations(np.eye(n), 2),
    "binary trees": lambda n: (np.eye(n)[i:j] for i in range(n) for j in range(i + 2, n + 1)),
    "resonance arrangement": lambda n: ([(0,) * n, x] for x in product((0, 1), repeat=n) if any(x)),
}
"""Lists of which each attainable selection stands for one of these."""


@pytest.mark.parametrize(
    ("of", "counts"),
    [
        ("threshold functions", {2: 14, 3: 104}),
        many_more("threshold functions", {4: 1882}),
        ("permutations", {3: 6, 4: 24, 5: 120}),
        ("binary trees", {3: 5, 4: 14, 5: 42}),
        many_more("binary trees", {6: 132}),
        ("resonance arrangement", {2: 6, 3: 32}),
        many_more("resonance arrangement", {4: 370}),
    ],
)
def test_selections_are_as_many_as_the_things_they_stand_for(of: str, counts: dict[int, int]) -> None:
    assert {width: len(attained_by(*joined(THINGS[of](width)))) for width in counts} == counts


def test_random_pairs_have_as_many_selections_as_hyperplanes_have_regions() -> None:
    for lists, width in ((4, 3), (10, 3), (12, 4), (10, 5), (6, 1), (7, 2), (3, 6)):
        rng = np.random.default_rng(lists * width)
        pairs = joined([[np.zeros(width), row] for row in rng.normal(size=(lists, width))])
        assert len(attained_by(*pairs)) == 2 * sum(comb(lists - 1, k) for k in range(width))


@pytest.mark.parametrize("seed", range(4))
def test_attainable_hypotheses_of_a_planar_list_are_the_vertices_of_its_hull(seed: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(50, 2)) if seed % 2 else rng.uniform(size=(80, 2))
    found = attained_by(points, np.array([0, len(points)]))
    assert found == [[vertex] for vertex in sorted(ConvexHull(points).vertices.tolist())]


def test_hundreds_of_lists_do_not_meet_a_recursion_limit() -> None:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 250)
    try:
        assert attained_by(np.tile([[0.0], [1.0]], (300, 1)), np.arange(0, 601, 2)) == [[0] * 300, [1] * 300]
    finally:
        sys.setrecursionlimit(before)


@settings(deadline=None, max_examples=300)
@given(seed=st.integers(0, 2**32), noise=st.sampled_from([0.0, 1e-16, 1e-15, 1e-3]), scale=st.integers(-30, 0))
def test_directions_are_in_the_order_of_exact_cross_products(seed, noise, scale):
    """Two lists of two points nearly on a line: each has an edge, there and back."""
    rng = np.random.default_rng(seed)
    along = rng.integers(-9, 10, 4) * 0.1
    x = along * 10.0**scale
    y = along * rng.choice([0.3, 1.0, -0.7]) + noise * rng.integers(-3, 4, 4)
    points = [(Fraction(a), Fraction(b)) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    _, leaving, entering, ends = core.critical_directions(x, y, np.array([0, 2, 4]))
    pairs = zip(leaving.tolist(), entering.tolist(), strict=True)
    ways = [(points[q][0] - points[p][0], points[q][1] - points[p][1]) for p, q in pairs]
    assert len(ways) == 2 * sum(points[p] != points[p + 1] for p in (0, 2))
    groups = np.searchsorted(ends, np.arange(len(ways)), side="right").tolist()
    for (i, (a, b)), (j, (c, d)) in combinations(enumerate(ways), 2):
        turn = (d < 0 or (d == 0 and c < 0)) - (b < 0 or (b == 0 and a < 0)) or a * d - b * c
        assert turn >= 0
        assert (turn > 0) == (groups[i] < groups[j])


@pytest.mark.parametrize(("share", "corners"), [(1 / 3, [0, 1, 2]), (1 / 2, [0, 1])])
def test_a_corner_is_one_however_little_it_lies_beyond_the_others(share, corners):
    """(1/12, 1/4) in doubles is beside the line from (0, 0) to (1/4, 3/4), on which rounded products put it."""
    x = np.array([0.0, 1.0, share]) / 4
    _, leaving, _, _ = core.critical_directions(x, np.array([0.0, 0.75, round(3 * share, 1) / 4]), np.array([0, 3]))
    assert sorted(leaving.tolist()) == corners


@pytest.mark.parametrize("bits", [48, 51])
def test_a_cell_that_rounding_may_miss_is_decided_exactly(bits):
    """Its middle decodes to the least cost, with a lead that another order of summation may turn."""
    nbest = lpmert.NBest([[0.0, 0.0], [1.0, 1.0], [0.0, 0.0], [1.0, 1.0 + 2.0**-bits]], [0, 2, 4], [1, 0, 0, 1])
    result = lpmert.minimize(nbest, method="sweep")
    assert (result.status, result.loss, result.selection.tolist()) == (Status.OPTIMAL, 0, [1, 0])


def test_middles_lie_in_the_cells_that_the_events_lead_to():
    rng = np.random.default_rng(2)
    features, offsets = rng.normal(size=(60, 2)), np.arange(0, 61, 12)
    start, left, entered, ends, middles, widths = critical_directions(features, offsets)
    selection = start.copy()
    lists = np.repeat(np.arange(5), 12)
    for (begin, end), middle in zip(pairwise([0, *ends]), middles, strict=True):
        for leaving, entering in zip(left[begin:end], entered[begin:end], strict=True):
            assert selection[lists[leaving]] == leaving
            selection[lists[leaving]] = entering
        assert ((features @ middle).reshape(5, 12).argmax(axis=1) + offsets[:-1]).tolist() == selection.tolist()
    assert selection.tolist() == start.tolist()
    assert widths.sum() == pytest.approx(2 * np.pi)


# The first list wants a > 0, the second a + b < 0; the third wants b < 0, the fourth b > 0.
ROWS = [[0, 0], [1e-140, 0], [-1, 0], [0, 0], [1, 1], [0, 0], [0, -1], [0, 0], [0, -1], [0, -2]]
TOO_WIDE = lpmert.NBest(ROWS, [0, 3, 5, 7, 10], [1, 0, 1, 0, 1, 1, 0, 0, 1, 1])
THREE = lpmert.NBest(np.vstack([np.eye(3), -np.eye(3)]), [0, 6], range(6))

test_what_a_method_does_not_take_is_refused = refused(
    [
        (MethodError, "highs", partial(lpmert.minimize, THREE, method=Mip(solver="cplox"))),
        (MethodError, "two features", partial(lpmert.minimize, THREE, method="sweep")),
        (DataError, "feature 1 span more than 132 orders", partial(lpmert.minimize, TOO_WIDE, method="sweep")),
    ]
)


def test_auto_takes_another_method_for_features_beyond_the_range_of_the_sweep() -> None:
    result = lpmert.minimize(TOO_WIDE)
    assert (result.status, result.loss, result.lower_bound) == (Status.OPTIMAL, 1, 1)


def test_an_enumeration_that_was_given_up_in_a_step_is_never_at_its_end() -> None:
    def steps() -> Iterator[int | None]:
        yield None
        raise OutOfTime

    search = Enumeration(Incumbent(7, CanonicalWeights(np.ones(1)), ""), steps())
    with pytest.raises(OutOfTime):
        search.advance()
    search.advance()
    assert (search.finished, search.lower_bound) == (False, 0)
