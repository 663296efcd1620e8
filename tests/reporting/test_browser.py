"""The page in a real browser: it shows its pictures, fits every screen, fetches nothing; hostile texts do nothing."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pages import hostile_lists

import lpmert

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
BROWSER = next((path for name in BROWSERS if (path := shutil.which(name))), None)

pytestmark = pytest.mark.skipif(
    BROWSER is None, reason=f"needs a browser ({', '.join(BROWSERS)}): run tests/reporting/install.sh"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
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
