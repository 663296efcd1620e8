"""Many hypotheses: only those that may win are kept, and everything comes out as if all were."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from problems import KINDS, METRICS, random_lists
from scipy.optimize import linprog

import lpmert
from lpmert import NBest
from lpmert.core import possible_winners
from lpmert.model.canonical import CallerWeights
from lpmert.model.problem import Problem
from lpmert.numeric.lists import units
from lpmert.reporting.lines import lines_of
from lpmert.unseen.averaging import loss_unit

MANY = "lpmert.model.problem.MANY"


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MANY, 1)


def lists_of(seed: int, width: int, *, longest: int = 60) -> NBest:
    """Lists in which most hypotheses win nowhere, with decimals as features."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, longest + 1, 30)
    rows = int(sizes.sum())
    features = np.round(rng.normal(size=(rows, width)) * 10.0 ** rng.integers(-3, 4, width), 3)
    return NBest(features, np.concatenate([[0], np.cumsum(sizes)]), rng.integers(0, 7, rows))


@pytest.mark.parametrize("width", [2, 3])
def test_what_is_left_out_lies_among_others_and_wins_for_no_weights(width: int) -> None:
    nbest = lists_of(width, width)
    inner = np.random.default_rng(1).random((nbest.n_hypotheses, 1)) < 0.7
    features = nbest.dense_features() / nbest.dense_features().std(axis=0) * np.where(inner, 0.1, 1.0)
    offsets = nbest.offsets
    kept = np.zeros(len(features), dtype=bool)
    kept[possible_winners(features, offsets)] = True
    assert (~kept).sum() > len(features) / 2
    rng = np.random.default_rng(0)
    for begin, end in pairwise(offsets.tolist()):
        rows = features[begin:end]
        for row in np.flatnonzero(~kept[begin:end])[:8]:
            others = np.delete(rows, row, axis=0)
            equations = np.vstack([others.T, np.ones(len(others))])
            shares = linprog(np.zeros(len(others)), A_eq=equations, b_eq=np.append(rows[row], 1.0))
            assert shares.status == 0  # a mean of others
        scores = rows @ (rng.normal(size=(width, 500)) / np.abs(rows).max(axis=0, initial=1e-9)[:, None])
        assert kept[begin + scores.argmax(axis=0)].all()


def test_ties_are_never_left_out() -> None:
    corners = np.array([[0, 0], [2, 0], [0, 2], [2, 2], [1, 0], [1, 2], [1, 1], [0, 0]], dtype=float)
    kept = possible_winners(corners, np.array([0, 8]))
    assert kept.tolist() == [0, 1, 2, 3, 4, 5, 7]  # (1, 0) and (1, 2) tie with corners for some weights


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("fruitless", [False, True])
def test_after_a_block_where_nearly_all_may_win_all_are_kept(fruitless: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lpmert.numeric.lists._BLOCK", 40)
    corners = np.array([[0.0, 0.0], [0.0, 3.0], [3.0, 0.0], [1.0, 1.0]])  # the last one wins for no weights
    pairs = np.array([[0.0, 0.0], [1.0, 2.0]])
    first, sizes = (pairs, 2) if fruitless else (corners, 4)
    n = 40 // sizes
    features = np.concatenate([np.tile(first, (n, 1)), np.tile(corners, (9, 1))])
    offsets = np.cumsum([0, *[sizes] * n, *[4] * 9])
    losses = np.arange(len(features)) % 3
    problem = Problem(NBest(features, offsets, losses))
    assert problem.reduced
    assert len(problem.as_given().features) == len(features) - (0 if fruitless else n + 9)


@pytest.mark.parametrize("kind", KINDS)
def test_the_answer_is_that_of_all_hypotheses(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(6):
        nbest = random_lists(kind, seed).nbest
        rng = np.random.default_rng(seed)
        weights = [rng.normal(size=nbest.n_features), rng.integers(-2, 3, nbest.n_features).astype(float)]
        found = []
        for least in (1 << 62, 1):
            monkeypatch.setattr(MANY, least)
            result = lpmert.minimize(nbest)
            problem = Problem(nbest)
            assert problem.reduced is (least == 1)
            at = [problem.evaluate(one) for one in weights]
            found.append((result, [(one.loss, one.selection.tolist(), one.tied_lists) for one in at], at))
        (whole, decoded, at), (reduced, decoded_too, at_too) = found
        assert (reduced.status, reduced.loss, reduced.lower_bound) == (whole.status, whole.loss, whole.lower_bound)
        assert decoded == decoded_too
        for one, other in zip(at, at_too, strict=True):
            assert other.margin is None
            assert (one.loss_best_ties, one.loss_worst_ties) == (other.loss_best_ties, other.loss_worst_ties)


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("ties", ["first", "best", "worst"])
def test_repeated_features_count_as_asked(ties: str) -> None:
    features = [[0, 0], [0, 0], [3, 1], [3, 1], [1, 3], [1, 1]]
    nbest = NBest(features, [0, 6], [5, 1, 4, 2, 3, 0])
    expected = {"first": 3, "best": 1, "worst": 3}[ties]  # (0, 0), (3, 1) and (1, 3) win somewhere
    assert lpmert.minimize(nbest, ties=ties).loss == expected


@pytest.mark.parametrize("metric", ["loss", "bleu"])
def test_units_lines_and_spread_are_those_of_all_hypotheses(metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nbest = lists_of(5, 3)
    if metric == "bleu":
        counts = METRICS[metric][2](np.random.default_rng(5), nbest.offsets.tolist())
        nbest = NBest(nbest.features, nbest.offsets, counts)
    monkeypatch.setattr("lpmert.numeric.lists._BLOCK", 200)
    found = []
    for least in (1 << 62, 1):
        monkeypatch.setattr(MANY, least)
        problem = Problem(nbest, metric)
        assert problem.reduced is (least == 1)
        start = problem.to_canonical(CallerWeights(np.array([0.3, -0.2, 1.0])))
        lines = lines_of(problem)
        row = lines.row(np.array([0.3, -0.2, 1.0]), np.array([0.5, 1.0, -2.0]))
        blocks = list(problem.blocks())
        found.append((loss_unit(problem, start), lines.spread, row.thresholds, row.losses, blocks))
    (unit, spread, thresholds, losses, blocks), others = found
    assert len(blocks) > 3
    assert unit == others[0] > 0
    assert np.array_equal(spread, others[1])
    assert thresholds == pytest.approx(others[2])
    assert np.array_equal(losses, others[3])
    for block, other in zip(blocks, others[4], strict=True):
        assert all(np.array_equal(one, another) for one, another in zip(block, other, strict=True))
    shares = spread / units([(nbest.dense_features(), nbest.offsets)])
    assert shares == pytest.approx(np.full(3, shares[0]))  # features are what they mean times one factor


@pytest.mark.usefixtures("many")
def test_a_certificate_asks_for_room_first(tmp_path: Path, fresh_memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    nbest = lists_of(1, 3)
    result = lpmert.minimize(nbest)
    limit = fresh_memory + (256 << 20)
    lpmert.certify(nbest, result, tmp_path / "proof.json", memory_limit=limit)
    monkeypatch.setattr("lpmert.certificates.write.certify.ROW_BYTES", 1 << 20)
    with pytest.raises(lpmert.DataError, match=r"a certificate, .* takes .* MiB more; allow more with --memory-limit"):
        lpmert.certify(nbest, result, tmp_path / "none.json", memory_limit=limit)
    assert not (tmp_path / "none.json").exists()
