"""Surfaces, profiles and pictures show the loss that decoding gives, at every point that they claim to show exactly."""

import itertools
from collections.abc import Iterator
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from graph_problems import Drawn
from late import Late
from pages import assert_decoded, brute, hostile_lists
from problems import random_nbest
from refusals import refused

import lpmert
from lpmert.errors import FloatArray
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.quoting import Unit
from lpmert.reporting import material
from lpmert.reporting.material import Surface, lines_of, profile, surface, windows

pytestmark = pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs matplotlib, of lpmert[report]")

pictures = Late("lpmert.reporting.pictures")
NBEST = random_nbest(7)
RESULT = lpmert.minimize(NBEST, initial_weights=[1.0, 0.0, 0.0])


def shown(found: Surface, seed: int, count: int = 60) -> Iterator[tuple[FloatArray, float]]:
    """Yield weights in the middle of a surface and at random centres of its cells, and the loss that it shows there."""
    rows, columns = found.losses.shape
    places = np.random.default_rng(seed).integers([rows, columns], size=(count, 2))
    for row, column in [(rows // 2, columns // 2), *places.tolist()]:
        weights = found.weights.copy()
        weights[found.features[0]] += ((2 * column + 1) / columns - 1) * found.halves[0]
        weights[found.features[1]] += ((2 * row + 1) / rows - 1) * found.halves[1]
        yield weights, float(found.losses[row, column])


@pytest.mark.parametrize(("seed", "f1"), [(seed, seed % 2 == 1) for seed in range(12)])
def test_a_surface_has_the_loss_of_decoding(seed: int, f1: bool) -> None:
    nbest = random_nbest(seed, dimension=2 + seed % 3, kind="f1" if f1 else "loss", integers=seed % 4 > 1)
    lines = lines_of(lpmert.Problem(nbest, "f1" if f1 else "loss"))
    weights = np.random.default_rng(seed).normal(size=nbest.n_features)
    found = [surface(lines, weights, (0, 1), window) for window in windows(lines, weights).values()]
    assert sum(assert_decoded(nbest, shown(one, seed), f1) for one in found) > 80


def test_the_border_between_two_cells_is_straight_and_seen_if_it_is_parallel_to_the_lines() -> None:
    # one list, the second hypothesis wins where x > y: with halves 2 and 1, where twice the place across exceeds the
    # height
    nbest = lpmert.NBest([[0.0, 1.0], [1.0, 0.0]], [0, 2], [0, 1])
    losses = surface(lines_of(lpmert.Problem(nbest)), np.array([0.0, 0.0]), (0, 1), np.array([2.0, 1.0])).losses
    height, across = ((2 * np.arange(n) + 1) / n - 1 for n in losses.shape)
    clear = np.abs(2 * across[None, :] - height[:, None]) > 1e-9
    assert np.array_equal(losses[clear], (2 * across[None, :] > height[:, None])[clear].astype(float))
    # the choice changes at y = 0.3 only: no line along x has an event, yet the lines differ
    nbest = lpmert.NBest([[0.0, 10.0, 0.0], [0.0, 0.0, 3.0], [1.0, 0.0, 0.0]], [0, 2, 3], [0, 1, 0])
    losses = surface(lines_of(lpmert.Problem(nbest)), np.array([1.0, 0.0, 1.0]), (0, 1), np.ones(3)).losses
    height = (2 * np.arange(len(losses)) + 1) / len(losses) - 1
    assert np.array_equal(losses, np.repeat((height < 0.3)[:, None], losses.shape[1], axis=1))


@pytest.mark.parametrize("seed", range(8))
def test_a_profile_has_the_loss_of_decoding_and_its_best_interval(seed: int) -> None:
    nbest = random_nbest(seed + 50)
    result = lpmert.minimize(nbest)
    lines = lines_of(lpmert.Problem(nbest))
    around = windows(lines, result.weights)
    rng = np.random.default_rng(seed)
    for feature, window in itertools.product(range(3), around.values()):
        found = profile(lines, result.weights, feature, window, around["wide"])
        assert len(found.losses) == len(found.ends) - 1
        values = rng.uniform(found.ends[0], found.ends[-1], 20)
        losses = found.losses[np.searchsorted(found.ends, values) - 1].tolist()
        along = [np.where(np.arange(3) == feature, value, result.weights) for value in values]
        assert assert_decoded(nbest, zip(along, losses, strict=True))
        for end, way in zip(found.best, (-1, 1), strict=True):
            if end is not None:
                inside, outside = result.weights.copy(), result.weights.copy()
                inside[feature], outside[feature] = end - way * 1e-9, end + way * 1e-6
                assert brute(nbest, inside) in (None, result.loss)
                assert brute(nbest, outside) != result.loss


def test_a_long_profile_is_cut_down_and_says_so() -> None:
    rng = np.random.default_rng(1)
    angles = rng.uniform(0, 2 * np.pi, 20_000)  # every hypothesis wins somewhere
    corners = np.column_stack([np.cos(angles), np.sin(angles)])
    nbest = lpmert.NBest(corners, np.arange(201) * 100, rng.integers(0, 99, 20_000))
    lines = lines_of(lpmert.Problem(nbest))
    wide = windows(lines, np.array([0.3, 0.7]))["wide"]
    found = profile(lines, np.array([0.3, 0.7]), 0, wide, wide)
    assert not found.whole
    assert 500 < len(found.losses) <= 1000
    assert (found.ends[0], found.ends[-1]) == pytest.approx((0.3 - wide[0], 0.3 + wide[0]))


def test_features_that_do_not_vary_are_not_shown() -> None:
    nbest = lpmert.NBest([[1.0, 5, 0], [0, 5, 1], [3, 2, 1], [4, 2, 1]], [0, 2, 4], [0, 1, 1, 0])
    lines = lines_of(lpmert.Problem(nbest))
    assert material.shown_features(lines, np.array([0.1, 0.8, 0.1]), 4).tolist() == [0, 2]
    assert windows(lines, np.array([0.1, 0.8, 0.1]))["wide"][1] == 0.0
    assert material.interval(lines, np.array([1.0, 0.0, 0.0]), 2, 0.5) == (-0.5, 0.5)  # loss 1 for all c < 1


@pytest.mark.parametrize("seed", range(6))
def test_a_surface_over_lattices_has_the_loss_of_all_paths(seed: int) -> None:
    drawn = Drawn(seed, "integers", 3, 2 + seed % 2)
    problem = LatticeProblem(drawn.lattices())
    features, offsets, losses = drawn.listed()
    paths = lpmert.NBest(np.array(features, dtype=float), offsets, np.array(losses, dtype=float))
    lines = lines_of(problem)
    weights = np.random.default_rng(seed).normal(size=paths.n_features)
    found = surface(lines, weights, (0, 1), windows(lines, weights)["wide"])
    assert assert_decoded(paths, shown(found, seed)) > 20


LISTS = lpmert.NBest(
    [[1, 0], [0, 1], [2, 1], [1, 3], [1, 1], [1, 1]],
    [0, 2, 4, 6],
    [[0], [1], [1], [0], [5], [7]],
    list_ids=["u", "v", "w"],
    texts=["the cat sat", "a cat sat down", "x", "x y", "same", "same"],
)


def test_lists_that_choose_otherwise_and_the_closest_decisions_are_found() -> None:
    # a picks hypotheses 0, 0; b picks 1, 1; the third list has one feature vector only
    found = material.changes(lpmert.Problem(LISTS), np.array([1.0, 0.0]), np.array([0.0, 1.0]))
    told = [(one.list_id, one.before.number, one.after.number, one.difference) for one in found]
    assert told == [("v", 0, 1, -1.0), ("u", 0, 1, 1.0)]
    before, after = [(True, "the"), (False, "cat sat")], [(True, "a"), (False, "cat sat"), (True, "down")]
    assert found[1].pieces() == (before, after)
    # at (3, 1) the leads are 3 - 1 = 2 and 7 - 6 = 1, divided by the length of the weights
    found = material.closest(lpmert.Problem(LISTS), np.array([3.0, 1.0]), 5)
    assert [(one.list_id, one.before.number, one.after.number) for one in found] == [("v", 0, 1), ("u", 0, 1)]
    assert [one.lead for one in found] == pytest.approx([1 / 10**0.5, 2 / 10**0.5])


@pytest.mark.parametrize("seed", range(20))
def test_edits_keep_both_texts_and_agree_on_what_is_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(list("abc"), rng.integers(0, 9))) for _ in range(2)]
    sides = material.Change("u", *(material.Choice(None, None, text) for text in texts)).pieces()
    assert [" ".join(words for _, words in side) for side in sides] == texts
    first, second = (" ".join(words for changed, words in side if not changed) for side in sides)
    assert first == second
    before, after = (material.Choice(None, None, text) for text in ("a " * 3000, "a " * 3000 + "b"))
    left, right = material.Change("u", before, after).pieces()
    assert [changed for changed, _ in (*left, *right)] == [True, True], "too long to be compared word by word"


@pytest.mark.parametrize(("ending", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_every_picture_is_written_with_the_same_bytes_every_time(tmp_path: Path, ending: str, start: bytes) -> None:
    for draw in (
        lambda: lpmert.plots.outcome(RESULT),
        lambda: lpmert.plots.profile(RESULT, NBEST, "feature2"),
        lambda: lpmert.plots.surface(RESULT, NBEST, ("feature1", "feature3"), window="near"),
        lambda: lpmert.plots.changes(NBEST, [1.0, 0, 0], RESULT),
    ):
        paths = [tmp_path / f"{name}.{ending}" for name in "ab"]
        for path in paths:
            lpmert.plots.save(draw(), path)
        first, second = (path.read_bytes() for path in paths)
        assert first == second
        assert first.startswith(start)


@pytest.mark.parametrize("window", ["wide", "near"])
def test_the_cells_of_a_surface_have_the_loss_of_decoding(window: str) -> None:
    axes = lpmert.plots.surface(RESULT, NBEST, ("feature1", "feature2"), window=window).axes[0]
    (image,) = axes.images
    losses, (left, right, low, high) = image.get_array(), image.get_extent()

    def centre(row: int, column: int) -> np.ndarray:
        across, up = (column + 0.5) / losses.shape[1], (row + 0.5) / losses.shape[0]
        return np.array([left + across * (right - left), low + up * (high - low), *RESULT.weights[2:]])

    places = np.random.default_rng(0).integers(losses.shape, size=(60, 2)).tolist()
    assert assert_decoded(NBEST, [(centre(*place), losses[tuple(place)]) for place in places]) > 20


def test_paths_are_drawn_in_the_plane() -> None:
    # a positive factor takes each to the third weight of the result; the last two have none
    third = RESULT.weights[2]
    inside = [[1.0, 0.0, third], [0.0, 4.0, 2 * third], [-1.0, 1.0, third / 2]]
    outside = [[1.0, 1.0, -third], [1.0, 1.0, 0.0]]
    names = "feature1", "feature2"
    axes = lpmert.plots.surface(RESULT, NBEST, names, paths={"way": inside + outside}).axes[0]
    (line,) = [line for line in axes.lines if line.get_label() == "way"]
    assert np.column_stack(line.get_data()) == pytest.approx(np.array([[1.0, 0.0], [0.0, 2.0], [-2.0, 2.0]]))
    nbest = random_nbest(3, dimension=2)
    result = lpmert.minimize(nbest)
    axes = lpmert.plots.surface(result, nbest, paths={"way": [[0.0, 2.0]]}).axes[0]
    (line,) = [line for line in axes.lines if line.get_label() == "way"]
    length = float(np.linalg.norm(result.weights))  # with two weights only their direction counts
    assert np.column_stack(line.get_data()) == pytest.approx(np.array([[0.0, length]]))


def test_the_profile_goes_through_the_optimum_and_changes_count_lists_that_get_better_and_worse() -> None:
    axes = lpmert.plots.profile(RESULT, NBEST, "feature1", window="near").axes[0]
    (dot,) = [line for line in axes.lines if line.get_marker() == "o"]
    assert [*map(float, dot.get_xydata()[0])] == [RESULT.weights[0], RESULT.loss]
    assert brute(NBEST, RESULT.weights) == RESULT.loss
    nbest = lpmert.NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [2], [0]])
    axes = lpmert.plots.changes(nbest, [1.0, 0.0], [0.0, 1.0]).axes[0]
    assert axes.get_title() == "2 lists change: 1 better, 1 worse"
    assert [bar.get_width() for bar in axes.patches] == [-2.0, 1.0]


test_what_cannot_be_drawn_is_refused_by_name = refused(
    (lpmert.DataError, message, call)
    for message, call in [
        ("must end in", lambda: lpmert.plots.save(lpmert.plots.outcome(RESULT), "x.gif")),
        ("no feature 'x'", lambda: lpmert.plots.profile(RESULT, NBEST, "x")),
        ("window='far' is none of wide, near", lambda: lpmert.plots.profile(RESULT, NBEST, "feature1", window="far")),
        ("other lists than those of", lambda: lpmert.plots.surface(RESULT, hostile_lists())),
    ]
)


def test_names_are_names_whatever_dollars_they_hold(tmp_path: Path) -> None:
    names = [r"$\frac{a}$", "<b>\x00&$_^$"]
    nbest = lpmert.NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [0, 1, 1, 0], names=names)
    lpmert.plots.save(lpmert.plots.surface(lpmert.minimize(nbest), nbest), tmp_path / "x.svg")
    texts = [one.text or "" for one in ElementTree.parse(tmp_path / "x.svg").iter() if one.tag.endswith("}text")]
    assert {r"weight of $\frac{a}$", "weight of <b>\ufffd&$_^$"} <= set(texts)


def test_without_the_extra_the_remedy_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lpmert.reporting.pictures.find_spec", lambda _: None)
    for draw in (
        lambda: lpmert.plots.outcome(RESULT),
        lambda: lpmert.plots.surface(RESULT, NBEST),
        lambda: lpmert.report(RESULT, tmp_path / "r.html"),
    ):
        with pytest.raises(lpmert.MethodError, match=r"is not installed; pip install 'lpmert\[report\]'"):
            draw()
    assert not (tmp_path / "r.html").exists()


def test_a_loop_is_drawn_in_the_unit_of_its_losses() -> None:
    rows = [{"number": n, "loss": loss, "held_out_loss": None, "pool_loss": None} for n, loss in ((1, 50), (2, 40))]
    for unit, label, shown, told in (
        (Unit("WER", 1 / 200, percent=True, counts="errors"), "WER in %", [25.0, 20.0], "20.00% (40 errors)"),
        (Unit("reward", -1.0), "reward", [-50.0, -40.0], "-40"),
    ):
        axes = pictures.loop({"iterations": rows, "best": 2, "unit": asdict(unit)}).axes[0]
        assert axes.get_ylabel() == label
        assert axes.lines[0].get_ydata() == pytest.approx(shown)
        assert axes.get_legend().get_texts()[-1].get_text() == f"best: {told}"


def test_the_colours_of_a_surface_are_labelled_with_round_figures_of_the_unit() -> None:
    found = Surface((0, 1), np.zeros(2), np.ones(2), np.arange(81.0).reshape(9, 9))
    for unit in (Unit("BLEU", -0.5, 50.0), Unit("WER", 1 / 300, percent=True)):
        figure = pictures.surface(found, ("a", "b"), {}, {}, unit)
        figure.draw_without_rendering()
        scale = figure.axes[1]
        assert scale.get_ylabel() == unit.label
        pairs = zip(scale.get_yticks(), scale.get_yticklabels(), strict=True)
        labels = [(float(unit.figures(np.array(loss))), float(text.get_text())) for loss, text in pairs]
        assert len(labels) > 2
        for there, label in labels:
            assert there == pytest.approx(label)
            assert label == round(label, 1)


@pytest.mark.parametrize(("points", "lines"), [(None, 2), (2, 1)])
def test_a_front_has_steps_only_if_it_has_all_points(points: int | None, lines: int) -> None:
    features = [[0, 0], [2, 1], [3, 3], [1, 0], [0, 2]]
    nbest = lpmert.NBest(features, [0, 3, 5], [[4], [2], [0], [3], [1]], names=["a", "b"])
    found = lpmert.pareto(nbest, "b", points=points)
    axes = lpmert.plots.outcome(found).axes[0]
    assert len(axes.lines) == lines
    drawn = list(zip(*axes.lines[-1].get_data(), strict=True))
    assert drawn == [(one.sums["b"], one.loss) for one in reversed(found.points)]
    assert len(drawn) > 1
