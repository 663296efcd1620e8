"""The page holds the numbers that an independent computation gives, texts stay texts; what does not fit is refused.

In a real browser it shows its pictures, fits every screen and fetches nothing; hostile texts do nothing.
"""

import base64
import hashlib
import json
import os
import re
import shutil
import signal
from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import ended, refusal, succeeded
from late import Late
from pages import HOSTILE, hostile_lists, parts, reported
from shared import ROOT

import lpmert
from lpmert.quoting import LOSS
from lpmert.reporting.material import Surface

pictures = Late("lpmert.reporting.pictures")

LISTS = lpmert.NBest(
    [[1, 0, 2], [0, 1, 1], [2, 1, 0], [1, 3, 1], [0, 0, 4], [5, 1, 2]],
    [0, 2, 4, 6],
    [[0], [1], [1], [0], [2], [0]],
    names=["am", "lm", "words"],
    list_ids=["u", "v", "w"],
    texts=["the cat", "a cat", "x", "x y", "p", "q"],
)


def started() -> lpmert.Result:
    """A result whose search began at -am."""
    return lpmert.minimize(LISTS, initial_weights={"lm": 0, "am": -1, "words": 0})


def test_every_pair_of_weights_has_a_surface_whose_least_loss_is_the_proved_one(tmp_path: Path) -> None:
    nbest = hostile_lists(3)
    result = lpmert.minimize(nbest)
    assert result.status.proved
    shown = [words for words, _ in reported(tmp_path, result, data=nbest).pictures if "over the weights" in words]
    for (first, second), window in product(combinations(nbest.names, 2), ("wide", "near")):
        (words,) = [one for one in shown if one.endswith(f" of {first} and {second}") and one.startswith(window)]
        assert words.startswith(f"{window}: loss from {result.loss:g} to ")
    assert len(shown) == 6


def test_profiles_have_the_interval_in_which_the_loss_stays(tmp_path: Path) -> None:
    # the first hypothesis wins where x > y
    nbest = lpmert.NBest([[1.0, 0.0], [0.0, 1.0]], [0, 2], [0, 1], names=["x", "y"])
    result = lpmert.minimize(nbest, initial_weights=[1.0, 0.2])
    x, y = "0.833333", "0.166667"  # 1 and 0.2, divided by their sum
    assert reported(tmp_path, result, data=nbest).texts["figcaption"][1:3] == [
        f" = {x}; the same accuracy from {y} to beyond the window",
        f" = {y}; the same accuracy from beyond the window to {x}",
    ]


def test_the_heading_says_what_is_proved(tmp_path: Path) -> None:
    assert reported(tmp_path, lpmert.minimize(LISTS)).texts["h1"] == ["Proved: no weights do better than loss 0."]
    (heading,) = reported(tmp_path, lpmert.minimize(LISTS, method="grid")).texts["h1"]
    assert heading.endswith("Nothing is proved: there may be better ones.")
    rng = np.random.default_rng(0)
    nbest = lpmert.NBest(rng.normal(size=(2000, 8)), np.arange(101) * 20, rng.integers(0, 9, 2000))
    result = lpmert.minimize(nbest, node_limit=1)
    (heading,) = reported(tmp_path, result).texts["h1"]
    assert result.lower_bound < result.loss
    assert f"loss {result.loss:g}." in heading
    assert f"at least {result.lower_bound:g}: a gap of {result.gap_abs:g} is" in heading


def test_what_a_search_was_started_from_is_known_and_lists_that_change_stand_side_by_side(tmp_path: Path) -> None:
    started().save(tmp_path / "r.json")
    assert lpmert.Result.load(tmp_path / "r.json").initial.tolist() == started().initial.tolist() == [-1, 0, 0]
    assert lpmert.minimize(LISTS).initial is None
    page = reported(tmp_path, started(), data=LISTS)
    # at -am every list picks the hypothesis with less am: 1, 1, 0 with losses 1 + 0 + 2; the optimum 0, 1, 1
    assert "start" in page.texts["th"]
    assert "|3|2|2|0|-3|" in f"|{'|'.join(page.texts['td'])}|"
    assert page.texts["del"][:2] == ["p", "a"]
    assert page.texts["ins"][:2] == ["q", "the"]


def test_weights_in_the_plane_of_a_surface_are_marked_and_others_are_said_to_be_elsewhere(tmp_path: Path) -> None:
    result = lpmert.minimize(LISTS)
    moved, apart = (2 * (result.weights + np.array([change, 0.0, 0.0])) for change in (0.25, -0.25))
    elsewhere = np.array([1.0, 2.0, -5.0])
    given = {"a": moved, "b": moved, "c": apart, "elsewhere": elsewhere}
    page = reported(tmp_path, result, data=LISTS, weights={name: own.tolist() for name, own in given.items()})
    (drawn,) = [svg for words, svg in page.pictures if words.startswith("wide") and words.endswith(" am and lm")]
    assert {"1, 2", "3"} <= {*re.findall(r"<text[^>]*>([^<]*)<", drawn)}
    # the third weight is scaled to what it is in the middle, where that takes a positive factor
    out = sum(elsewhere * result.weights <= 0)
    assert " ".join(page.all_text.split()).count("elsewhere (not in this plane)") == out


def test_weights_can_be_copied_from_the_page(tmp_path: Path) -> None:
    result = lpmert.minimize(LISTS, region=lpmert.Region(fixed={"am": -0.25}))
    assert {"-0.25", *(f"{weight:.6g}" for weight in result.weights)} <= set(
        reported(tmp_path, result, data=LISTS).texts["td"]
    )


@pytest.mark.parametrize("seed", range(8))
def test_labels_hide_neither_marks_nor_each_other(seed: int) -> None:
    """Twelve marks about the middle, one beside it and one beyond the picture: all others have a label."""
    rng = np.random.default_rng(seed)
    found = Surface((0, 1), np.zeros(2), np.ones(2), rng.random((9, 9)))
    marks = {str(k): rng.uniform(-0.5, 0.5, 2) for k in range(1, 13)}
    marks |= {"beside": np.array([0.01, 0.01]), "beyond": np.array([1.02, 0.5])}
    with pictures.styled():
        figure = pictures.surface(found, ("a", "b"), marks, {}, LOSS)
        figure.draw_without_rendering()
        axes = figure.axes[0]
        boxes = [text.get_window_extent() for text in axes.texts]
        dots = [axes.transData.transform(line.get_xydata())[0] for line in axes.lines]
    assert {*", ".join(text.get_text() for text in axes.texts).split(", ")} == {*marks} - {"beyond"}
    assert [text.xy for text in axes.texts if "beside" in text.get_text()] == [pytest.approx((0, 0))]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    assert not any(box.contains(*dot) for box in boxes for dot in dots)
    assert min(float(np.hypot(*(a - b))) for a, b in combinations(np.unique(dots, axis=0), 2)) > 5.0


def test_other_lists_features_and_metrics_are_refused(tmp_path: Path) -> None:
    result = lpmert.minimize(LISTS)
    other = lpmert.NBest(LISTS.features, LISTS.offsets, LISTS.statistics, names=["am", "lm", "x"])
    renamed = lpmert.Result.from_dict({**lpmert.minimize(other).to_dict(), "fingerprint": LISTS.fingerprint})
    counted = lpmert.NBest(LISTS.features, LISTS.offsets, [[1.0, 2, 3]] * 6, statistic_names=["match", "p", "g"])
    for outcome, more, message in (
        (result, {"data": LISTS.restrict([0, 1])}, "other lists than those of the result"),
        (renamed, {"data": LISTS}, r"the features are am, lm, words, but .* has am, lm, x|other lists"),
        (lpmert.minimize(counted, metric="f1"), {"data": counted, "metric": "precision"},
         r"the metric here is .*precision.*pass the same metric"),
        (tmp_path / "r.json", {}, r"not about .*r\.json'\); Result\.load reads a saved result"),
        (lpmert.compare(LISTS, ["grid"], optimum=None), {}, "this comparison did not search for it"),
        (started(), {"data": LISTS, "pairs": [("am", "x")]}, "no feature 'x'"),
        (started(), {"data": LISTS, "pairs": [("am", "am")]}, "not twice 'am'"),
        (started(), {"pairs": [("am", "lm")]}, "need the lists: pass data"),
        (started(), {"weights": {"a": [1, 0, 0]}}, "need the lists: pass data"),
        (started(), {"data": LISTS, "weights": {"start": [1, 2, 3]}}, "weights 'start': the outcome has others"),
    ):  # fmt: skip
        with pytest.raises(lpmert.DataError, match=message):
            lpmert.report(outcome, tmp_path / "r.html", **more)
    assert not (tmp_path / "r.html").exists()


def test_ties_are_those_of_the_result(tmp_path: Path) -> None:
    nbest = lpmert.NBest([[1.0, 0], [1, 0], [0, 1]], [0, 3], [3, 0, 2])
    result = lpmert.minimize(nbest, ties="best")
    assert result.loss == 0
    (shown,) = [words for words, _ in reported(tmp_path, result, data=nbest).pictures if words.startswith("wide")]
    assert "loss from 0 to 2 " in shown


def test_hostile_texts_are_shown_as_they_are_nothing_runs_is_fetched_empty_or_out_of_reach(tmp_path: Path) -> None:
    nbest = hostile_lists()
    names = {'</script><b onclick="x">': [1.0, 2.0, 3.0], "\u202e<i>": [3.0, -2.0, 1.0]}
    found = reported(tmp_path, lpmert.minimize(nbest), data=nbest, weights=names)
    source = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert {tag for tag, _ in found.elements} <= {
        *("html", "head", "meta", "title", "style", "body", "main", "header", "nav", "a", "section", "footer"),
        *("h1", "h2", "p", "dl", "div", "dt", "dd", "table", "thead", "tbody", "tr", "th", "td", "caption"),
        *("figure", "figcaption", "img", "strong", "em", "small", "ul", "li", "b", "details", "summary"),
        *("ins", "del", "span"),
    }
    assert sum(tag == "style" for tag, _ in found.elements) == 1
    assert not any(name.startswith("on") or name == "style" for _, own in found.elements for name in own)
    seen = " ".join(found.all_text.split())
    for k in (0, 1, 3, 6, 7):
        assert " ".join(HOSTILE[k].split()) in seen
    assert not {"\u202e", "\u0000"} & {*source}
    assert len(found.pictures) > 10  # which looks at their parts
    for _, own in found.elements:
        assert (own.get("href") or "#").startswith("#")
        assert (own.get("src") or "data:image/svg+xml,").startswith("data:image/svg+xml,")
        assert not {"srcset", "data", "action", "xlink:href", "poster"} & own.keys()
    (style,) = found.texts["style"]
    assert not re.search(r"@import|url\(", style)
    (policy,) = [own["content"] for tag, own in found.elements if own.get("http-equiv")]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert dict(rule.strip().split(" ", 1) for rule in str(policy).split(";")) == {
        **{"default-src": "'none'", "style-src": f"'sha256-{digest}'", "img-src": "data:"},
        **{"base-uri": "'none'", "form-action": "'none'"},
    }
    links = [str(own["href"])[1:] for tag, own in found.elements if tag == "a"]
    assert len(links) >= 5
    assert set(links) <= {own["id"] for _, own in found.elements if own.get("id")}
    assert all(words for words, _ in found.pictures)
    assert source.count("<tr>") > 20
    assert not re.search(r"<tr>\s*</tr>|<th[^>]*>\s*</th>", source)


@pytest.mark.parametrize("call", ["solve", "check --weights 1,1,1", "tune", "compare --methods grid"])
def test_ctrl_c_keeps_outcomes_and_a_page_must_be_writable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    lpmert.write(LISTS, tmp_path / "x.npz")
    monkeypatch.setattr("lpmert.reporting.page._surface", lambda *_: signal.raise_signal(signal.SIGINT))
    ended(130, *call.split(), tmp_path / "x.npz", "-o", tmp_path / "r.json", "--report", tmp_path / "r.html")
    optimum = json.loads((tmp_path / "r.json").read_text())
    assert optimum.get("optimum", optimum)["status"] == "optimal"
    assert not (tmp_path / "r.html").exists()
    words = [*call.split(), tmp_path / "x.npz", "--report"]
    for path, message in (("no/r.html", "cannot be written"), ("x.npz", "would overwrite")):
        said = refusal(*words, tmp_path / path)
        assert message in said
        assert "proved" not in said
    monkeypatch.setattr("lpmert.reporting.pictures.find_spec", lambda _: None)
    said = refusal(*words, tmp_path / "r.html")
    assert said == "lpmert: error: jinja2 is not installed; pip install 'lpmert[report]'"


def test_pages_show_what_the_commands_found(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    nbest = lpmert.NBest(rng.normal(size=(40, 2)), np.arange(11) * 4, rng.integers(0, 9, 40), names=["a", "b"])
    lpmert.write(nbest, tmp_path / "x.npz")
    seen, found = {}, {}
    methods = ["--methods", "och,grid", "--seeds", "2", "--cv", "2", "--repeat", "1"]
    for command, *flags in (["check", "--weights", "1,1"], ["tune"], ["compare", *methods]):
        files = ["-o", tmp_path / "r.json", "--report", tmp_path / "r.html"]
        succeeded(command, tmp_path / "x.npz", *flags, *files)
        found[command], seen[command] = json.loads((tmp_path / "r.json").read_text()), parts(tmp_path / "r.html")
        assert {"Progress", "Error surface", "Which lists change"} <= set(seen[command].texts["h2"])
    told = f"The weights checked have loss {found['check']['loss']:g}: there are better weights: loss"
    assert f"{told} {found['check']['optimum']['loss']:g}" in seen["check"].all_text
    assert "On unseen lists" in seen["tune"].texts["h2"]
    told = f"{100 * found['tune']['optimism']:.1f} % smaller here than expected on unseen lists"
    assert told in seen["tune"].all_text
    assert "Compared" in seen["compare"].texts["h2"]
    for entry in found["compare"]["methods"]:
        assert f"{entry['loss']['mean']:.4g}" in seen["compare"].texts["td"]
    assert "best of grid" in seen["compare"].all_text


# of two features the larger weight wins, a by the better: 4 + 3 + 0 + 2 rewarded, 3 of 4 right, 2 of 20 words wrong
UNITS = """list	a	b	reward	right	errors	words
0	1	0	4	1	0	5
0	0	1	1	0	3	5
1	0	1	0	0	3	5
1	1	0	3	1	0	5
2	1	0	0	0	2	5
2	0	1	0	0	0	5
3	1	0	2	1	0	5
3	0	1	1	0	0	5
"""


def test_the_page_speaks_of_losses_as_the_terminal_does(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text(UNITS)
    for options, name, figure, bound in (
        ("--gain reward", "reward", "9", "at most"),
        ("--gain right", "accuracy", "75.00% (1 wrong)", "at most"),
        ("--statistics errors,words --metric wer", "WER", "10.00% (2 errors)", "at least"),
    ):
        data = [tmp_path / "x.tsv", "--segment", "list", "--features", "a,b", *options.split()]
        shown = succeeded("solve", *data, "--report", tmp_path / "r.html")
        assert [name, *figure.split()] in map(str.split, shown.stdout.splitlines())
        page = parts(tmp_path / "r.html")
        assert page.texts["h1"] == [f"Proved: no weights do better than {name} {figure}."]
        assert bound in page.texts["dt"]
        assert not re.search(r"(?<!metric:)\bloss\b", page.all_text)
        drawn = "".join(svg for _, svg in page.pictures)
        assert f">{name}" in drawn
        assert ">loss" not in drawn


def test_lattices_show_their_paths_and_texts(tmp_path: Path) -> None:
    speech = ROOT / "examples" / "speech"
    lattices = lpmert.load_lattices(speech / "lattices", speech / "text").restrict([0, 1, 2])
    result = lpmert.minimize(lattices, method="och", initial_weights=[0.0, 1.0, -1.0])
    page = reported(tmp_path, result, data=lattices, metric="wer", pairs=[])
    assert "Lattices" in page.texts["h2"]
    assert f"3 lattices with {lattices.n_links:,} links" in page.all_text
    rate = lpmert.evaluate(lattices, [0.0, 1.0, -1.0], metric="wer").rates["error_rate"]
    assert page.texts["td"][: len(lattices.names)]
    assert f"{100 * rate:.2f}%" in page.texts["td"]
    assert page.texts["ins"]


# In a browser

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
BROWSER = next((path for name in BROWSERS if (path := shutil.which(name))), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if BROWSER is None:
        pytest.skip(f"needs a browser ({', '.join(BROWSERS)}): run tests/reporting/install.sh")
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright, of lpmert[test]")
    with sync_api.sync_playwright() as tool:
        alone = ["--no-sandbox"] if os.geteuid() == 0 else []
        yield tool.chromium.launch(executable_path=BROWSER, args=alone)


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path, nbest = tmp_path_factory.mktemp("page") / "r.html", hostile_lists(4)
    lpmert.report(lpmert.minimize(nbest), path, data=nbest, weights={"</script><i>": [1.0, 2.0, 3.0]})
    return path


class Seen:
    """A page that is open, and what it has said and asked for."""

    def __init__(self, browser: Any, file: Path, **settings: Any) -> None:
        self.page = browser.new_context(**settings).new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(file.as_uri())


@pytest.fixture(scope="module")
def seen(browser: Any, page_file: Path) -> Seen:
    return Seen(browser, page_file, viewport={"width": 1200, "height": 900})


def test_every_picture_is_shown_nothing_is_fetched_and_hostile_texts_do_nothing(seen: Seen, page_file: Path) -> None:
    seen.page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    widths = seen.page.evaluate("[...document.images].map((one) => one.complete && one.naturalWidth)")
    assert len(widths) == 13  # progress; three pairs and three weights, each from afar and from near
    assert all(width > 100 for width in widths)
    assert [one for one in seen.asked if not one.startswith("data:image/svg+xml,")] == [page_file.as_uri()]
    assert seen.said == []
    assert seen.page.evaluate("typeof window.hacked") == "undefined"
    assert seen.page.evaluate("document.querySelectorAll('script, iframe, i, base, h1 b, td b, th b').length") == 0


def test_tables_and_parts_are_reached_by_the_keyboard_and_can_be_printed(seen: Seen, tmp_path: Path) -> None:
    reached = set()
    seen.page.focus("nav a")
    for _ in range(60):
        seen.page.keyboard.press("Tab")
        reached.add(seen.page.evaluate("document.activeElement.tagName"))
    assert {"A", "SUMMARY", "DIV"} <= reached
    seen.page.pdf(path=str(tmp_path / "r.pdf"))
    assert (tmp_path / "r.pdf").read_bytes().startswith(b"%PDF")
    seen.page.emulate_media(media="print")
    assert not seen.page.locator("nav").is_visible()
    assert seen.page.locator(".pair img").first.is_visible()
    seen.page.emulate_media(media="screen")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_it_fits_phones_and_desks_in_both_colours(browser: Any, page_file: Path, scheme: str, width: int) -> None:
    seen = Seen(browser, page_file, viewport={"width": width, "height": 800}, color_scheme=scheme)
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    paper = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    levels = [int(part) for part in re.findall(r"\d+", paper)[:3]]
    assert (sum(levels) < 3 * 64) == (scheme == "dark")
    box = seen.page.locator(".pair img").first.bounding_box()
    assert box["width"] > (0.8 if width < 600 else 0.35) * width
    assert seen.said == []
