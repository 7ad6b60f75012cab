"""The page in a real browser: list, heat maps, zoom, probe, console; nothing from elsewhere."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from tests.debugger.running import Debugger, thread
from tests.report.browser import Browser, open_browser
from twinnet import lut
from twinnet.debugger.start import stop_at_check, stop_at_traces
from twinnet.demo.upscaler import build
from twinnet.lut.plan import Plan

TABLE = "stage1.in_c0.b0"
LISTED = "return Array.from(document.querySelectorAll('#sites button'), b => b.dataset.site)"
DRAWN = "return document.body.dataset.drawn ?? ''"
TEXT = "return document.getElementById(arguments[0]).textContent"
CHOOSE = "document.querySelector(`#sites button[data-site='${arguments[0]}']`).click()"
TYPE = """
const line = document.getElementById('line');
line.value = arguments[0];
line.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', bubbles: true, cancelable: true}));
"""
POINT = """
const canvas = document.getElementById('map-' + arguments[0]), box = canvas.getBoundingClientRect();
const at = {clientX: box.left + (arguments[2] + .5) / arguments[4] * box.width,
            clientY: box.top + (arguments[1] + .5) / arguments[3] * box.height, bubbles: true, pointerId: 1};
canvas.setPointerCapture = () => {};
for (const kind of arguments[5]) {
  canvas.dispatchEvent(kind === 'wheel' ? new WheelEvent(kind, {...at, deltaY: -100}) : new PointerEvent(kind, at));
}
"""
PIXEL = """
const canvas = document.getElementById('map-' + arguments[0]), pen = canvas.getContext('2d');
const x = Math.floor((arguments[2] + .5) / arguments[4] * canvas.width);
const y = Math.floor((arguments[1] + .5) / arguments[3] * canvas.height);
return Array.from(pen.getImageData(x, y, 1, 1).data);
"""
LAST = "return document.querySelector('#log pre:last-child')?.textContent ?? ''"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser(1400, 1000) as found:
        yield found


@pytest.fixture(scope="module")
def debugger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Debugger]:
    """The upscaler against tables with one wrong entry."""
    network, example = build()
    plan = lut.lower(lut.export(build()[0]))
    values = plan.tables[TABLE].values.copy()
    values[36540 % len(values), 2] += 40
    values[:: len(values) // 50, 1] += 20
    wrong = Plan.build(plan.stages, {TABLE: replace(plan.tables[TABLE], values=values)})
    ramp = torch.linspace(0, 1, 48 * 64).reshape(1, 1, 48, 64)
    image = (ramp + 0.2 * torch.sin(torch.arange(64) / 5)).clamp(0, 1).expand(example[0].shape).contiguous()
    folder = tmp_path_factory.mktemp("page")
    file = folder / "wrong.lut.safetensors"
    lut.save(lut.raise_plan(wrong), file)
    stopped = stop_at_check((network, example), {"x": image.numpy()}, f"lut:{file}")
    with thread(stopped, folder) as found:
        yield found


@pytest.fixture
def page(browser: Browser, debugger: Debugger) -> Browser:
    browser.open(debugger.text("link"), f"{debugger.url}/")
    browser.until("return document.body.dataset.ready ?? ''", "1")
    return browser


def choose(page: Browser, site: str) -> tuple[int, int]:
    """Click a site; rows and columns of the whole plane, once it is drawn."""
    page.run(CHOOSE, site)
    page.until("return document.getElementById('name').textContent", site)
    rows, columns = page.run("return [state.loaded.height, state.loaded.width]")
    page.until(DRAWN, f"{site}@0,0,{rows},{columns}")
    return rows, columns


def test_the_list_shows_every_site_with_a_bar(page: Browser, debugger: Debugger) -> None:
    sites = debugger.data("sites()")["sites"]
    assert page.run(LISTED) == [s["site"] for s in sites]
    widths = page.run("return Array.from(document.querySelectorAll('.bar'), b => parseFloat(b.style.width))")
    assert [w > 0 for w in widths] == [s["max"] > 0 for s in sites]
    largest = max(sites, key=lambda s: s["max"])
    assert widths[sites.index(largest)] == max(widths) == 100
    failing = page.run("return Array.from(document.querySelectorAll('#sites .fail'), b => b.dataset.site)")
    assert failing == [s["site"] for s in sites if s["status"] == "fail"]
    assert failing
    page.run("document.getElementById('by-error').click()")
    assert page.run(LISTED)[0] == largest["site"]
    page.run("document.getElementById('by-order').click()")
    page.run(
        "const f = document.getElementById('filter'); f.value = 'rot1 sr'; f.dispatchEvent(new Event('input'))"
    )
    assert page.run(LISTED) == [f"{TABLE}.rot1.sr"]
    assert page.run(TEXT, "counted").startswith(f"1 of {len(sites)} sites, differences in pixels")
    assert page.errors() == []


def test_it_opens_at_the_worst_site(page: Browser, debugger: Debugger) -> None:
    assert page.run(TEXT, "name") == debugger.data("worst(1)")["sites"][0]["site"]


def test_three_maps_on_one_scale(page: Browser, debugger: Debugger) -> None:
    rows, columns = choose(page, "stage1")
    plane = debugger.data("plane('stage1')")
    assert (rows, columns) == (96, 128)
    ours, theirs = (
        np.frombuffer(base64.b64decode(plane[s]), "<f4").reshape(rows, columns) for s in ("network", "twin")
    )
    y, x = np.unravel_index(np.abs(theirs - ours).argmax(), ours.shape)
    equal = np.argwhere(ours == theirs)[0]
    same = [
        page.run(PIXEL, side, int(equal[0]), int(equal[1]), rows, columns) for side in ("network", "twin")
    ]
    assert same[0] == same[1], "equal values have equal colours on both sides"
    other = [page.run(PIXEL, side, int(y), int(x), rows, columns) for side in ("network", "twin")]
    assert other[0] != other[1]
    grey = page.run(PIXEL, "difference", int(equal[0]), int(equal[1]), rows, columns)
    assert max(grey[:3]) - min(grey[:3]) < 4
    assert page.run(PIXEL, "difference", int(y), int(x), rows, columns)[:3] != grey[:3]
    assert page.run(TEXT, "low") == str(int(min(ours.min(), theirs.min())))
    assert page.run(TEXT, "most") == f"+{round(float(np.abs(theirs - ours).max()))}"


def test_zoom_probe_and_click(page: Browser, debugger: Debugger) -> None:
    rows, columns = choose(page, f"{TABLE}.rot0")
    page.run(POINT, "twin", 40, 70, rows, columns, ["wheel"])
    view = page.run("return state.view")
    assert (view["rows"], view["columns"]) == (64, 85)
    assert view["top"] <= 40 < view["top"] + view["rows"]
    page.run("document.getElementById('zoom-in').click()")
    assert page.run("return state.view.rows") == 43
    page.run("document.getElementById('worst').click()")
    probe = page.run(TEXT, "probe")
    found = debugger.data(f"cmp('{TABLE}.rot0')")
    plane = debugger.data(f"plane('{TABLE}.rot0')")
    assert plane["lead"] == found["index"][:2]
    assert probe.startswith(f"[{', '.join(map(str, found['index']))}]"), (probe, found)
    page.run("document.getElementById('fit').click()")
    y, x = found["index"][2:]
    page.run(POINT, "network", y, x, rows, columns, ["pointermove"])
    assert page.run(TEXT, "probe") == probe
    page.run(POINT, "network", y, x, rows, columns, ["pointerdown", "pointerup"])
    page.until(f"{LAST.replace('return ', 'return (')}).includes('vertices')", True)
    assert "<- the network's table has" in page.run(LAST)


def test_leading_axes_can_be_chosen(page: Browser) -> None:
    choose(page, f"{TABLE}.rot0.sr")
    page.run(
        "const [n, c] = document.querySelectorAll('#lead input'); n.value = 2; c.value = 3;"
        "c.dispatchEvent(new Event('change'))"
    )
    page.until("return state.loaded.lead", [2, 3])


def test_the_console_evaluates_and_the_page_follows(page: Browser) -> None:
    page.run(TYPE, "6 * 7")
    page.until(LAST, "42")
    page.run(TYPE, "for i in range(2):\n    print(i)")
    page.until(LAST, "0\n1")
    page.run(TYPE, "1 / 0")
    page.until(f"{LAST.replace('return ', 'return (')}).includes('ZeroDivisionError')", True)
    assert page.run("return document.querySelector('#log pre:last-child').className") == "wrong"
    choose(page, "stage1")
    before = page.run("return document.querySelector(`#sites button[data-site='stage1'] .size`).textContent")
    page.run(TYPE, "; ".join(f"repair('{TABLE}.rot{r}.sr')" for r in range(4)) + "; rerun()")
    size = "return document.querySelector(`#sites button[data-site='stage1'] .size`).textContent"
    page.until(f"{size.replace('return ', 'return (')}) !== '{before}'", True)
    assert float(page.run(size)) < float(before)
    page.run(TYPE, "reset()")
    page.until(size, before)
    assert all("400 (Bad Request)" in error for error in page.errors()), (
        "the division by zero, and nothing else"
    )


def test_a_screenshot_shows_the_page(page: Browser, debugger: Debugger, tmp_path: Path) -> None:
    choose(page, f"{TABLE}.rot0.sr")
    page.run("document.getElementById('worst').click()")
    found = debugger.data(f"cmp('{TABLE}.rot0.sr')")["index"]
    page.run(TYPE, f"at('{TABLE}.rot0.sr', {found[2]}, {found[3]}, channel={found[1]}, sample={found[0]})")
    page.until(f"{LAST.replace('return ', 'return (')}).includes('vertices')", True)
    target = Path(os.environ.get("TWINNET_ARTEFACTS") or tmp_path) / "debugger.png"
    target.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(target)
    with Image.open(target) as image:
        colours = image.convert("RGB").getcolors(1 << 24)
    assert colours is not None
    assert len(colours) > 100
    assert page.run("return document.documentElement.scrollWidth <= innerWidth")
    assert page.run(
        "const view = document.getElementById('view'); return view.scrollWidth <= view.clientWidth"
    )
    assert page.errors() == []


def test_a_large_plane_is_sharpened_where_it_is_looked_at(browser: Browser, tmp_path: Path) -> None:
    ours = np.zeros((1, 1500, 1600), np.float32)
    theirs = ours.copy()
    theirs[0, 777, 888] = 1
    with thread(stop_at_traces({"big": ours}, {"big": theirs}), tmp_path) as debugger:
        browser.open(debugger.text("link"), f"{debugger.url}/")
        browser.until("return document.body.dataset.ready ?? ''", "1")
        assert browser.run("return maps.reduced(state.loaded)") is True
        browser.run("document.getElementById('worst').click()")
        browser.until("return maps.reduced(state.loaded)", False)
        browser.run("document.getElementById('worst').click()")
        assert browser.run(TEXT, "probe").startswith("[0, 777, 888]  network 0  twin 1  difference 1")
        assert browser.errors() == []


def test_hostile_names_run_nothing(browser: Browser, tmp_path: Path) -> None:
    name = "<img src=x onerror=document.title='evil'>'); import os"
    traces: list[dict[str, Any]] = [{name: np.zeros(4)}, {name: np.ones(4)}]
    with thread(stop_at_traces(*traces), tmp_path) as debugger:
        browser.open(debugger.text("link"), f"{debugger.url}/")
        browser.until("return document.body.dataset.ready ?? ''", "1")
        assert browser.run(TEXT, "name") == name
        assert browser.run("return document.title") == "twinnet debugger"
        assert browser.run("return state.loaded.columns") == 4
        assert browser.errors() == []
