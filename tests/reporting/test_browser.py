"""The page in a real browser: it draws, its controls work, it fetches nothing, and hostile texts do nothing."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import hostile_lists
from test_picturing import brute

import lpmert

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
BROWSER = next((path for name in BROWSERS if (path := shutil.which(name))), None)
PATIENCE = 60_000
NUMBER = r"(\u2212?[0-9.]+(?:e[\u2212+]?[0-9]+)?)"

pytestmark = pytest.mark.skipif(
    BROWSER is None, reason=f"needs a browser ({', '.join(BROWSERS)}): run tests/reporting/install.sh"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright, of lpmert[test]")
    with sync_api.sync_playwright() as tool:
        alone = ["--no-sandbox"] if os.geteuid() == 0 else []
        yield tool.chromium.launch(executable_path=BROWSER, args=alone)


NBEST = hostile_lists(4)
RESULT = lpmert.minimize(NBEST)


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "r.html"
    lpmert.report(RESULT, path, data=NBEST, weights={"</script><i>": [1.0, 2.0, 3.0]})
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
        self.page.wait_for_selector("html[data-drawn]", timeout=PATIENCE)

    def colours(self) -> int:
        """How many colours the drawing has."""
        return int(
            self.page.evaluate(
                "() => { const c = document.getElementById('surface');"
                "const copy = new OffscreenCanvas(c.width, c.height);"
                "const into = copy.getContext('2d', { willReadFrequently: true }); into.drawImage(c, 0, 0);"
                "return new Set(new Uint32Array(into.getImageData(0, 0, c.width, c.height).data.buffer)).size; }"
            )
        )

    def chosen(self, pair: int, window: int) -> None:
        """Choose weights and a window, and wait for the drawing."""
        before = int(self.page.evaluate("document.documentElement.dataset.drawn"))
        self.page.select_option("#pair", str(pair))
        self.page.check(f"input[name=window][value='{window}']")
        self.page.wait_for_function(f"Number(document.documentElement.dataset.drawn) >= {before + 1}", timeout=PATIENCE)
        self.page.wait_for_timeout(300)


@pytest.fixture(scope="module")
def seen(browser: Any, page_file: Path) -> Seen:
    return Seen(browser, page_file, viewport={"width": 1200, "height": 900})


def test_the_page_draws_and_fetches_nothing(seen: Seen, page_file: Path) -> None:
    assert seen.colours() > 3
    assert seen.asked == [page_file.as_uri()]
    assert seen.said == []


def test_hostile_texts_do_nothing(seen: Seen) -> None:
    seen.page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert seen.page.evaluate("typeof window.hacked") == "undefined"
    assert seen.page.evaluate("document.querySelectorAll('img, iframe, b, i, base').length") == seen.page.evaluate(
        "document.querySelectorAll('#key b').length"
    )


def test_the_controls_choose_what_is_drawn(seen: Seen) -> None:
    captions = set()
    for pair in range(3):
        for window in range(3):
            seen.chosen(pair, window)
            captions.add(
                seen.page.inner_text("#caption") + " ".join(seen.page.locator("#overlay .tick").all_text_contents())
            )
            assert seen.colours() > 1
    assert len(captions) == 9
    assert seen.said == []


def test_arrow_keys_read_the_loss_of_decoding(seen: Seen) -> None:
    checked = 0
    for pair, places in enumerate(((0, 1), (0, 2), (1, 2))):
        seen.chosen(pair, 2)
        seen.page.focus("#surface")
        for key in ("ArrowRight", "ArrowUp", "Shift+ArrowUp", "Shift+ArrowLeft", "ArrowDown", "Shift+ArrowDown"):
            seen.page.keyboard.press(key)
            text = seen.page.inner_text("#reading")
            found = re.fullmatch(rf"loss {NUMBER} at .* = {NUMBER}, .* = {NUMBER}", text)
            assert found, text
            loss, first, second = (float(one.replace("\u2212", "-")) for one in found.groups())
            weights = RESULT.weights.copy()
            weights[list(places)] = first, second
            near = [brute(NBEST, weights + 1e-5 * np.array(step)) for step in np.vstack([np.eye(3), -np.eye(3)])]
            if None not in near and len(set(near)) == 1:  # not at a border, which places are rounded at
                assert loss == near[0]
                checked += 1
    assert checked >= 6


def test_all_controls_are_reached_by_the_keyboard(seen: Seen) -> None:
    reached = set()
    seen.page.focus("nav a")
    for _ in range(60):
        seen.page.keyboard.press("Tab")
        reached.add(seen.page.evaluate("document.activeElement.id || document.activeElement.name || ''"))
    assert {"pair", "window", "surface"} <= reached


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_it_fits_phones_and_desks_in_both_colour_schemes(
    browser: Any, page_file: Path, scheme: str, width: int
) -> None:
    seen = Seen(browser, page_file, viewport={"width": width, "height": 800}, color_scheme=scheme)
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    paper = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    levels = [int(part) for part in re.findall(r"\d+", paper)[:3]]
    assert (sum(levels) < 3 * 64) == (scheme == "dark")
    box = seen.page.locator("#surface").bounding_box()
    assert box["width"] > 0.6 * min(width, 700)
    assert seen.said == []


def test_it_can_be_printed(seen: Seen, tmp_path: Path) -> None:
    seen.page.pdf(path=str(tmp_path / "r.pdf"))
    assert (tmp_path / "r.pdf").read_bytes().startswith(b"%PDF")
    seen.page.emulate_media(media="print")
    assert not seen.page.locator("#controls").is_visible()
    assert seen.page.locator("#surface").is_visible()
    seen.page.emulate_media(media="screen")
