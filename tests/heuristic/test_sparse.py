"""MSR, perceptron and boosting: exact lines along sparse features, and what their papers' algorithms do."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from late import Late
from oracle import decoded, decoded_loss, directions_of_the_plane
from problems import METRICS, random_lists
from scipy.sparse import csr_array, hstack
from shared import load, needs_shared

import lpmert
from lpmert import MethodError, NBest
from lpmert.errors import FloatArray
from lpmert.methods import Boosting, Comparator, MinimumSampleRisk, Perceptron, sparse
from lpmert.methods.sparse import Line, SparseLineSearch, select, sparse_lists
from lpmert.metrics import Metric, f_beta


def sparse_nbest(seed: int, *, counts: int = 2) -> NBest:
    """A base feature that is right half of the time, and rare counts that tell where it is wrong."""
    rng, count, shape = np.random.default_rng(seed), 180, (180, 12)
    rare = rng.integers(1, counts + 1, shape) * (rng.random(shape) < 0.15)
    losses = rng.integers(0, 4, count).astype(float)
    base = -losses + rare @ rng.normal(size=12) + rng.normal(size=count)
    features = csr_array(np.column_stack([base, rare]))
    return NBest(features, np.arange(0, count + 1, 6), losses)


def f_nbest(seed: int) -> NBest:
    """The same with matches, predictions and gold items of an F measure."""
    nbest = sparse_nbest(seed)
    counts = METRICS["f1"][2](np.random.default_rng(seed), nbest.offsets.tolist())
    return NBest(nbest.features, nbest.offsets, counts)


def loss_at(lists: sparse.SparseLists, weights: FloatArray) -> float:
    """Decoding, written down once more."""
    rows = np.column_stack([lists.base, lists.by_feature.toarray()])
    return lists.metric.loss(lists.statistics[decoded(rows, lists.offsets, [1.0, *weights])].sum(axis=0))


CASES = {"additive": ("loss", sparse_nbest(0)), "again": ("loss", sparse_nbest(1)), "ratio": (f_beta(), f_nbest(2))}


@pytest.mark.parametrize(("metric", "nbest"), CASES.values(), ids=CASES)
def test_loss_and_choices_are_those_of_decoding_on_lines_and_after_moves(metric: str | Metric, nbest: NBest) -> None:
    """On a line between any two thresholds."""
    lists, _ = sparse_lists(nbest, metric, None)
    search = SparseLineSearch(lists)
    rng = np.random.default_rng(1)
    for feature in [*range(1, lists.n_features), *rng.integers(1, lists.n_features, 60).tolist()]:
        weight = float(rng.normal())
        told = search.loss_with(*search.choices_at(feature, weight))
        search.move(feature, weight)
        assert told == pytest.approx(search.loss, abs=1e-12)
        assert search.loss == pytest.approx(loss_at(lists, search.weights), abs=1e-12)
    assert search.loss == pytest.approx(lists.decoded_loss(search.weights), abs=1e-12)
    for feature in range(1, lists.n_features):
        line = search.line(feature)
        ends = np.concatenate([[line.thresholds[0] - 1], line.thresholds, [line.thresholds[-1] + 1]])
        assert (np.diff(line.thresholds) >= 0).all()
        for middle, width, loss in zip((ends[1:] + ends[:-1]) / 2, np.diff(ends), line.losses, strict=True):
            weights = search.weights.copy()
            weights[feature] = middle
            assert width <= 1e-9 or loss == pytest.approx(loss_at(lists, weights), abs=1e-12)


def test_a_line_of_real_numbers_has_the_breakpoints_of_the_upper_envelope() -> None:
    # travatar's test: envelopes (-inf,-1] -> .2, then .1; and (-inf,1) -> .1, (1,3) -> .3, then .2
    features = csr_array([[1.0, -1.0], [3.0, 1.0], [1.0, 1.0], [7.0, -1.0], [3.0, 1.0], [6.0, 0.0]])
    lists, _ = sparse_lists(NBest(features, [0, 3, 6], [0.2, 0.1, 0.3, 0.1, 0.2, 0.3]), "loss", None)
    line = SparseLineSearch(lists).line(1)
    assert line.thresholds == pytest.approx([-1.0, 1.0, 3.0])
    assert line.losses == pytest.approx([0.3, 0.2, 0.4, 0.3])


@given(
    st.lists(st.floats(-3, 3), min_size=1, max_size=8),
    st.lists(st.floats(0, 5), min_size=9, max_size=9),
    st.floats(-4, 4),
    st.floats(0.01, 2),
)
def test_smoothing_is_a_window_mean(thresholds: list[float], losses: list[float], point: float, width: float) -> None:
    ends = np.array(sorted(thresholds))
    line = Line(ends, np.array(losses[: len(ends) + 1]))
    inside = sorted({point - width, point + width, *ends[np.abs(ends - point) < width].tolist()})
    mean = sum(losses[np.searchsorted(ends, (a + b) / 2)] * (b - a) for a, b in pairwise(inside)) / (2 * width)
    assert line.smoothed(np.array([point]), width)[0] == pytest.approx(mean, abs=1e-9)


def test_thresholds_far_away_do_not_blur_the_loss_nearby() -> None:
    line = Line(np.array([-1e90, 1.0, 1.01, 1e12]), np.array([5e6, 2e6 + 3.0, 2e6, 2e6 + 3.0, 1e6]))
    points = np.array([0.0, 1.005, 1.0, 1e11])
    expected = [3.0, 3.0 * 0.11 / 0.12, 3.0 * 0.11 / 0.12, 3.0]
    assert line.smoothed(points, 0.06) - 2e6 == pytest.approx(expected, abs=1e-6)


def test_features_next_to_nothing_are_trained_without_overflow() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(60, 4)) * [1.0, 1e-310, 1e-200, 1.0]
    nbest = NBest(csr_array(features), np.arange(0, 61, 3), rng.integers(0, 3, 60).astype(float))
    with np.errstate(invalid="raise"):
        trained = MinimumSampleRisk().train(nbest)
    assert np.isfinite(trained.weights).all()
    assert trained.loss <= trained.loss_before


def test_the_smoothed_loss_prefers_a_wide_interval_to_a_narrow_better_one() -> None:
    """Weights between 1 and 1.01 cost nothing, those above 2 cost 1, all others 3."""
    features = csr_array([[0.0, 0.0], [-1.0, 1.0], [0.0, 0.0], [-1.0, 1.0], [0.0, 0.0], [-2.0, 1.0]])
    lists, _ = sparse_lists(NBest(features, [0, 2, 4, 6], [2, 0, 0, 1, 1, 0]), "loss", None)
    assert [loss_at(lists, np.array([0.0, weight])) for weight in (0.0, 1.5, 2.5)] == [3.0, 2.0, 1.0]
    assert SparseLineSearch(lists).best_weight(1, 0.06) == pytest.approx(2.06)


def test_a_feature_that_changes_nothing_keeps_its_weight() -> None:
    """Both are constant in the first list, and the second has one row."""
    features = csr_array([[0.0, 1.0, 5.0], [9.0, 1.0, 5.0], [1.0, 3.0, 0.0]])
    lists, _ = sparse_lists(NBest(features, [0, 2, 3], [0.0, 1.0, 2.0]), "loss", None)
    search = SparseLineSearch(lists)
    assert (lists.by_feature.nnz, search.line(1), search.best_weight(2, 0.06)) == (0, None, 0.0)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_leaving_out_constant_entries_changes_no_choice(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dense = rng.integers(0, 2, (12, 5)).astype(float)
    dense[0:3, 2] = 1.0
    nbest = NBest(csr_array(dense), np.array([0, 3, 5, 6, 12]), rng.integers(0, 9, 12).astype(float))
    lists, base = sparse_lists(nbest, "loss", "feature2")
    weights = rng.integers(-3, 4, 5).astype(float)
    weights[base] = 0.0
    full = weights.copy()
    full[base] = 1.0
    assert lists.decoded_loss(weights) == decoded_loss(nbest, full)


def by_the_formula(gains: FloatArray, benefits: FloatArray, count: int, alpha: float) -> list[int]:
    """The selection with every cosine computed from its definition."""
    norms = np.linalg.norm(benefits, axis=1)
    norms[norms == 0.0] = 1.0
    cosines = benefits @ benefits.T / np.outer(norms, norms)
    left, chosen = np.flatnonzero(gains > 0).tolist(), list[int]()
    while left and len(chosen) < count:
        share = (1 - alpha ** len(chosen)) / max(1, len(chosen))
        values = [alpha * gains[j] / gains.max() - share * cosines[j, chosen].sum() for j in left]
        chosen.append(left.pop(int(np.argmax(values))))
    return chosen


@pytest.mark.parametrize("seed", range(5))
def test_selection_follows_the_formula(seed: int) -> None:
    rng = np.random.default_rng(seed)
    gains, benefits = rng.normal(0.5, 1, 30), rng.integers(0, 2, (30, 8)).astype(float)
    assert select(gains, csr_array(benefits), 12, alpha=0.8).tolist() == by_the_formula(gains, benefits, 12, 0.8)


def test_features_without_a_gain_are_never_selected_nor_copies_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    for gains, selected in (([0.0, 2.0, -1.0], [1]), ([0.0, -1.0], [])):
        assert select(np.array(gains), csr_array(np.ones((len(gains), 1))), 3).tolist() == selected
    twins = np.array([1.0, 0.99, 0.9]), csr_array([[1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]])
    assert select(*twins, 2).tolist() == [0, 2]
    monkeypatch.setattr(sparse, "_WINDOW", 1)
    assert select(*twins, 2).tolist() == [0, 1]  # the better one is not looked at


def test_the_gain_of_a_feature_is_the_fall_of_the_loss_with_it_alone() -> None:
    lists, _ = sparse_lists(sparse_nbest(3), "loss", None)
    search = SparseLineSearch(lists)
    gains, benefits = sparse.try_each(search, np.arange(1, lists.n_features), 0.06)
    assert not search.weights.any()
    rows = np.column_stack([lists.base, lists.by_feature.toarray()])
    for place in range(len(gains)):
        weights = np.zeros((2, lists.n_features))
        weights[1, place + 1] = search.best_weight(place + 1, 0.06)
        before, after = (lists.losses[decoded(rows, lists.offsets, [1.0, *one])] for one in weights)
        assert gains[place] == pytest.approx(before.sum() - after.sum())
        assert benefits[[place]].toarray()[0].tolist() == (after < before).tolist()


def test_training_does_not_make_features_dense() -> None:
    count, width = 30_000, 300_000  # dense, these would be 72 GB
    rng = np.random.default_rng(0)
    columns = np.column_stack([np.zeros(count, dtype=int), rng.integers(1, width, (count, 4))])
    starts = np.arange(0, columns.size + 1, 5)
    features = csr_array((rng.normal(size=columns.size), columns.ravel(), starts), shape=(count, width))
    nbest = NBest(features, np.arange(0, count + 1, 3), rng.integers(0, 3, count).astype(float))
    trained = MinimumSampleRisk(kept=10, considered=50).train(nbest)
    assert trained.loss <= trained.loss_before


def test_with_two_features_and_no_smoothing_to_speak_of_the_better_half_of_the_plane_is_searched_exactly() -> None:
    for seed in range(10):
        nbest = random_lists("floats", seed, most_features=2, most_lists=12, most_selections=10**9).nbest
        if nbest.n_features < 2:
            continue
        result = lpmert.minimize(nbest, method=MinimumSampleRisk(smoothing=1e-9))
        ways = directions_of_the_plane(nbest.dense_features(), nbest.offsets)
        half = [w for w in ways if w[0] * result.weights[0] > 0]
        assert result.loss == pytest.approx(min(decoded_loss(nbest, w) for w in half))


def test_the_base_feature_is_named_or_the_first_one() -> None:
    nbest = sparse_nbest(4)
    acoustic = MinimumSampleRisk(base="acoustic")
    for train in (acoustic.train, lambda lists: lpmert.minimize(lists, method=acoustic)):
        with pytest.raises(MethodError, match="no base feature 'acoustic'"):
            train(nbest)
    assert MinimumSampleRisk(base="feature3").train(nbest).weights[2] == 1.0


def kana_kanji() -> NBest:
    """Character edits of 20-best conversions; log probability, then counts of words and word pairs."""
    nbest = load("ime-kkc")
    text = Late("sklearn.feature_extraction.text")
    words = text.CountVectorizer(ngram_range=(1, 2), token_pattern=r"\S+", lowercase=False)
    counts = words.fit_transform(f"<s> {text} </s>" for text in nbest.texts)
    features = csr_array(hstack([nbest.dense_features()[:, :1] * np.log(10.0), counts]))
    return NBest(features, nbest.offsets, nbest.statistics)


def plain_perceptron(nbest: NBest, passes: int, seed: int) -> FloatArray:
    """The mean of the weights after every list."""
    features, losses = nbest.dense_features(), nbest.statistics[:, 0]
    rng = np.random.default_rng(seed)
    weights = np.zeros(nbest.n_features)
    weights[0] = 1.0
    after = []
    for _ in range(passes):
        before = weights.copy()
        for s in rng.permutation(nbest.n_lists).tolist():
            rows = np.arange(nbest.offsets[s], nbest.offsets[s + 1])
            scores = features[rows] @ weights
            gold = np.flatnonzero(losses[rows] == losses[rows].min())
            chosen = int(np.argmax(scores))
            if chosen not in gold:
                change = features[rows[gold[np.argmax(scores[gold])]]] - features[rows[chosen]]
                change[0] = 0.0
                weights = weights + change
            after.append(weights)
        if (before == weights).all():
            break
    return np.mean(after, axis=0)


@pytest.mark.parametrize("seed", range(4))
def test_the_perceptron_averages_the_weights_after_every_list(seed: int) -> None:
    nbest = sparse_nbest(seed)
    trained = Perceptron(passes=5).train(nbest, seed=seed)
    assert trained.weights == pytest.approx(plain_perceptron(nbest, 5, seed))


def test_the_perceptron_ends_where_no_list_is_wrong() -> None:
    features = csr_array([[1.0, 0.0], [0.0, 2.0], [0.0, 2.0], [1.0, 0.0]])
    trained = Perceptron().train(NBest(features, [0, 2, 4], [1.0, 0.0, 0.0, 1.0]))
    assert (trained.counters, trained.loss) == ({"passes": 2, "updates": 1}, 0.0)


def exponential_loss(nbest: NBest, weights: FloatArray) -> float:
    """Collins' objective, written down plainly."""
    features, losses = nbest.dense_features(), nbest.statistics[:, 0]
    total = 0.0
    for a, b in pairwise(nbest.offsets):
        least = losses[a:b].min()
        gold = max((i for i in range(a, b) if losses[i] == least), key=lambda i: (features[i, 0], -i))
        for j in range(a, b):
            total += (losses[j] - least) * np.exp((features[j] - features[gold]) @ weights)
    return total


@pytest.mark.parametrize("counts", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_every_round_of_boosting_lowers_the_exponential_loss(seed: int, counts: int) -> None:
    nbest = sparse_nbest(seed, counts=counts)
    losses = [exponential_loss(nbest, Boosting(rounds=rounds).train(nbest).weights) for rounds in range(1, 30)]
    start = exponential_loss(nbest, np.eye(nbest.n_features)[0])
    assert all(after < before for before, after in pairwise([start, *losses]))


def test_the_efficient_update_ends_where_the_plain_algorithm_does() -> None:
    nbest = sparse_nbest(5, counts=3)
    lists, _ = sparse_lists(nbest, "loss", None)
    pairs, importance = sparse.differences(lists)
    gaps = pairs.toarray()
    weights = np.zeros(nbest.n_features)
    reach = np.abs(gaps).max(axis=0)
    reach[reach == 0] = np.inf
    for _ in range(200):
        right = np.maximum(gaps, 0.0).T @ importance
        wrong = np.maximum(-gaps, 0.0).T @ importance
        gains = (np.sqrt(right) - np.sqrt(wrong)) ** 2 / reach
        best = int(np.argmax(gains))
        if gains[best] <= 1e-6 * importance.sum():
            break
        smooth = 0.001 * importance.sum()
        step = 0.5 / reach[best] * np.log((right[best] + smooth) / (wrong[best] + smooth))
        weights[best] += step
        importance *= np.exp(-step * gaps[:, best])
    weights[0] = 1.0
    assert Boosting(rounds=200).train(nbest).weights == pytest.approx(weights, rel=1e-6, abs=1e-9)


def test_base_scores_far_apart_do_not_overflow() -> None:
    nbest = sparse_nbest(6)
    features = nbest.dense_features().copy()
    features[:, 0] *= 1e4
    trained = Boosting(rounds=50).train(NBest(csr_array(features), nbest.offsets, nbest.statistics))
    assert np.isfinite(trained.weights).all()
    assert trained.weights[1:].any()


@pytest.mark.parametrize("method", [Perceptron(), Boosting(rounds=300)], ids=lambda method: method.name)
def test_the_base_keeps_the_sign_that_decodes_better_or_that_of_the_start(method: Comparator) -> None:
    nbest = sparse_nbest(8)
    turned = NBest(-nbest.dense_features(), nbest.offsets, nbest.statistics)
    first, second = (lpmert.minimize(lists, method=method, seed=3) for lists in (nbest, turned))
    assert first.loss == second.loss
    third = lpmert.minimize(nbest, method=method, initial_weights=-np.eye(nbest.n_features)[0])
    assert (np.sign([one.weights[0] for one in (first, second, third)]) == [1, -1, -1]).all()


@needs_shared
@pytest.mark.parametrize(
    ("method", "share"),
    [(MinimumSampleRisk(kept=300, considered=5000), 0.8), (Perceptron(), 1.0), (Boosting(), 1.0)],
    ids=["msr", "perceptron", "boosting"],
)
def test_words_and_pairs_of_half_of_real_conversions_help_on_the_other_half(method: Any, share: float) -> None:
    nbest = kana_kanji()
    train, test = nbest.restrict(slice(0, None, 2)), nbest.restrict(slice(1, None, 2))
    trained = method.train(train)
    assert np.minimum.reduceat(train.statistics[:, 0], train.offsets[:-1]).sum() < trained.loss
    assert trained.loss < share * trained.loss_before
    assert decoded_loss(test, trained.weights) < decoded_loss(test, np.eye(1, nbest.n_features)[0])
