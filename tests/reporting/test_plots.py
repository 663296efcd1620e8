"""The pictures of matplotlib show the numbers that decoding gives, and are written in all forms."""

from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from late import Late
from pages import assert_decoded, brute, hostile_lists
from problems import random_nbest
from refusals import refused

import lpmert
from lpmert.quoting import Unit
from lpmert.reporting.material import Surface

pytestmark = pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs matplotlib, of lpmert[report]")

pictures = Late("lpmert.reporting.pictures")
NBEST = random_nbest(7)
RESULT = lpmert.minimize(NBEST, initial_weights=[1.0, 0.0, 0.0])


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
