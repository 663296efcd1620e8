"""The page holds the numbers that an independent computation gives, texts stay texts; wrong documents are refused."""

import base64
import hashlib
import itertools
import json
import re
import signal
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from commands import ended, refusal, run, succeeded
from late import Late
from mutations import read_or_refused, wrong_documents
from pages import HOSTILE, hostile_lists, parts, reported

import lpmert
from lpmert.findings import LOSS
from lpmert.reporting.lines import Surface

pictures = Late("lpmert.reporting.pictures")

LISTS = lpmert.NBest(
    [[1, 0, 2], [0, 1, 1], [2, 1, 0], [1, 3, 1], [0, 0, 4], [5, 1, 2]],
    [0, 2, 4, 6],
    [[0], [1], [1], [0], [2], [0]],
    names=["am", "lm", "words"],
    list_ids=["u", "v", "w"],
    texts=["the cat", "a cat", "x", "x y", "p", "q"],
)


def written(path: Path, data: lpmert.NBest = LISTS) -> Path:
    """Return the result of lists, which it writes beside them."""
    lpmert.write(data, path / "lists.npz")
    lpmert.minimize(data).save(path / "r.json")
    return path / "r.json"


class TestNumbers:
    def test_every_pair_of_weights_has_a_surface_whose_least_loss_is_the_proved_one(self, tmp_path: Path) -> None:
        nbest = hostile_lists(3)
        result = lpmert.minimize(nbest)
        assert result.status.proved
        shown = [words for words, _ in reported(tmp_path, result, data=nbest).pictures if "over the weights" in words]
        pairs = list(itertools.combinations(nbest.names, 2))
        for (first, second), window in itertools.product(pairs, ("wide", "near")):
            (words,) = [one for one in shown if one.endswith(f" of {first} and {second}") and one.startswith(window)]
            assert words.startswith(f"{window}: loss from {result.loss:g} to ")
        assert len(shown) == 6

    def test_profiles_have_the_interval_in_which_the_loss_stays(self, tmp_path: Path) -> None:
        # the first hypothesis wins where x > y
        nbest = lpmert.NBest([[1.0, 0.0], [0.0, 1.0]], [0, 2], [0, 1], names=["x", "y"])
        result = lpmert.minimize(nbest, initial_weights=[1.0, 0.2])
        x, y = "0.833333", "0.166667"  # 1 and 0.2, divided by their sum
        assert reported(tmp_path, result, data=nbest).texts["figcaption"][1:3] == [
            f" = {x}; the same accuracy from {y} to beyond the window",
            f" = {y}; the same accuracy from beyond the window to {x}",
        ]

    def test_the_heading_says_what_is_proved(self, tmp_path: Path) -> None:
        assert reported(tmp_path, lpmert.minimize(LISTS)).texts["h1"] == ["Proved: no weights do better than loss 0."]
        (heading,) = reported(tmp_path, lpmert.minimize(LISTS, method="grid")).texts["h1"]
        assert heading.endswith("Nothing is proved: there may be better ones.")

    def test_a_gap_is_told_in_words(self, tmp_path: Path) -> None:
        rng = np.random.default_rng(0)
        nbest = lpmert.NBest(rng.normal(size=(2000, 8)), np.arange(101) * 20, rng.integers(0, 9, 2000))
        result = lpmert.minimize(nbest, node_limit=1)
        assert result.lower_bound < result.loss
        (heading,) = reported(tmp_path, result).texts["h1"]
        assert f"loss {result.loss:g}." in heading
        assert f"at least {result.lower_bound:g}: a gap of {result.gap_abs:g} is" in heading

    def test_changed_lists_stand_with_their_texts_side_by_side(self, tmp_path: Path) -> None:
        result = lpmert.minimize(LISTS, initial_weights=[-1.0, 0.0, 0.0])
        page = reported(tmp_path, result, data=LISTS)
        # at -am every list picks the hypothesis with less am: 1, 1, 0 with losses 1 + 0 + 2; the optimum 0, 1, 1
        assert "start" in page.texts["th"]
        assert "|3|2|2|0|-3|" in f"|{'|'.join(page.texts['td'])}|"
        assert page.texts["del"][:2] == ["p", "a"]
        assert page.texts["ins"][:2] == ["q", "the"]

    def test_marks_lie_where_the_weights_are(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        result = lpmert.minimize(LISTS)
        moved = result.weights + np.array([0.25, 0.0, 0.0])
        given = {"moved": (2 * moved).tolist(), "elsewhere": [1.0, 2.0, -5.0]}
        drawn: dict[tuple[str, str], dict[str, np.ndarray]] = {}
        draw = pictures.surface

        def spy(found, names, marks, *rest):
            drawn.setdefault(names, marks)
            return draw(found, names, marks, *rest)

        monkeypatch.setattr("lpmert.reporting.pictures.surface", spy)
        page = reported(tmp_path, result, data=LISTS, weights=given)
        assert drawn["am", "lm"]["1"] == pytest.approx(moved[:2])
        # over lm and words they are scaled so that am is what it is in the middle, where that takes a positive factor
        factor = result.weights[0] / moved[0]
        assert drawn["lm", "words"]["1"] == pytest.approx(factor * moved[1:])
        seen = " ".join(page.all_text.split())
        out = sum(own * result.by_name[name] <= 0 for own, name in zip(given["elsewhere"], LISTS.names, strict=True))
        assert seen.count("elsewhere (not in this plane)") == out

    def test_marks_at_one_place_have_one_label(self, tmp_path: Path) -> None:
        result = lpmert.minimize(LISTS)
        moved = (result.weights + np.array([0.25, 0.0, 0.0])).tolist()
        apart = (result.weights - np.array([0.25, 0.0, 0.0])).tolist()
        page = reported(tmp_path, result, data=LISTS, weights={"a": moved, "b": moved, "c": apart})
        labels = [
            {one.text for one in ElementTree.fromstring(svg).iter() if one.tag.endswith("}text")}
            for words, svg in page.pictures
            if words.startswith("wide") and words.endswith(" am and lm")
        ]
        assert [{"1, 2", "3"} <= texts for texts in labels] == [True]

    def test_a_mark_beyond_the_picture_hides_none_within(self) -> None:
        found = Surface((0, 1), np.zeros(2), np.ones(2), np.arange(81.0).reshape(9, 9))
        marks = {"1": np.array([1.02, 0.5]), "2": np.array([0.98, 0.5])}
        with pictures.styled():
            axes = pictures.surface(found, ("a", "b"), marks, {}, LOSS).axes[0]
        assert [(text.get_text(), *text.xy) for text in axes.texts] == [("2", 0.98, 0.5)]

    def test_weights_can_be_copied_from_the_page(self, tmp_path: Path) -> None:
        result = lpmert.minimize(LISTS, region=lpmert.Region(fixed={"am": -0.25}))
        cells = reported(tmp_path, result, data=LISTS).texts["td"]
        assert "-0.25" in cells
        assert [name for name, weight in result.by_name.items() if f"{weight:.6g}" not in cells] == []

    def test_a_mark_beside_the_optimum_is_not_drawn_on_it(self) -> None:
        found = Surface((0, 1), np.zeros(2), np.ones(2), np.arange(81.0).reshape(9, 9))
        marks = {"1": np.array([0.15, 0.1]), "2": np.array([0.01, 0.01])}
        with pictures.styled():
            axes = pictures.surface(found, ("a", "b"), marks, {}, LOSS).axes[0]
        assert [(text.get_text(), *text.xy) for text in axes.texts] == [("2", 0.0, 0.0), ("1", 0.15, 0.1)]

    @pytest.mark.parametrize("seed", range(8))
    def test_labels_hide_neither_marks_nor_each_other(self, seed: int) -> None:
        """Twelve marks about the middle: their labels lie apart, and on no mark."""
        rng = np.random.default_rng(seed)
        found = Surface((0, 1), np.zeros(2), np.ones(2), rng.random((9, 9)))
        marks = {str(k): rng.uniform(-0.5, 0.5, 2) for k in range(1, 13)}
        with pictures.styled():
            figure = pictures.surface(found, ("a", "b"), marks, {}, LOSS)
            figure.draw_without_rendering()
            axes = figure.axes[0]
            boxes = [text.get_window_extent() for text in axes.texts]
            dots = [axes.transData.transform(line.get_xydata())[0] for line in axes.lines]
        assert {*", ".join(text.get_text() for text in axes.texts).split(", ")} == {*marks}
        assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
        assert not any(box.contains(*dot) for box in boxes for dot in dots)
        assert min(float(np.hypot(*(a - b))) for a, b in combinations(np.unique(dots, axis=0), 2)) > 5.0


class TestOtherData:
    def test_results_of_other_lists_are_refused_by_name(self, tmp_path: Path) -> None:
        first = written(tmp_path)
        (tmp_path / "b").mkdir()
        second = written(tmp_path / "b", LISTS.restrict([0, 1]))
        with pytest.raises(lpmert.DataError, match=rf"{re.escape(str(second))}: is about other lists than .*r\.json"):
            lpmert.report([first, second], tmp_path / "r.html")
        assert "b/lists.npz: other lists than those of" in refusal(
            "report", first, "--data", tmp_path / "b" / "lists.npz", "-o", tmp_path / "r.html"
        )
        assert not (tmp_path / "r.html").exists()

    def test_another_metric_is_refused(self, tmp_path: Path) -> None:
        nbest = lpmert.NBest(LISTS.features, LISTS.offsets, [[1.0, 2, 3]] * 6, statistic_names=["match", "p", "g"])
        result = lpmert.minimize(nbest, metric="f1")
        with pytest.raises(lpmert.DataError, match=r"the metric here is .*precision.*pass the same metric"):
            lpmert.report(result, tmp_path / "r.html", data=nbest, metric="precision")

    def test_ties_are_those_of_the_result(self, tmp_path: Path) -> None:
        nbest = lpmert.NBest([[1.0, 0], [1, 0], [0, 1]], [0, 3], [3, 0, 2])
        result = lpmert.minimize(nbest, ties="best")
        assert result.loss == 0
        (shown,) = [words for words, _ in reported(tmp_path, result, data=nbest).pictures if words.startswith("wide")]
        assert "loss from 0 to 2 " in shown

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("no JSON", "not JSON"),
            ("[1]", "neither a result nor a check"),
            ('{"a": 1}', "neither a result nor a check"),
            ('{"status": "optimal", "trace": []}', "not a result of this version .*'weights' is a required property"),
            ('{"excess": 1, "optimum": {}}', "not a check of this version"),
        ],
    )
    def test_files_that_hold_no_outcome_are_refused(self, tmp_path: Path, content: str, message: str) -> None:
        (tmp_path / "x.json").write_text(content)
        with pytest.raises(lpmert.DataError, match=rf"x\.json: .*{message}"):
            lpmert.report(tmp_path / "x.json", tmp_path / "r.html")

    @pytest.mark.parametrize(
        ("more", "message"),
        [
            ({"data": LISTS, "pairs": [("am", "x")]}, "no feature 'x'"),
            ({"data": LISTS, "pairs": [("am", "am")]}, "not twice 'am'"),
            ({"pairs": [("am", "lm")]}, "need the lists: pass data"),
            ({"weights": {"a": [1, 0, 0]}}, "need the lists: pass data"),
            ({"data": LISTS, "weights": {"start": [1, 2, 3]}}, "weights 'start': the results have others of this name"),
        ],
    )
    def test_options_that_do_not_fit_are_refused(self, tmp_path: Path, more: dict[str, Any], message: str) -> None:
        result = lpmert.minimize(LISTS, initial_weights=[-1.0, 0.0, 0.0])
        with pytest.raises(lpmert.DataError, match=message):
            lpmert.report(result, tmp_path / "r.html", **more)
        assert not (tmp_path / "r.html").exists()

    def test_the_page_does_not_take_the_place_of_a_result(self, tmp_path: Path) -> None:
        path = written(tmp_path)
        before = path.read_text()
        assert "would overwrite" in refusal("report", path, "-o", path)
        assert path.read_text() == before


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hostile") / "r.html"
    nbest = hostile_lists()
    names = {'</script><b onclick="x">': [1.0, 2.0, 3.0], "\u202e<i>": [3.0, -2.0, 1.0]}
    lpmert.report(lpmert.minimize(nbest), path, data=nbest, weights=names)
    return path


class TestHostileTexts:
    def test_nothing_of_a_text_becomes_an_element(self, page: Path) -> None:
        found = parts(page)
        assert {tag for tag, _ in found.elements} <= {
            *("html", "head", "meta", "title", "style", "body", "main", "header", "nav", "a", "section", "footer"),
            *("h1", "h2", "p", "dl", "div", "dt", "dd", "table", "thead", "tbody", "tr", "th", "td", "caption"),
            *("figure", "figcaption", "img", "strong", "em", "small", "ul", "li", "b", "details", "summary"),
            *("ins", "del", "span"),
        }
        assert sum(tag == "style" for tag, _ in found.elements) == 1
        assert not any(name.startswith("on") or name == "style" for _, own in found.elements for name in own)

    def test_texts_are_shown_as_they_are(self, page: Path) -> None:
        seen = " ".join(parts(page).all_text.split())
        for text in (HOSTILE[0], HOSTILE[1], HOSTILE[3], HOSTILE[6], HOSTILE[7]):
            assert " ".join(text.split()) in seen
        assert "\u202e" not in page.read_text(encoding="utf-8")
        assert "\u0000" not in page.read_text(encoding="utf-8")

    def test_nothing_is_fetched(self, page: Path) -> None:
        found = parts(page)
        assert len(found.pictures) > 10  # which looks at their parts
        for _, own in found.elements:
            assert (own.get("href") or "#").startswith("#")
            assert (own.get("src") or "data:image/svg+xml,").startswith("data:image/svg+xml,")
            assert not {"srcset", "data", "action", "xlink:href", "poster"} & own.keys()
        assert "@import" not in found.texts["style"][0]
        assert "url(" not in found.texts["style"][0]

    def test_the_policy_lets_nothing_run_and_nothing_be_fetched(self, page: Path) -> None:
        found = parts(page)
        (policy,) = [own["content"] for tag, own in found.elements if own.get("http-equiv")]
        digest = base64.b64encode(hashlib.sha256(found.texts["style"][0].encode()).digest()).decode()
        assert dict(rule.strip().split(" ", 1) for rule in str(policy).split(";")) == {
            **{"default-src": "'none'", "style-src": f"'sha256-{digest}'", "img-src": "data:"},
            **{"base-uri": "'none'", "form-action": "'none'"},
        }

    def test_every_part_can_be_reached_and_is_named(self, page: Path) -> None:
        found = parts(page)
        places = {own["id"] for _, own in found.elements if own.get("id")}
        links = [str(own["href"])[1:] for tag, own in found.elements if tag == "a"]
        assert len(links) >= 5
        assert set(links) <= places
        assert all(words for words, _ in found.pictures)

    def test_no_row_and_no_heading_of_a_table_is_empty(self, page: Path) -> None:
        text = page.read_text(encoding="utf-8")
        assert len(re.findall("<tr>", text)) > 20
        assert not re.search(r"<tr>\s*</tr>|<th[^>]*>\s*</th>", text)


class TestTime:
    """A page that there is no time for is whole all the same, and says what it lacks."""

    LACKING = "There was no time for"

    RNG = np.random.default_rng(3)
    LISTS = lpmert.NBest(RNG.normal(size=(60, 4)), np.arange(16) * 4, RNG.integers(0, 9, 60))

    def test_without_any_there_are_the_outcomes(self, tmp_path: Path) -> None:
        path, page = written(tmp_path, self.LISTS), tmp_path / "page.html"
        outcome = ended(3, "report", path, "--data", tmp_path / "lists.npz", "-o", page, "--time-limit", "0")
        lacking = "the error surfaces, the profiles of weights, the closest decisions"
        assert f"page.html: time limit reached; the page lacks {lacking}\n" in outcome.stderr
        found = parts(page)
        assert f"{self.LACKING} {lacking}." in found.all_text
        assert {"Progress", "Ties and margins"} <= set(found.texts["h2"])
        assert len(found.pictures) == 1
        assert not {"Error surface", "Along each weight", "Which lists change"} & set(found.texts["h2"])
        lpmert.report(path, page, data=lpmert.read(tmp_path / "lists.npz"), time_limit=0)
        assert self.LACKING in parts(page).all_text

    @pytest.mark.parametrize("pairs", [0, 1, 4])
    def test_ctrl_c_keeps_the_surfaces_done(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pairs: int) -> None:
        path, page = written(tmp_path, self.LISTS), tmp_path / "page.html"

        def press(_: object, stage: str, done: int, parts: int) -> None:
            assert (stage, parts) == ("error surfaces", 6)  # of 4 weights
            if done == pairs:
                signal.raise_signal(signal.SIGINT)

        monkeypatch.setattr("lpmert.cli.progress.Stages.__call__", press)
        outcome = ended(130, "report", path, "--data", tmp_path / "lists.npz", "-o", page)
        surfaces = "the error surfaces" if not pairs else f"{6 - pairs} of 6 error surfaces"
        lacking = f"{surfaces}, the profiles of weights, the closest decisions"
        assert f"page.html: interrupted; the page lacks {lacking}\n" in outcome.stderr
        found = parts(page)
        assert f"{self.LACKING} {lacking}." in found.all_text
        assert ("Error surface" in found.texts["h2"]) == (pairs > 0)
        assert len(found.pictures) == 2 * pairs + 1

    def test_lists_that_take_long_to_read_are_left_out(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path, page = written(tmp_path, self.LISTS), tmp_path / "page.html"
        lines = "a\t1\t0\n" * 200_000  # several blocks
        (tmp_path / "x.tsv").write_text(f"list\tfeature1\tloss\n{lines}")
        whole = lpmert.formats.tables._Rows.collected

        def press(*arguments: object) -> object:
            signal.raise_signal(signal.SIGINT)
            return whole(*arguments)

        monkeypatch.setattr("lpmert.formats.tables._Rows.collected", press)
        outcome = ended(130, "report", path, "--data", tmp_path / "x.tsv", "-o", page)
        assert "interrupted; the page lacks all parts about the lists" in outcome.stderr
        assert "Progress" in parts(page).texts["h2"]


class TestOwnPage:
    """The page that `solve`, `check` and `tune` write about what they found."""

    OF_COMMANDS = pytest.mark.parametrize(
        "command", [["solve", "--scale", "am=2"], ["check", "--weights", "1,1,1"], ["tune"]], ids=lambda words: words[0]
    )

    @OF_COMMANDS
    def test_it_is_the_page_of_their_file(self, tmp_path: Path, command: list[str]) -> None:
        lpmert.write(LISTS, tmp_path / "x.npz")
        pages, data = [tmp_path / "own.html", tmp_path / "page.html"], tmp_path / "x.npz"
        flags = ["-q", "-o", tmp_path / "r.json", "--report", pages[0]]
        outcome = run(command[0], data, *command[1:], *flags)
        assert (outcome.exit_code, outcome.stderr) == (0, "")
        succeeded("report", tmp_path / "r.json", "--data", data, "-o", pages[1])
        assert "Error surface" in parts(pages[0]).texts["h2"]
        assert pages[0].read_bytes() == pages[1].read_bytes()

    @OF_COMMANDS
    def test_ctrl_c_keeps_outcomes(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
        lpmert.write(LISTS, tmp_path / "x.npz")

        def press(_: object, stage: str, *__: int) -> None:
            if stage == "error surfaces":
                signal.raise_signal(signal.SIGINT)

        monkeypatch.setattr("lpmert.cli.progress.Stages.__call__", press)
        files = ["-o", tmp_path / "r.json", "--report", tmp_path / "r.html"]
        outcome = ended(130, command[0], tmp_path / "x.npz", *command[1:], *files)
        assert "r.html: interrupted; the page lacks the error surfaces, the profiles of weights" in outcome.stderr
        assert "the page lacks" not in (tmp_path / "r.json").read_text()
        assert "Progress" in parts(tmp_path / "r.html").texts["h2"]
        optimum = json.loads((tmp_path / "r.json").read_text())
        assert optimum.get("optimum", optimum)["status"] == "optimal"

    @OF_COMMANDS
    def test_a_page_must_be_writable(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
        lpmert.write(LISTS, tmp_path / "x.npz")
        call = [command[0], tmp_path / "x.npz", *command[1:], "--report"]
        for path, message in (("no/r.html", "cannot be written"), ("x.npz", "would overwrite")):
            said = refusal(*call, tmp_path / path)
            assert message in said
            assert "proved" not in said
        monkeypatch.setattr("lpmert.reporting.pictures.find_spec", lambda _: None)
        said = refusal(*call, tmp_path / "r.html")
        assert said == "lpmert: error: jinja2 is not installed; pip install 'lpmert[report]'"


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with lists, and what solve, check, tune and compare say of them."""
    folder = tmp_path_factory.mktemp("outcomes")
    rng = np.random.default_rng(5)
    nbest = lpmert.NBest(rng.normal(size=(40, 2)), np.arange(11) * 4, rng.integers(0, 9, 40), names=["a", "b"])
    lpmert.write(nbest, folder / "x.npz")
    methods = ["--methods", "och,grid", "--seeds", "2", "--cv", "2", "--repeat", "1"]
    for command, *flags in (["solve"], ["check", "--weights", "1,1"], ["tune"], ["compare", *methods]):
        succeeded(command, folder / "x.npz", "-q", *flags, "-o", folder / f"{command}.json")
    return folder


def test_check_comparison_and_tuning_stand_on_one_page(outcomes: Path, tmp_path: Path) -> None:
    files = [outcomes / f"{name}.json" for name in ("check", "tune", "compare")]
    succeeded("report", *files, "--data", outcomes / "x.npz", "-o", tmp_path / "r.html")
    page = parts(tmp_path / "r.html")
    assert {"Compared", "On unseen lists", "Results", "Progress", "Which lists change"} <= set(page.texts["h2"])
    checked, tuned, compared = (json.loads(file.read_text()) for file in files)
    told = f"The weights checked have loss {checked['loss']:g}: there are better weights: loss"
    assert f"{told} {checked['optimum']['loss']:g}" in page.all_text
    assert f"{100 * tuned['optimism']:.1f} % smaller here than expected on unseen lists" in page.all_text
    for entry in compared["methods"]:
        assert f"{entry['loss']['mean']:.4g}" in page.texts["td"]
    assert "best of grid" in page.all_text


@pytest.mark.parametrize("command", ["solve", "check", "tune", "compare"])
def test_a_report_of_wrong_documents_is_a_page_or_an_error_with_the_path(
    outcomes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    if command != "solve":  # of which there is no other picture
        monkeypatch.setattr("lpmert.reporting.pictures.svg", lambda _: "<svg/>")
    path, page = tmp_path / "w.json", tmp_path / "page.html"
    refused = 0
    documents = list(wrong_documents(json.loads((outcomes / f"{command}.json").read_text()), 1))
    chosen = np.random.default_rng(len(command)).choice(len(documents) - 2, 60, replace=False)
    for text in [*(documents[place] for place in chosen), *documents[-2:]]:
        path.write_text(text)
        refused += read_or_refused(path, lambda: lpmert.report(path, page)) is None
    assert refused > 3


def test_what_is_wrong_in_a_document_is_named(outcomes: Path, tmp_path: Path) -> None:
    check = json.loads((outcomes / "check.json").read_text())
    (tmp_path / "c.json").write_text(json.dumps({**check, "excess": "1"}))
    assert "c.json: not a check of this version of lpmert (excess: '1' is not of type 'number'); write" in refusal(
        "report", tmp_path / "c.json", "-o", tmp_path / "page.html"
    )
    comparison = json.loads((outcomes / "compare.json").read_text())
    del comparison["methods"][0]["seconds"]
    (tmp_path / "m.json").write_text(json.dumps(comparison))
    assert "(methods[0]: 'seconds' is a required property); write it again with `lpmert compare -o`" in refusal(
        "report", tmp_path / "m.json", "-o", tmp_path / "page.html"
    )
    assert not (tmp_path / "page.html").exists()


def test_weights_of_other_features_or_beyond_all_lists_are_no_part_of_a_report(outcomes: Path, tmp_path: Path) -> None:
    for weights, message in (({"a": 1, "c": 1}, "other features"), ({"a": 1e151, "b": 1}, "a weight beyond 1e\\+150")):
        check = json.loads((outcomes / "check.json").read_text())
        (tmp_path / "c.json").write_text(json.dumps({**check, "weights": weights}))
        with pytest.raises(lpmert.DataError, match=message):
            lpmert.report(tmp_path / "c.json", tmp_path / "page.html")
    nbest = lpmert.read(outcomes / "x.npz")
    other = lpmert.NBest(nbest.features, nbest.offsets, nbest.statistics, names=["a", "c"])
    result = lpmert.minimize(other)
    changed = {**result.to_dict(), "fingerprint": nbest.fingerprint}
    with pytest.raises(lpmert.DataError, match=r"the features are a, b, but .* has a, c|other lists"):
        lpmert.report(lpmert.Result.from_dict(changed), tmp_path / "page.html", data=nbest)


@pytest.mark.parametrize(
    ("columns", "options", "name", "figure", "bound"),
    [
        (["reward"], ["--gain", "reward"], "reward", "9", "at most"),
        (["right"], ["--gain", "right"], "accuracy", "75.00% (1 wrong)", "at most"),
        (
            ["errors", "words"],
            ["--statistics", "errors,words", "--metric", "wer"],
            "WER",
            "10.00% (2 errors)",
            "at least",
        ),
    ],
    ids=["gain", "right", "wer"],
)
def test_the_page_speaks_of_losses_as_the_terminal_does(
    tmp_path: Path, columns: list[str], options: list[str], name: str, figure: str, bound: str
) -> None:
    # four lists of a and b, of which the larger weight wins, a by the better: 4 + 3 + 0 + 2 rewarded, 3 of 4 right,
    # 0 + 0 + 2 + 0 of 20 words wrong
    rows = {"reward": ["4", "1", "0", "3", "0", "0", "2", "1"], "right": list("10010010"), "errors": list("03302000")}
    features = ["1\t0", "0\t1"]
    with (tmp_path / "x.tsv").open("w") as file:
        file.write("\t".join(["list", "a", "b", *columns]) + "\n")
        for row in range(8):
            own = features[row % 2 if row != 3 and row != 2 else 1 - row % 2]
            values = [rows[columns[0]][row], *(["5"] if len(columns) > 1 else [])]
            file.write("\t".join([str(row // 2), own, *values]) + "\n")
    data = [tmp_path / "x.tsv", "--segment", "list", "--features", "a,b", *options]
    shown = succeeded("solve", *data, "--report", tmp_path / "r.html")
    terminal = dict(line.split(maxsplit=1) for line in shown.stdout.splitlines() if line.startswith(name))
    page = parts(tmp_path / "r.html")
    assert page.texts["h1"] == [f"Proved: no weights do better than {name} {terminal[name]}."]
    assert terminal[name] == figure
    assert bound in page.texts["dt"]
    assert not re.search(r"(?<!metric:)\bloss\b", page.all_text)
    drawn = "".join(svg for _, svg in page.pictures)
    assert f">{name}" in drawn
    assert ">loss" not in drawn


def test_lattices_show_their_paths_and_texts(tmp_path: Path) -> None:
    speech = Path(__file__).resolve().parents[2] / "examples" / "speech"
    lattices = lpmert.load_lattices(speech / "lattices", speech / "text").restrict([0, 1, 2])
    result = lpmert.minimize(lattices, method="och", initial_weights=[0.0, 1.0, -1.0])
    page = reported(tmp_path, result, data=lattices, metric="wer", pairs=[])
    assert "Lattices" in page.texts["h2"]
    assert f"3 lattices with {lattices.n_links:,} links" in page.all_text
    rate = lpmert.evaluate(lattices, [0.0, 1.0, -1.0], metric="wer").rates["error_rate"]
    assert page.texts["td"][: len(lattices.names)]
    assert f"{100 * rate:.2f}%" in page.texts["td"]
    assert page.texts["ins"]


def test_a_result_knows_what_it_was_started_from(tmp_path: Path) -> None:
    result = lpmert.minimize(LISTS, initial_weights={"lm": 2, "am": 1, "words": 0})
    assert result.initial.tolist() == [1, 2, 0]
    result.save(tmp_path / "r.json")
    assert lpmert.Result.load(tmp_path / "r.json").initial.tolist() == [1, 2, 0]
    assert lpmert.minimize(LISTS).initial is None
