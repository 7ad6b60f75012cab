"""profile.html: one page that shows time and limits, escapes names and loads nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.report.browser import open_browser
from twinnet.profile.model import Profile, Quantiles, Row
from twinnet.profile.target import Target
from twinnet.report.figures import percent
from twinnet.report.profiles import profile_text
from twinnet.report.profiles.flame import flame_of
from twinnet.report.profiles.page import render_profile
from twinnet.report.profiles.roofline import roofline_of

TIMES = Quantiles(0.9e-3, 1e-3, 1.2e-3)
ROWS = (
    Row("c1", "Conv", "k", ("conv2d", "relu"), ("relu", "conv2d"), "stem.0", ("stem.0",), "m.py:3", "1x8x8x8",
        p50=6e-4, share=0.6, bytes=10_000, flops=20_000_000, intensity=2000.0, limit="compute", efficiency=0.8),
    Row("a<b>", "Add", sites=("add",), module="<script>", p50=3e-4, share=0.3, bytes=900_000, flops=90_000,
        intensity=0.1, limit="memory", efficiency=0.9),
    Row("Reorder", "Reorder", p50=1e-4, share=0.1),
)  # fmt: skip
PROFILE = Profile(
    "net",
    "onnxruntime",
    "onnxruntime",
    "1",
    5,
    TIMES,
    TIMES,
    0.02,
    0.05,
    0.9,
    ROWS,
    Target("cpu", 5e10, 1e10, 1e-6),
)


def test_the_page_stands_alone_and_escapes_names() -> None:
    page = render_profile(PROFILE)
    assert page.count("<script>") == 1 and "&lt;script&gt;" in page
    assert not re.findall(r"(?:src|href)=.https?:", page)
    assert page.count('id="row-') == 3 and "Flame graph" in page and "Roofline" in page
    assert "compute bound, 80" in page and "m.py:3" in page
    assert "<td>between the steps</td>" in page and percent(0.05, 1) in page


def test_a_row_has_all_its_modules_and_its_work() -> None:
    several = replace(ROWS[0], modules=("stem.0", "stem.1", "body", "head", "<i>"))
    page = render_profile(replace(PROFILE, rows=(several, *ROWS[1:])))
    assert 'title="stem.1, body, head, &lt;i&gt;">and stem.1, body, head, 1 more<' in page
    assert "20.0 MFLOP<" in page and "2\u00a0000 FLOP/byte<" in page


def test_steps_that_cannot_run_alone_are_named() -> None:
    alone = replace(PROFILE, alone=True, gap=0.1, rows=(*ROWS, replace(ROWS[0], name="state", calls=0)))
    text = profile_text(alone)
    assert "timers   none; each step was run alone: together they take 10 % less than the whole" in text
    assert "these cannot be run alone: state" in text and "alone: state" in render_profile(alone)


def test_why_values_are_not_paired_is_said() -> None:
    alone = replace(PROFILE, unpaired="the twin gives no values")
    assert "\nunpaired the twin gives no values: only names tie steps to layers\n" in profile_text(alone)
    assert "<dt>unpaired</dt><dd>the twin gives no values" in render_profile(alone)
    assert "unpaired" not in profile_text(PROFILE) + render_profile(PROFILE)


def test_the_flame_is_as_wide_as_the_time() -> None:
    flame = flame_of(PROFILE)
    widths = {box.row: box.width / flame.width for box in flame.boxes if box.row is not None}
    assert widths == pytest.approx({0: 0.57, 1: 0.285, 2: 0.095}, abs=0.01)
    between = next(box for box in flame.boxes if box.title.startswith("(between the steps)"))
    assert between.width / flame.width == pytest.approx(PROFILE.gap, abs=0.01)
    assert next(box for box in flame.boxes if box.text == "net").width == flame.width
    levels = {box.text: box.y for box in flame.boxes}
    assert levels["net"] < levels["stem"] < levels["0"]
    assert flame_of(replace(PROFILE, rows=())).boxes == ()


def test_steps_of_a_module_stand_where_they_run() -> None:
    """Those between its inner modules, too, not before them."""
    rows = [Row(name, "Op", sites=(name,), module=module, p50=1.0) for name, module in
            (("a", "stem"), ("b", ""), ("c", "head"), ("d", "stem"))]  # fmt: skip
    boxes = [box for box in flame_of(replace(PROFILE, rows=tuple(rows))).boxes if box.row is not None]
    assert [box.row for box in sorted(boxes, key=lambda box: box.x)] == [0, 3, 1, 2]


def test_a_busy_machine_is_named() -> None:
    waited = replace(PROFILE, cpu=Quantiles(2e-4, 3e-4, 4e-4))
    assert "only 300 us of that is CPU time" in profile_text(waited)
    assert "busy" not in profile_text(PROFILE) and "busy" not in profile_text(replace(PROFILE, cpu=TIMES))


def test_the_roof_bends_where_the_machine_does() -> None:
    roof = roofline_of(PROFILE)
    assert roof is not None and len(roof.dots) == 2
    compute, memory = roof.dots
    assert memory.x < roof.ridge < compute.x and compute.size > memory.size
    assert roofline_of(replace(PROFILE, rows=ROWS[2:])) is None


def test_long_names_keep_what_tells_them_apart() -> None:
    names = [f"model.backbone.stage.{i}.expand_1x1.convolution" for i in range(2)]
    rows = tuple(
        replace(ROWS[0], module=name, network_ops=("pad", "conv2d", "batch_norm", "relu")) for name in names
    )
    table = profile_text(replace(PROFILE, rows=rows)).rpartition("\n\n")[2]
    assert "place in model.backbone.stage" in table
    assert "\n0.expand_1x1.convolution pad+con" in table and "\n1.expand_1x1.convolution pad+con" in table


def test_the_page_bars_nobody_and_fits_a_phone(tmp_path: Path) -> None:
    long = replace(
        PROFILE.rows[0],
        module="model.backbone.stage.0.block.1.expand.convolution",
        network_ops=("conv2d",) * 9,
    )
    file = tmp_path / "profile.html"
    file.write_text(render_profile(replace(PROFILE, rows=(long, *PROFILE.rows))))
    with open_browser(500, 900) as browser:
        browser.go(file)
        assert browser.barriers() == []
        wide, window = browser.run("return [document.documentElement.scrollWidth, window.innerWidth]")
        assert wide <= window
        assert browser.errors() == []
