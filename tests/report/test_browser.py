"""report.html in a real browser: sorting, filtering, jumping, and no script but ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.report import examples
from tests.report.browser import Browser, open_browser
from twinnet.files import atomic_write
from twinnet.report.html import FILE_NAME, render_report
from twinnet.result import Result, ResultSet

ORDER = (
    "return Array.from(document.querySelectorAll('#pairs tbody tr[data-i]'), row => Number(row.dataset.i))"
)
SHOWN = (
    "return Array.from(document.querySelectorAll('#pairs tbody tr[data-i]'))"
    ".filter(row => !row.hidden).map(row => Number(row.dataset.i))"
)
SORT = "document.querySelectorAll('#pairs th button')[arguments[0]].click()"
FILTER = (
    "const f = document.getElementById('filter'); f.value = arguments[0]; f.dispatchEvent(new Event('input'))"
)


def write_report(result: Result | ResultSet, folder: Path, tensors: Any = None) -> Path:
    return atomic_write(folder / FILE_NAME, render_report(result, tensors, folder).encode())


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as found:
        yield found


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(examples.failing(), tmp_path_factory.mktemp("fail"), examples.tensors())


def test_columns_sort_both_ways(browser: Browser, report: Path) -> None:
    browser.go(report)
    ratios = [pair.ratio for pair in examples.failing().pairs]
    assert browser.run(ORDER) == list(range(318))
    browser.run(SORT, 5)
    order = browser.run(ORDER)
    assert [ratios[i] for i in order] == sorted(ratios, reverse=True)
    browser.run(SORT, 5)
    assert [ratios[i] for i in browser.run(ORDER)] == sorted(ratios)
    browser.run(SORT, 2)
    ops = [pair.site.op.lower() for pair in examples.failing().pairs]
    assert [ops[i] for i in browser.run(ORDER)] == sorted(ops)
    browser.run(SORT, 0)
    assert browser.run(ORDER) == list(range(318))
    assert browser.errors() == []


def test_filters_combine_words_and_status(browser: Browser, report: Path) -> None:
    browser.go(report)
    pairs = examples.failing().pairs
    browser.run(FILTER, "FEATURES.1. sigmoid")
    wanted = [
        i for i, p in enumerate(pairs) if p.site.module.startswith("features.1.") and p.site.op == "Sigmoid"
    ]
    assert wanted
    assert browser.run(SHOWN) == wanted
    assert browser.run("return document.getElementById('shown').textContent") == f"{len(wanted)} of 318 pairs"
    browser.run(FILTER, "")
    browser.run("document.querySelector('button[data-status=fail]').click()")
    assert browser.run(SHOWN) == [170]
    browser.run(FILTER, "no such layer")
    assert browser.run(SHOWN) == []
    browser.run(FILTER, "")
    browser.run("document.querySelector('button[data-status=fail]').click()")
    assert len(browser.run(SHOWN)) == 318


def test_the_chart_and_the_findings_lead_to_the_row(browser: Browser, report: Path) -> None:
    browser.go(report)
    browser.run(FILTER, "no such layer")
    browser.run(
        "const svg = document.querySelector('#chart svg'), box = svg.getBoundingClientRect();"
        "const d = svg.dataset, x = Number(d.left) + (arguments[0] + .5) / d.number * (d.right - d.left);"
        "const at = {clientX: box.left + x / d.width * box.width, clientY: box.top + 20, bubbles: true};"
        "svg.dispatchEvent(new PointerEvent('pointermove', at));"
        "svg.dispatchEvent(new MouseEvent('click', at))",
        33,
    )
    tip = browser.run("return document.querySelector('#chart .tip').textContent")
    assert tip.startswith(examples.failing().pairs[33].site.label + ": pass, creates ")
    assert browser.run("return document.querySelector('tr.target').id") == "pair-33"
    assert len(browser.run(SHOWN)) == 318
    more = browser.run("return document.querySelector('tr.more').textContent")
    assert examples.failing().pairs[33].twin_site.tensor in more
    inside = browser.run(
        "const r = document.querySelector('tr.target').getBoundingClientRect();"
        "return r.top >= 0 && r.bottom <= innerHeight"
    )
    assert inside
    browser.run("document.querySelector('#findings a[data-jump]').click()")
    assert browser.run("return document.querySelector('tr.target').id") == "pair-170"
    browser.run("document.getElementById('pair-170').click()")
    assert browser.run("return document.getElementById('pair-170').getAttribute('aria-expanded')") == "false"


def test_sorting_keeps_an_open_row_with_its_details(browser: Browser, report: Path) -> None:
    browser.go(report)
    browser.run("document.getElementById('pair-7').click()")
    browser.run(SORT, 5)
    assert browser.run("return document.getElementById('pair-7').nextElementSibling.className") == "more"


def test_hostile_names_run_nothing(browser: Browser, tmp_path: Path) -> None:
    browser.go(write_report(examples.hostile(), tmp_path, examples.tensors()))
    assert browser.run("return document.scripts.length") == 2
    browser.run("document.getElementById('pair-6').click()")
    more = browser.run("return document.querySelector('tr.more').textContent")
    assert "<script>alert(1)</script>" in more
    assert browser.run("return document.scripts.length") == 2
    assert browser.errors() == []


def test_other_scripts_and_requests_are_refused(browser: Browser, report: Path, tmp_path: Path) -> None:
    text = report.read_text(encoding="utf-8")
    evil = '<script>document.title = "evil"</script><img src="nowhere.png" onerror="document.title = 1">'
    page = tmp_path / "evil.html"
    page.write_text(text.replace("<footer>", f"{evil}<footer>"), encoding="utf-8")
    browser.go(page)
    assert browser.run("return document.title").startswith("FAIL")
    assert any("Content Security Policy" in message for message in browser.errors())


def test_three_thousand_pairs_stay_usable(browser: Browser, tmp_path: Path) -> None:
    browser.go(write_report(examples.failing(3000), tmp_path))
    browser.run(SORT, 5)
    assert browser.run(ORDER)[0] == 1603
    browser.run(FILTER, "features.38 conv2d")
    assert 1603 in browser.run(SHOWN)
    assert browser.errors() == []


@pytest.mark.parametrize("name", ["passing", "failing", "error", "weak", "several"])
def test_a_screenshot_shows_the_page(browser: Browser, name: str, tmp_path: Path) -> None:
    tensors = examples.tensors() if name == "failing" else None
    browser.go(write_report(getattr(examples, name)(), tmp_path, tensors))
    browser.screenshot(tmp_path / "page.png")
    with Image.open(tmp_path / "page.png") as image:
        colours = image.convert("RGB").getcolors(1 << 24)
        assert image.width >= 1000
    assert colours is not None
    assert len(colours) > 50
    wide = browser.run("return [document.documentElement.scrollWidth, innerWidth]")
    assert wide[0] <= wide[1]
    assert browser.errors() == []
