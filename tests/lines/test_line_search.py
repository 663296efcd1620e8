"""Exact line searches on lists and graphs, against brute force and other tools; restarts and stabilised tuning."""

import re
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import chain, combinations, pairwise, product, repeat

import numpy as np
import pytest
from graph_problems import DrawnHypergraphs, all_ways, lists_of_all_ways, real_lattices
from hypothesis import assume, given, settings, strategies as st
from oracle import decoded, directions_of_the_plane
from problems import METRICS, Plain, random_nbest
from refusals import refused
from shared import needs_shared, swahili

import lpmert
from lpmert import Hypergraphs, Lattices, MethodError, NBest, Problem, Region, core, minimize
from lpmert.lines import DESCENTS, LEAST_STARTS, Clock, LineSearch, descend, line_search, local_optima, usual_starts
from lpmert.methods import Och, Stabilised
from lpmert.methods.direct_search import BEST, Iteration
from lpmert.model.canonical import Canonical
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.search.driver import solve

AXES = np.array([1.0, 0.0]), np.array([0.0, 1.0])

# Features and score per hypothesis, to be maximised; of travatar's test-tune at the start, the slope, and in tenths.
PORTAGE_POWELL = [[(1, -1, 0, 1), (3, 1, 0, 2), (3, 0, 1, 3)], [(1, -1, 0, 1), (5, 1, 0, 3), (0, 0, -2, 2)]]
TRAVATAR = [[(1, -1, 2), (3, 1, 1), (1, 1, 3)], [(7, -1, 1), (3, 1, 2), (6, 0, 3)]]


def lists_of(rows):
    """Features, offsets, and costs of 10 less the score."""
    flat = np.array([entry for row in rows for entry in row], dtype=np.float64)
    return np.ascontiguousarray(flat[:, :-1]), np.cumsum([0, *map(len, rows)]), 10 - flat[:, -1].astype(np.int64)


def search_of(features, offsets, costs):
    no_limits = np.empty((0, features.shape[1]))
    return LineSearch(Canonical(features, offsets, np.asarray(costs, dtype=np.int64), no_limits))


def ragged(seed, *, lists=6, size=5, dimension=3, kind="loss", integers=True):
    """Lists of any length up to this size."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, size + 1, lists))])
    count, shape = offsets[-1], (offsets[-1], dimension)
    features = rng.integers(-3, 4, shape).astype(float) if integers else rng.normal(size=shape)
    statistics = METRICS[kind][2](rng, offsets.tolist()) if kind in METRICS else rng.integers(0, 6, count).astype(float)
    return NBest(features, offsets, statistics)


def brute_force(problem, weights, direction):
    """Levels between all crossings of two lines of a list, by plain decoding: (begin, end, level)."""
    form = problem.canonical
    intercepts, slopes = form.features @ weights, form.features @ direction
    pairs = (pair for ends in pairwise(form.offsets.tolist()) for pair in combinations(range(*ends), 2))
    crossings = {(intercepts[i] - intercepts[j]) / (slopes[j] - slopes[i]) for i, j in pairs if slopes[i] != slopes[j]}
    ends = [-np.inf, *sorted(crossings), np.inf]
    inside = [0.0 if not crossings else ends[1] - 1.0, *((a + b) / 2 for a, b in pairwise(ends[1:-1])), ends[-2] + 1.0]
    wide = ((low, high, t) for (low, high), t in zip(pairwise(ends), inside, strict=False) if high - low > 1e-9)
    return [(low, high, level_at(problem, weights + t * direction)) for low, high, t in wide]


def joined(pieces):
    """Pieces of a line, neighbours that touch made one."""
    found = [pieces[0]]
    for low, high in pieces[1:]:
        first = found.pop()[0] if low <= found[-1][1] + 1e-9 else low
        found.append((first, high))
    return found


def level_at(problem, weights):
    form = problem.canonical
    chosen = decoded(form.features, form.offsets, weights)
    if form.additive:
        return float(form.costs[chosen].sum())
    return problem.metric.loss(form.totals.constant + form.totals.statistics[chosen].sum(axis=0))


@pytest.mark.parametrize(
    ("high", "score", "ends"), [(np.inf, 4, (1, 3)), (0.0, 3, (-np.inf, -1)), (-3.0, 3, (-np.inf, -3))]
)
def test_line_search_reaches_the_scores_that_travatar_asserts(high, score, ends):
    search = line_search(*lists_of(TRAVATAR))
    assert search.at(AXES[0]) == 20 - 2
    level, t = search.along(*AXES, -np.inf, high, 1.0)
    assert level == search.at(AXES[0] + t * AXES[1]) == 20 - score
    assert ends[0] < t <= ends[1]


def test_powell_reaches_the_score_that_portage_asserts():
    features, offsets, costs = lists_of(PORTAGE_POWELL)
    search = search_of(features, offsets, costs)
    weights, level = DESCENTS["powell"](search, np.ones(3), Clock(Problem(NBest(features, offsets, costs))))
    assert level == search.at(weights) == search.at(np.array([1.0, -0.5, 0.5])) == 20 - 6


@given(seed=st.integers(0, 10**6), kind=st.sampled_from(["loss", "bleu", "f1"]), integers=st.booleans())
@settings(deadline=None, max_examples=60)
def test_line_search_equals_brute_force_over_all_breakpoints(seed, kind, integers):
    problem = Problem(ragged(seed, kind=kind, integers=integers), kind)
    form = problem.canonical
    assume(form.n_features)
    search, rng = LineSearch(form), np.random.default_rng(seed)
    weights, axes = rng.normal(size=form.n_features), list(np.eye(form.n_features))
    for direction in [*axes, rng.normal(size=form.n_features)]:
        surface = brute_force(problem, weights, direction)
        least = min(level for _, _, level in surface)
        step = search.along(weights, direction)
        assert step.level == pytest.approx(least, abs=1e-12)
        assert level_at(problem, weights + step.t * direction) == pytest.approx(least, abs=1e-12)
        best = joined([(low, high) for low, high, level in surface if level <= least + 1e-12])
        merit = [-max(low, -high, 0.0) for low, high in best]
        (chosen,) = (place for place, (low, high) in enumerate(best) if low < step.t < high)
        assert merit[chosen] == pytest.approx(max(merit))
    _, step = search.best_coordinate(weights, np.arange(search.dimension))
    levels = [search.along(weights, axis).level for axis in axes]
    assert step.level == pytest.approx(min(levels), abs=1e-12)


@given(st.integers(0, 10**6), st.sampled_from(["loss", "bleu", "f1"]), st.sampled_from([*DESCENTS]))
@settings(deadline=None, max_examples=80)
def test_with_two_features_all_line_searches_find_the_optimum(seed, kind, directions):
    nbest = ragged(seed, lists=8, dimension=2, kind=kind, integers=seed % 2 == 0)
    problem = Problem(nbest, kind)
    found = solve(Och(directions=directions), problem, seed=seed)
    assert found.lower_bound is None
    if kind == "loss":
        assert found.loss == minimize(nbest, method="sweep").loss
    elif problem.canonical.n_features == 2:
        plane = directions_of_the_plane(problem.canonical.features, problem.canonical.offsets)
        assert found.loss == pytest.approx(min(level_at(problem, weights) for weights in plane), abs=1e-12)


@pytest.mark.parametrize(
    ("first", "costs", "at"),
    [([0.0, 0.0, 1.0], [5, 1, 9], 1), ([1.0, 0.0, 0.0], [5, 1, 0], 5)],  # the other has an edge of greatest scores
)
def test_of_equal_lines_the_first_counts(first, costs, at):
    """The last two differ in a feature that plays no part on this line."""
    search = search_of(np.array([first, [1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]), np.array([0, 3]), costs)
    weights, axis, _ = np.eye(3)
    levels = search.along(weights, axis).level, search.best_coordinate(weights, np.array([1]))[1].level
    assert (search.at(weights), *levels) == (at, 1, 1)


@pytest.mark.parametrize("kind", ["loss", "f1"])
def test_line_searches_stay_within_a_cosine(kind):
    """`test_methods.py` does the same for all other kinds of regions."""
    region = Region(cosine=0.8, around={"feature1": 1.0, "feature2": 0.5, "feature3": 2.0})
    for seed, directions in product(range(4), DESCENTS):
        nbest, method = ragged(seed, lists=10, kind=kind, integers=False), Och(directions=directions, restarts=5)
        result = minimize(nbest, metric=kind, region=region, method=method, seed=seed)
        found = lpmert.evaluate(nbest, result, metric=kind, region=region)
        assert (found.inside, found.loss) == (True, result.loss)


def test_line_search_within_a_cap_is_as_good_as_the_best_of_the_line_inside_it():
    region = Region(cosine=0.7, around={"feature1": 1.0, "feature2": 1.0, "feature3": 1.0})
    form = Problem(ragged(3, lists=20, integers=False, kind="f1"), "f1", region=region).canonical
    search, rng = LineSearch(form), np.random.default_rng(0)
    for _ in range(20):
        weights, direction = form.interior + 0.1 * rng.normal(size=3), rng.normal(size=3)
        low, high = search.range(weights, direction)
        for t in (low, high):
            assert np.isinf(t) or form.cap.cosine_of(weights + t * direction) == pytest.approx(form.cap.cosine)
        line = [weights + t * direction for t in np.linspace(max(low, -50), min(high, 50), 2000)[1:-1]]
        assert min(map(form.cap.cosine_of, line)) >= form.cap.cosine - 1e-9
        assert search.along(weights, direction).level <= min(map(search.at, line)) + 1e-12


def decode(features, offsets, costs, weights):
    return costs[decoded(features, offsets, weights)].sum()


def lists_of_costs(seed, **shape):
    nbest = ragged(seed, **shape)
    return nbest.features, nbest.offsets, nbest.statistics[:, 0].astype(int)


def test_all_hypotheses_on_a_convex_curve_are_on_the_envelope():
    """Between the first events and after the last; `reporting/test_pictures.py` holds their losses to decoding."""
    slopes = np.random.default_rng(0).permutation(np.arange(-200.0, 201.0))
    lines, rows = core.FeatureLines(np.array([0, len(slopes)])), np.arange(len(slopes))
    _, start, thresholds, leaving, entering = lines.events(rows, slopes, 0.0, -slopes * slopes)
    order = np.argsort(thresholds)
    assert [*slopes[start], *slopes[entering[order]]] == list(range(-200, 201))
    assert slopes[leaving[order]].tolist() == list(range(-200, 200))
    assert thresholds[order] == pytest.approx(np.arange(-399, 400, 2))


@pytest.mark.parametrize("lists", [40, 1500])
def test_descent_finds_planted_weights(lists):
    rng, size, dimension = np.random.default_rng(7), 20, 3
    features = rng.normal(size=(lists * size, dimension)) * 10.0 ** np.arange(-3, dimension - 3)
    offsets = np.arange(0, lists * size + 1, size)
    planted = rng.normal(size=dimension) / 10.0 ** np.arange(-3, dimension - 3)
    best = (features @ planted).reshape(lists, size).argmax(axis=1) + offsets[:-1]
    costs = rng.integers(1, 9, lists * size)
    costs[best] = 0
    cost, weights = descend(features, offsets, costs, seed=1)
    assert cost <= lists // 500
    assert (decode(features, offsets, costs, weights), np.abs(weights).max()) == (cost, 1.0)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32), dimension=st.integers(1, 4))
def test_descent_returns_what_its_weights_decode_to_without_leaning_on_ties(seed, dimension):
    rng = np.random.default_rng([seed, 1])
    features, offsets, costs = lists_of_costs(seed, size=6, dimension=dimension)
    features = features + 1e-3 * rng.integers(0, 2, features.shape)
    cost, weights = descend(features, offsets, costs, budget=4000, seed=seed)
    for one in (weights, weights + 1e-9 * rng.normal(size=dimension)):
        assert decode(features, offsets, costs, one) == cost


def test_descent_is_deterministic_and_never_worse_than_its_initial_weights():
    features, offsets, costs = lists_of_costs(11, lists=30, size=20, dimension=6, integers=False)
    (cost, weights), again = (descend(features, offsets, costs, seed=2, budget=60_000) for _ in range(2))
    assert (again[0], again[1].tolist()) == (cost, weights.tolist())
    assert descend(features, offsets, costs, seed=3, initial=weights, starts=1, budget=1)[0] <= cost


def problem_of(seed=0, lists=30):
    return Problem(random_nbest(seed, lists=lists, size=8, dimension=4))


def starts_of(levels, given=1, count=None):
    """How many starts are made if the n-th of them ends at the n-th level (then at the last one for ever)."""
    problem, ends = problem_of(), chain(levels, repeat(levels[-1]))
    search, rng = LineSearch(problem.canonical), np.random.default_rng(0)
    ended = local_optima(search, lambda _s, at, _c: (at, next(ends)), [np.ones(4)] * given, rng, Clock(problem), count)
    return len(ended)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=40))
@settings(deadline=None, max_examples=60)
def test_foster_and_kuhn_stop_after_as_many_starts_as_the_best_needed(levels):
    padded = levels + [levels[-1]] * 200
    expected = best_at = 0
    while expected < max(LEAST_STARTS, 2 * best_at):
        expected += 1
        if padded[expected - 1] < min(padded[: expected - 1], default=np.inf):
            best_at = expected
    assert starts_of(levels) == expected


@pytest.mark.parametrize(
    ("levels", "given", "count", "starts"),
    [
        ([5], 25, None, 10),  # given starts are among the ten, and those beyond are left out
        ([5, 4, 4, 4, 4, 4, 4, 3], 25, None, 16),
        ([5], 25, 2, 27),  # a fixed number follows the given starts
        ([5], 1, 7, 8),
        ([5], 1, 0, 1),
    ],
)
def test_so_many_starts_are_made(levels, given, count, starts):
    assert starts_of(levels, given, count) == starts


def rounds_of(method, problems):
    history = []
    return [solve(replace(method, earlier=history), problem) for problem in problems], history


BASELINE = Stabilised(reseed=False, history=False, selection=None)


def test_each_iteration_returns_what_decoding_gives_and_its_best_optima():
    """Without selection the best one."""
    problems = [problem_of(seed, lists=20) for seed in range(4)]
    for method in (Stabilised(), BASELINE, Stabilised(regularised=True, selection=(1.0, 1.0, 3))):
        for problem, result, iteration in zip(problems, *rounds_of(method, problems), strict=True):
            assert result.loss == problem.evaluate(result.weights).loss
            assert iteration.weights.tolist() == result.weights.tolist()
            losses = [problem.evaluate(weights).loss for weights in iteration.optima]
            assert 1 <= len(losses) <= BEST
            assert losses == sorted(losses)
            assert result.loss == losses[0] or (method is not BASELINE and result.loss > losses[0])


def test_history_never_forgets_an_optimum_of_the_same_lists():
    results, _ = rounds_of(Stabilised(selection=None), [problem_of(9, lists=60)] * 5)
    losses = [result.loss for result in results]
    assert losses == sorted(losses, reverse=True)


def test_the_same_seed_repeats_random_starts_unless_reseeded():
    problem = problem_of(9, lists=60)
    for method, repeats in ((BASELINE, True), (Stabilised(selection=None), False)):
        histories = [[Iteration(np.zeros(4), ())] * iteration for iteration in (1, 2)]
        for history in histories:
            solve(replace(method, earlier=history), problem)
        first, second = ([weights.tolist() for weights in history[-1].optima] for history in histories)
        assert (first == second) == repeats


def test_selection_trades_loss_for_distance_from_recent_weights():
    problem = problem_of(11, lists=60)
    _, (first,) = rounds_of(Stabilised(selection=(10.0, 9.0, 3)), [problem])  # in the first iteration distance alone
    distances = []
    for selection in ((10.9, 9.9, 3), None):
        history = [Iteration(first.optima[0], first.optima)]
        result = solve(Stabilised(selection=selection, earlier=history), problem)
        distances.append(np.linalg.norm(result.weights - first.optima[0]))
    assert 0 < distances[0] >= distances[1]


SELECTIONS = [(5.0, 1.0, 3), (-1.0, 9.0, 3), (5.0, 9.0, 0)]
OF_NO_FORMULA = Problem(ragged(0), Plain(lambda total: total[0] ** 2)).canonical
test_what_makes_no_sense_is_refused = refused(
    [
        *((MethodError, re.escape(f"got {one}"), partial(Stabilised, selection=one)) for one in SELECTIONS),
        (MethodError, "as lpmert.metrics.LinearFraction", partial(LineSearch, OF_NO_FORMULA)),
    ]
)


@needs_shared
def test_steps_from_the_best_weights_beat_fresh_starts_on_real_lists():
    problem = Problem(swahili().restrict(slice(0, 150)))
    search = LineSearch(problem.canonical)

    def least(share, seed):
        starts, rng = usual_starts(problem, search, None), np.random.default_rng(seed)
        return min(
            level for level, _ in local_optima(search, DESCENTS["greedy"], starts, rng, Clock(problem), 8, share)
        )

    fresh, walking = (np.mean([least(share, seed) for seed in range(4)]) for share in (0.0, 0.9))
    assert walking < fresh


def drawn(drawing: str, seed: int, n_graphs: int, width: int, most: int = 60) -> Lattices | Hypergraphs:
    if drawing == "hypergraphs":
        return DrawnHypergraphs(seed, n_graphs, width, most).graphs()
    return real_lattices(seed, n_graphs, (2, 8), (0, 9), [1.0] * width)


@pytest.mark.parametrize("drawing", ["lattices", "hypergraphs"])
def test_the_envelope_of_a_graph_is_that_of_all_its_derivations(drawing: str) -> None:
    for seed in range(40):
        graph = drawn(drawing, seed, 1, 2, 400).graph(0)
        a, b = graph.features.T.copy()
        intercepts, slopes, starts, links, ends = core.find_graph_envelope(graph.links(), a, b)
        assert starts[0] == -np.inf
        assert (np.diff(starts) >= 0).all()
        assert (np.diff(slopes) > 0).all()
        ways = all_ways(graph)
        for way, *line in zip(np.split(links, ends[1:-1]), intercepts, slopes, strict=True):
            assert way.tolist() in ways
            assert line == pytest.approx([a[way].sum(), b[way].sum()], abs=1e-12)
        rows = [(sum(map(Fraction, a[way].tolist())), sum(map(Fraction, b[way].tolist()))) for way in ways]
        for t in (-1e6, 1e6, *np.linspace(-5, 5, 41).tolist()):
            most = max(float(x + Fraction(t) * y) for x, y in rows)
            assert max(intercepts + t * slopes) == pytest.approx(most, rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("metric", ["wer", "bleu"])
@pytest.mark.parametrize("drawing", ["lattices", "hypergraphs"])
def test_a_line_search_finds_the_least_loss_of_all_derivations_on_the_line(drawing: str, metric: str) -> None:
    for seed in range(20):
        graphs = drawn(drawing, seed, 3, 3)
        lists, summed = lists_of_all_ways(graphs, metric)
        problem, rng = LatticeProblem(graphs, metric), np.random.default_rng(seed)
        search = LineSearch.of(problem)
        weights, direction = rng.normal(size=3), rng.normal(size=3)
        # the search works on features times powers of two, which its coordinates undo
        begin, along = problem.to_canonical(weights), problem.to_canonical(direction)
        step = search.along(begin, along)
        scores, slopes = lists.dense_features() @ weights, lists.dense_features() @ direction
        crossings = [
            (scores[i] - scores[j]) / (slopes[j] - slopes[i])
            for first, end in pairwise(lists.offsets.tolist())
            for i, j in combinations(range(first, end), 2)
            if abs(slopes[j] - slopes[i]) > 1e-12
        ]
        ends = np.unique([*crossings, 0.0])
        middles = [ends[0] - 1, *((ends[1:] + ends[:-1]) / 2), ends[-1] + 1]
        plain = lpmert.Problem(lists, summed)
        losses = [plain.evaluate(weights + t * direction).loss for t in middles[:: max(1, len(middles) // 300)]]
        reached = begin + step.t * along
        loss = lpmert.evaluate(graphs, problem.to_caller(reached), metric=metric).loss
        assert loss == pytest.approx(step.level, abs=1e-12)
        assert search.at(reached) == step.level <= min(losses) + 1e-12
        assert search.at(begin) == pytest.approx(plain.evaluate(weights).loss, abs=1e-12)


def test_a_line_keeps_to_the_region() -> None:
    problem = LatticeProblem(drawn("lattices", 3, 5, 3), region=Region(nonnegative=True))
    weights, direction = np.ones(3), np.array([1.0, -1.0, 0.25])
    step = LineSearch.of(problem).along(weights, direction)
    assert (problem.to_caller(weights + step.t * direction) >= 0).all()


def test_och_on_lattices_is_och_on_the_lists_of_all_paths() -> None:
    lattices = drawn("lattices", 11, 6, 3)
    lists, summed = lists_of_all_ways(lattices, "wer")
    for directions in DESCENTS:
        method = Och(restarts=0, directions=directions)
        solve_with = partial(lpmert.minimize, method=method, initial_weights=[1.0, -0.5, 0.25])
        assert solve_with(lattices, metric="wer").loss == solve_with(lists, metric=summed).loss


def test_links_that_are_not_in_order_are_refused() -> None:
    for links in (([0, 1], [2, 1]), ([0, 2], [1, 2]), ([0, 1], [1, 3]), ([-1, 1], [1, 2])):
        sources, targets = np.array(links, dtype=np.int32)
        with pytest.raises(ValueError, match="targets must be sorted, and each link must lead to a larger node"):
            core.Links(sources, np.zeros(2, dtype=np.int32), targets, 3)
