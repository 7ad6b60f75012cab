"""report.html from a phone to a wall: nothing runs off the side, and room is used."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.report import examples
from tests.report.browser import Browser, open_browser
from tests.report.test_browser import write_report

INSIDE = "return [document.documentElement.scrollWidth, innerWidth]"
SEEN = "return Array.from(document.querySelectorAll(arguments[0]), e => e.getBoundingClientRect().width > 0)"
BOX = (
    "const b = document.querySelector(arguments[0]).getBoundingClientRect(); return [b.left, b.top, b.width]"
)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(examples.failing(), tmp_path_factory.mktemp("widths"), examples.tensors())


@pytest.fixture(scope="module", params=[400, 1280, 2560])
def at(request: pytest.FixtureRequest, report: Path) -> Iterator[tuple[Browser, int]]:
    """A browser of this width that shows the report."""
    with open_browser(width=request.param) as browser:
        browser.go(report)
        yield browser, request.param


def test_every_width_is_used_and_none_is_exceeded(at: tuple[Browser, int], tmp_path: Path) -> None:
    browser, width = at
    wide, inner = browser.run(INSIDE)
    assert wide <= inner
    narrow = inner <= 640
    assert narrow == (width == 400)
    assert browser.run(SEEN, "#chart svg") == [not narrow, narrow], "the chart has a form of its own"
    left, top, _ = browser.run(BOX, "#pictures")
    verdict_left, verdict_top, _ = browser.run(BOX, ".verdict")
    if width == 2560:
        assert left > verdict_left + 1000 and abs(top - verdict_top) < 2, "pictures beside the answer"
    else:
        assert abs(left - verdict_left) < 2 and top > verdict_top
    shown = browser.run(SEEN, "#pairs tbody tr:first-child td")
    assert sum(shown) == (3 if narrow else 10), (
        "a phone shows layer, status and size; the rest is a touch away"
    )
    assert browser.errors() == []
    browser.screenshot(tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 10_000
