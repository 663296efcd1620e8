"""The optimum over all paths of lattices, held to lists of all paths; no label that wins in a cone is lost."""

from fractions import Fraction
from itertools import product
from time import process_time
from types import SimpleNamespace

import numpy as np
import oracle
import pytest
from graph_problems import Drawn, listed_paths
from searches import many_more
from shared import needs_shared, shared

import lpmert
from lpmert import Lattices, Linear, NBest, Region, Status
from lpmert.methods.lattices import Cone, Expander, LatticeSearch, Leaf, all_mixes
from lpmert.metrics.text import EditTexts
from lpmert.model.canonical import CallerWeights, CanonicalWeights
from lpmert.model.lattice_problem import LatticeProblem, no_lists
from lpmert.search.method import Incumbent
from lpmert.workers import using_workers


def test_cones_that_cannot_be_split_and_what_leaves_do_not_settle_stay_unsettled_at_their_bound() -> None:
    lattices = Lattices([[1, 0], [0, 1]], [0, 2], [0, 0], [1, 1], [0, 1], ["x"], vocabulary=["x", "y"])
    weights, start = CanonicalWeights(np.array([1.0, 0.0])), None
    search = LatticeSearch(LatticeProblem(lattices, "wer"), Incumbent(100, weights, ""), start, 1)
    search._branch(Cone(np.array([[1.0, 0.0], [1.0, 2.0**-60]]), all_mixes(2), 0, 17, no_lists(), {}), [(0, 1)])
    assert (search.unsettled, len(search._queue)) == (None, 2)
    search._branch(Cone(np.array([[2.0**60, 0.0], [1.0, 1.0]]), all_mixes(2), 0, 17, no_lists(), {}), [(0, 1)])
    assert search.unsettled == 17
    counted = {"nodes": 1, "lps": 0, "effort": 0.0, "counters": dict}
    ended = SimpleNamespace(finished=True, unsettled=5, lower_bound=5, incumbent=Incumbent(90, weights, ""), **counted)
    search._leaf = Leaf(np.eye(2), no_lists(), ended, 10, 100, 0)  # settled lattices cost 10
    search._search_leaf(search._leaf)
    assert (search.unsettled, search._leaf) == (15, None)


def test_weights_beyond_the_region_and_on_its_edge_are_not_taken_whatever_they_lose() -> None:
    lattices = Lattices([[1, 0], [0, 1]], [0, 2], [0, 0], [1, 1], [0, 1], ["x"], vocabulary=["x", "y"])
    problem, weights = LatticeProblem(lattices, "wer", region=Region(nonnegative=True)), np.array([1.0, 0.0])
    search = LatticeSearch(problem, Incumbent(100, CanonicalWeights(weights), ""), None, 1)
    for last, cost in ((-0.5, 100), (0.0, 100), (0.5, 0)):
        assert search._try_weights(CanonicalWeights(np.array([1.0, last]))).loss == 0
        assert search.incumbent.cost == cost


@pytest.mark.parametrize("jobs", [2, 3, 7])
def test_threads_decode_lattices_side_by_side_as_one_does(jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lpmert.model.lattice_problem._LINKS_OF_UNIT", 3)
    for seed in range(700, 712):
        lattices = Drawn(seed, "ternary", 6, 3).lattices()
        weights = CallerWeights(np.random.default_rng(seed).integers(-2, 3, 3).astype(np.float64))
        alone = LatticeProblem(lattices).decode(weights)
        with using_workers("threads", jobs):
            together = LatticeProblem(lattices).decode(weights)
        for own, other in zip(alone.winners, together.winners, strict=True):
            assert sorted(way.tolist() for way in own.ways) == sorted(way.tolist() for way in other.ways)
        assert (alone.loss, alone.strict) == (together.loss, together.strict)


def test_paths_that_are_remembered_are_those_of_the_weights_asked_about() -> None:
    lattices = Drawn(720, "integers", 4, 2).lattices()
    remembering = LatticeProblem(lattices)
    asked = [[1.0, 2.0], [2.0, 1.0], [-1.0, 1.0], [1.0, -1.0], [-1.0, -2.0], [3.0, 1.0]]
    for weights in [*asked, *reversed(asked), *asked]:
        given = remembering.evaluate(weights)
        given.statistics[:] = -1.0  # whoever gets an evaluation may write to it
        anew, again = (problem.evaluate(weights) for problem in (LatticeProblem(lattices), remembering))
        assert (again.loss, again.tied_lists) == (anew.loss, anew.tied_lists)
        assert again.statistics.tolist() == anew.statistics.tolist()


@needs_shared
@pytest.mark.slow
@pytest.mark.parametrize(("n_lattices", "errors", "most"), [(60, 228, 55), (100, 386, None)])
def test_least_errors_are_those_of_an_independent_search(n_lattices: int, errors: int, most: int | None) -> None:
    """The figures are those of a search of its own, in its data's description, by plain dominance at the rays."""
    folder = shared("asr-lattices")
    silent = ["<sil>", "[NOISE]", "[SPEECH]"]
    whole = lpmert.load_lattices(folder / "lattices.tar.xz", folder / "references.tsv.gz", silent=silent, variants=True)
    lattices = whole.restrict(slice(0, n_lattices))
    region = Region(fixed={"acoustic": 1.0}, bounds={"lm": (3.0, 20.0), "words": (-12.0, 12.0)})
    result = lpmert.minimize(lattices, region=region)
    assert (result.loss, result.lower_bound, result.status) == (errors, errors, Status.OPTIMAL)
    assert lpmert.evaluate(lattices, result).loss == errors
    if most is not None:
        problem = LatticeProblem(lattices)
        assert sum(problem.least_loss(s) for s in range(n_lattices)) == most
        assert lpmert.evaluate(lattices, [1.0, 9.5, -0.63]).loss == 250


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
    assert 0.0 <= result.lower_bound <= result.loss


@pytest.mark.parametrize("metric", ["wer", "bleu", "ter"])
@pytest.mark.parametrize("block", [0, *(many_more(block) for block in range(1, 8))])
def test_what_the_oracle_does_not_know_ends_where_lists_of_all_paths_end(metric: str, block: int) -> None:
    """TER, and cosines, beside an equation too; the other metrics and regions stand in `test_methods.py`."""
    equation = Linear({"feature1": 3.0, "feature2": -0.7, "feature3": 1.0}, lower=0, upper=0)
    seen = 0
    for seed in range(15 * block, 15 * block + 15):
        drawn = Drawn(seed, "integers", 2, 3)
        drawn.words = [None if word is None else "aaab"[k % 4] for k, word in enumerate(drawn.words)]
        drawn.references = ["a a a b a", "a a b a a a"]
        if not 0 < np.prod([len(drawn.paths(s)) * any(drawn.paths(s)) for s in range(2)]) <= 400:
            continue
        drawn.features = drawn.features * np.random.default_rng(seed).normal(size=3)
        units = drawn.lattices().units
        drawn.features = np.rint(drawn.features / units) * units  # as lattices hold them
        region = Region(linear=[equation] * (seed % 2), cosine=0.4, around=[1.0, 2.0, -1.0])
        region = region if metric != "ter" or seed % 3 == 0 else Region(nonnegative=seed % 3 == 1)
        lists, measure = listed_paths(drawn, metric)
        found = lpmert.minimize(drawn.lattices(), metric=metric, region=region)
        wanted = lpmert.minimize(lists, metric=measure, region=region)
        assert (found.loss, found.status, found.lower_bound) == (wanted.loss, wanted.status, wanted.lower_bound), seed
        assert lpmert.evaluate(drawn.lattices(), found, metric=metric).loss == found.loss
        seen += 1
    assert seen > 5


@pytest.mark.parametrize("lowercase", [False, True])
def test_words_are_counted_by_their_numbers_as_they_are_in_texts(lowercase: bool) -> None:
    words = ["A", "a", "\u039f\u03a3", "\u03bf\u03c2", "\u03a3", None, "b"]
    references = [["a a \u03bf\u03c2 \u03bf\u03c3 B", "\u0391 a \u03c3 b"]]
    chain = Lattices(np.eye(7), [0, 7], range(7), range(1, 8), words, references)
    settings = EditTexts(lowercase=lowercase)
    problem = LatticeProblem(chain, settings)
    for chosen in ([*range(7)], [0, 2, 5], [3, 4, 6], [5], [1, 1, 2, 3]):
        way = np.array(chosen[::-1])
        text = " ".join(word for k in chosen if (word := words[k]) is not None)
        assert problem.statistics(0, way).tolist() == settings.counter(chain.references[0])(text)


def test_a_loss_that_only_rounding_gives_is_called_optimal_to_tolerance_above_a_true_bound() -> None:
    """Two lattices with two places, two links in parallel each: multiples of one vector, but for rounding."""
    one = [0.03300010398406011, -1.4253489608701877, 0.33281361313804664]
    two, three = (
        [0.06600020796812021, -2.8506979217403754, 0.6656272262760933],
        [0.09900031195218031, -4.276046882610563],
    )
    three.append(0.99844083941414)
    links = np.array([two, one, three, three, one, one, three, two]) * [[-1], [0], [1], [1], [-1], [1], [-1], [1]]
    losses, places = [1.0, 1.0, 4.0, 2.0, 4.0, 0.0, 3.0, 4.0], np.array([0, 0, 1, 1] * 2)
    region = Region(linear=[Linear({"f0": -3.0, "f1": -2.0, "f2": -2.0}, lower=0, upper=0)])
    names = ["f0", "f1", "f2"]
    lattices = Lattices(links, [0, 4, 8], places, places + 1, list("abcdefgh"), losses=losses, names=names)
    found = lpmert.minimize(lattices, metric="loss", region=region)
    units = [Fraction(unit) for unit in lattices.units.tolist()]
    held = [[round(Fraction(x) / unit) * unit for x, unit in zip(row, units, strict=True)] for row in links.tolist()]
    paths = [(first + start, second + start) for start in (0, 4) for first, second in product((0, 1), (2, 3))]
    sums = [[a + b for a, b in zip(held[first], held[second], strict=True)] for first, second in paths]
    rows = np.array(sums, dtype=np.float64)
    assert [[Fraction(value) for value in row] for row in rows.tolist()] == sums  # so that lists hold the same
    listed = NBest(rows, [0, 4, 8], [losses[first] + losses[second] for first, second in paths], names=names)
    same = lpmert.minimize(listed, region=region, method="choices")
    assert (same.status, found.status) == (Status.OPTIMAL, Status.OPTIMAL_TO_TOLERANCE)
    assert found.lower_bound <= same.loss < found.loss
    assert "needs weights that double precision cannot tell from a tie" in str(found)


@pytest.mark.parametrize("kind", ["integers", "ternary", "dyadic"])
def test_labels_are_all_that_win_somewhere_in_the_cone(kind: str) -> None:
    """No path that some weights of the cone make strictly best is missing; without ties, few others stay."""
    left_over = listed = 0
    for seed in range(40):
        rng = np.random.default_rng(3000 + seed)
        width = int(rng.integers(1, 4))
        drawn, rays = Drawn(seed, kind, 1, width), rng.integers(-8, 9, size=(width, width)).astype(float)
        if not drawn.searchable or abs(np.linalg.det(rays)) < 0.5:
            continue
        problem = LatticeProblem(drawn.lattices())
        search = LatticeSearch(problem, Incumbent(0, CanonicalWeights(rays[0]), ""), None, 1)
        expander = Expander(problem)
        [view] = expander.views([(0, expander.whole(0), {})], rays, all_mixes(width), 10**6)
        ids, _ = search.take_view(0, view)
        features, offsets, _ = drawn.listed()
        factors = [Fraction(factor) for factor in problem.coordinates.scales.tolist()]
        rows = [[x * factor for x, factor in zip(row, factors, strict=True)] for row in features]
        narrower = np.vstack([rays.sum(axis=0), rays[1:]])
        left = search.narrowed(no_lists().joined({0: ids}), narrower)[0].ids
        kept, still = ({tuple(row) for row in search.catalogue.features[one].tolist()} for one in (ids, left))
        for cone, found in ((rays, kept), (narrower, still)):
            exact = [[Fraction(value) for value in ray] for ray in cone.tolist()]
            sides = []  # each is 0 at all rays but one, and positive there
            for k, ray in enumerate(exact):
                (side,) = oracle.null_space([*exact[:k], *exact[k + 1 :]], width)
                sides.append([value if oracle.dot(side, ray) > 0 else -value for value in side])
            must = {tuple(map(float, rows[row])) for (row,) in oracle.attainable(rows, offsets, sides)}
            assert must <= found <= kept
            left_over += len(found - must)
            listed += len(found)
    assert left_over <= 0.25 * listed > 10
