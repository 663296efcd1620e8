"""Many hypotheses: only those that may win are kept, and everything comes out as if all were."""

from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from problems import KINDS, METRICS, random_lists

import lpmert
from lpmert import NBest, core
from lpmert.comparing.averaging import loss_unit
from lpmert.model.canonical import CallerWeights
from lpmert.model.problem import Problem
from lpmert.numeric.lists import units
from lpmert.reporting.material import lines_of

MANY = "lpmert.model.problem.MANY"


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MANY, 1)


def lists_of(seed: int, width: int) -> NBest:
    """Lists in which most hypotheses win nowhere, with decimals as features."""
    rng = np.random.default_rng(seed)
    offsets = np.cumsum([0, *rng.integers(1, 61, 30)])
    features = np.round(rng.normal(size=(offsets[-1], width)) * 10.0 ** rng.integers(-3, 4, width), 3)
    return NBest(features, offsets, rng.integers(0, 7, offsets[-1]))


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("fruitless", [False, True])
def test_after_a_block_where_nearly_all_may_win_all_are_kept(fruitless: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lpmert.numeric.lists._BLOCK", 40)
    corners = [[0, 0], [0, 3], [3, 0], [1, 1]]  # the last one wins for no weights
    first = [[0, 0], [1, 2]] if fruitless else corners
    n = 40 // len(first)
    features = np.array([*first * n, *corners * 9])
    offsets = np.cumsum([0, *[len(first)] * n, *[4] * 9])
    problem = Problem(NBest(features, offsets, np.arange(len(features)) % 3))
    assert problem.reduced
    assert len(problem.as_given().features) == len(features) - (0 if fruitless else n + 9)


@pytest.mark.parametrize("kind", [*KINDS, "long"])
def test_the_answer_is_that_of_all_hypotheses(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(6):
        nbest = lists_of(seed, 2 + seed % 2) if kind == "long" else random_lists(kind, seed).nbest
        rng = np.random.default_rng(seed)
        weights = [rng.normal(size=nbest.n_features), rng.integers(-2, 3, nbest.n_features).astype(float)]
        found = []
        for least in (1 << 62, 1):
            monkeypatch.setattr(MANY, least)
            result = lpmert.minimize(nbest)
            problem = Problem(nbest)
            assert problem.reduced is (least == 1)
            at = [problem.evaluate(one) for one in weights]
            ties = [(one.tied_lists, one.loss_best_ties, one.loss_worst_ties) for one in at]
            same = [(one.loss, one.selection.tolist()) for one in at]
            found.append((result.status, result.loss, result.lower_bound, same, ties))
            assert least > 1 or all(one.margin is None for one in at)
        assert found[0] == found[1]


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("ties", ["first", "best", "worst"])
def test_repeated_features_count_as_asked(ties: str) -> None:
    nbest = NBest([[0, 0], [0, 0], [3, 1], [3, 1], [1, 3], [1, 1]], [0, 6], [5, 1, 4, 2, 3, 0])
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
    assert thresholds == pytest.approx(others[2])
    exact, same = chain([spread, losses], *blocks), chain([others[1], others[3]], *others[4])
    assert all(np.array_equal(one, other) for one, other in zip(exact, same, strict=True))
    shares = spread / units([(nbest.dense_features(), nbest.offsets)])
    assert shares == pytest.approx(np.full(3, shares[0]))  # features are what they mean times one factor


@pytest.mark.usefixtures("many")
def test_a_certificate_asks_for_room_first(tmp_path: Path, fresh_memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    nbest = lists_of(1, 3)
    result = lpmert.minimize(nbest)
    limit = fresh_memory + (256 << 20)
    lpmert.certify(nbest, result, tmp_path / "proof.json", memory_limit=limit)
    monkeypatch.setattr("lpmert.certificates.certify.ROW_BYTES", 1 << 20)
    with pytest.raises(lpmert.DataError, match=r"a certificate, .* takes .* MiB more; allow more with --memory-limit"):
        lpmert.certify(nbest, result, tmp_path / "none.json", memory_limit=limit)
    assert not (tmp_path / "none.json").exists()


def test_ties_are_never_left_out() -> None:
    corners = np.array([[0, 0], [2, 0], [0, 2], [2, 2], [1, 0], [1, 2], [1, 1], [0, 0]], dtype=float)
    # (1, 0) and (1, 2) tie with corners for some weights
    assert core.possible_winners(corners, np.array([0, 8])).tolist() == [0, 1, 2, 3, 4, 5, 7]
