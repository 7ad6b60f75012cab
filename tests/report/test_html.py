"""report.html as a parser sees it: complete, self-contained, and deaf to names that are code."""

from __future__ import annotations

import base64
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.report import examples
from twinnet.report.html import render_fragment, render_report
from twinnet.report.source import excerpt_at
from twinnet.result import Result, ResultSet
from twinnet.site import Site

VOID = {"meta", "link", "img", "br", "input", "col"}
PAGES: dict[str, Result | ResultSet] = {
    "pass": examples.passing(),
    "fail": examples.failing(),
    "inner": examples.inner(),
    "error": examples.error(),
    "weak": examples.weak(),
    "several": examples.several(),
    "hostile": examples.hostile(),
}


class Page(HTMLParser):
    """Elements in order, text by element, and a complaint where a tag is closed that was not open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.scripts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open, f"never closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        (self.scripts if self._open and self._open[-1] in ("script", "style") else self.text).append(data)

    def all(self, tag: str, **attrs: str) -> list[dict[str, str | None]]:
        wanted = attrs.items()
        return [a for t, a in self.elements if t == tag and all(a.get(k) == v for k, v in wanted)]

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


def page_of(name: str, **more: Any) -> Page:
    return Page(render_report(PAGES[name], **more))


@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_well_formed_and_reaches_for_nothing(name: str) -> None:
    text = render_report(PAGES[name], examples.tensors())
    page = Page(text)
    for tag, attrs in page.elements:
        for key in ("src", "href", "action", "data", "poster", "srcset", "xlink:href"):
            address = attrs.get(key)
            assert address is None or address.startswith(("data:", "#")), (tag, address)
        assert not any(key.startswith("on") for key in attrs), (tag, attrs)
    assert not re.search(r"(url\(|@import|fetch\(|XMLHttpRequest)", text)
    assert not re.search(r"https?:", text)


@pytest.mark.parametrize("name", PAGES)
def test_names_never_become_markup(name: str) -> None:
    page = page_of(name)
    scripts = page.all("script")
    assert all(attrs.get("type") in (None, "application/json") for attrs in scripts)
    assert len(scripts) == (1 if name in ("error", "several") else 2)
    allowed = """
        html head meta title link style body main h1 h2 h3 small span section div p dl dt dd b a code button
        article pre details summary svg line text path figure img figcaption input output table colgroup col
        thead tbody tr th td script ul li i footer
    """
    assert {tag for tag, _ in page.elements} <= set(allowed.split())


def test_hostile_text_is_shown_as_text() -> None:
    page = page_of("hostile")
    assert "<script>alert(1)</script>" in page.words
    assert "\x1b" not in page.words
    details = json.loads(next(s for s in page.scripts if s.lstrip().startswith("[[")))
    assert ["tensor", "<script>alert(1)</script>\"'&\\x1b[31m\\n=cmd|' /C calc'!A0"] in details[6]


def test_only_our_script_may_run() -> None:
    import hashlib

    text = render_report(PAGES["fail"])
    page = Page(text)
    policy = page.all("meta")[1]["content"]
    assert policy is not None
    assert "default-src 'none'" in policy
    script = text[text.rindex("<script>") + len("<script>") : text.rindex("</script>")]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy


def test_every_pair_has_its_row_and_its_details() -> None:
    result = examples.failing(3000)
    page = Page(render_report(result))
    rows = [attrs for attrs in page.all("tr") if "data-i" in attrs]
    assert [attrs["data-i"] for attrs in rows] == [str(i) for i in range(3000)]
    assert sum(attrs["data-status"] == "fail" for attrs in rows) == 1
    details = json.loads(next(s for s in page.scripts if s.lstrip().startswith("[[")))
    assert len(details) == 3000
    dots = page.all("path", **{"class": "dot pass"})[0]["d"]
    assert dots is not None
    assert dots.count("M") == 2999


def test_the_page_says_what_the_screen_says() -> None:
    words = page_of("fail").words.replace("\u00a0", " ")
    for text in (
        "output differs by 2.1e-2, which is 9 400 x what float32 rounding can explain",
        "features.4.block.0.2 SiLU",
        "98 % of the output error",
        "the twin pads (1,1) where the network pads (1,2)",
        "the network was in training mode",
        "mAP50: network 0.4127",
        "twinnet repro runs/detector-onnxruntime",
        "318 of 321 sites matched",
        "head.anchor_grid",
        "Linux 6.1 x86_64",
        "twinnet check detector.py:build",
        "4.21 s",
    ):
        assert text in words
    assert "could not have shown a fault" in page_of("weak").words
    assert "Unsupported data type: bfloat16" in page_of("error").words


def images(page: Page) -> list[Image.Image]:
    found = []
    for attrs in page.all("img"):
        address = attrs["src"]
        assert address is not None
        head, _, data = address.partition(",")
        assert head == "data:image/png;base64"
        found.append(Image.open(io.BytesIO(base64.b64decode(data))))
    return found


def test_pictures_show_the_worst_slice_in_its_own_size() -> None:
    page = page_of("fail", tensors=examples.tensors())
    found = images(page)
    assert [image.size for image in found] == [(80, 45)] * 6
    difference = np.asarray(found[2].convert("RGB")).astype(int)
    # The planted fault: two columns too high (red) at the right, one row too low (blue) at the bottom.
    assert (difference[:-1, -2:, 0] > difference[:-1, -2:, 2] + 60).all()
    assert (difference[-1, :-2, 2] > difference[-1, :-2, 0] + 60).all()
    inner = difference[:-1, :-2]
    assert (np.abs(inner[..., 0] - inner[..., 2]) < 60).all()
    same = np.asarray(found[0]) == np.asarray(found[1])
    assert same.mean() > 0.8


def test_pictures_are_few_and_small() -> None:
    rng = np.random.default_rng(0)
    big = {f"conv2d_{i}": (rng.normal(size=(1, 2, 700, 900)),) * 2 for i in range(0, 84, 7)}
    page = page_of("fail", tensors=big)
    found = images(page)
    assert len(found) == 8 * 3
    assert all(image.size == (256, 256) for image in found)


@pytest.mark.parametrize(
    ("reference", "twin"),
    [
        (np.float32(1.0), np.float32(2.0)),
        (np.zeros((0, 4)), np.zeros((0, 4))),
        (np.zeros((2, 3)), np.zeros((3, 2))),
        (np.array([True, False]), np.array([False, True])),
        (np.array([[np.nan, np.inf, 1.0]]), np.array([[1.0, np.inf, 1.0]])),
        (np.full((1, 3, 4, 5), np.nan), np.full((1, 3, 4, 5), np.nan)),
        (np.arange(5, dtype=np.int64), np.arange(5, dtype=np.int64)[::-1]),
        (np.array([1e308, -1e308]), np.array([-1e308, 1e308])),
        (np.array([0.0, 5e-324]), np.array([5e-324, 0.0])),
    ],
)
def test_any_tensor_can_be_pictured(reference: np.ndarray, twin: np.ndarray) -> None:
    with np.errstate(all="raise", under="ignore"):
        page = page_of("fail", tensors={"silu_170": (np.asarray(reference), np.asarray(twin))})
    images(page)
    assert "silu_170" in page.words


def test_odd_elements_are_marked_magenta() -> None:
    reference = np.zeros((4, 4))
    twin = reference.copy()
    twin[1, 2] = np.nan
    found = images(page_of("fail", tensors={"silu_170": (reference, twin)}))
    marked = (np.asarray(found[2].convert("RGB")) == (255, 0, 220)).all(axis=-1)
    assert marked.sum() == 1
    assert marked[1, 2]


def test_the_users_own_lines_stand_beside_a_finding(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text("".join(f"line_{i} = '<b>&'\n" for i in range(1, 101)))
    base = examples.failing()
    site = replace(base.findings[0].site, source=f"{file}:71")
    page = Page(render_report(replace(base, findings=(replace(base.findings[0], site=site),))))
    assert "line_71 = '<b>&'" in page.words
    assert "line_68" in page.words
    assert "line_67" not in page.words
    assert len(page.all("span", **{"class": "hit"})) == 1


def test_only_python_source_is_ever_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret\n" * 5)
    (tmp_path / "dir.py").mkdir()
    short = tmp_path / "short.py"
    short.write_text("a = 1\n")
    for source in (
        "",
        "model.py",
        "/etc/passwd:1",
        f"{secret}:1",
        f"{tmp_path}/dir.py:1",
        f"{short}:2",
        f"{short}:0",
    ):
        assert excerpt_at(source) is None
    assert excerpt_at(f"{short}:-1") is None
    assert excerpt_at(f"{short}:{'9' * 50}") is None
    assert excerpt_at("a\x00b.py:1") is None
    found = excerpt_at(f"{short}:1")
    assert found is not None
    assert found.lines == ((1, "a = 1"),)


def test_several_outputs_are_listed() -> None:
    base = examples.failing()
    good = replace(base.outputs[0], site=Site("boxes"), status="pass", ratio=0.2)
    good = replace(good, difference=replace(good.difference, max_abs=1e-9))
    page = Page(render_report(replace(base, outputs=(good, base.outputs[0]))))
    assert "boxes agrees" in page.words
    assert "differs 2.1e-2" in page.words


def test_twins_link_to_their_own_reports(tmp_path: Path) -> None:
    several = examples.several()
    moved = ResultSet(tuple(replace(r, folder=str(tmp_path / f"twin {i}")) for i, r in enumerate(several)))
    page = Page(render_report(moved, None, tmp_path))
    assert [attrs["href"] for attrs in page.all("a")] == [f"twin%20{i}/report.html" for i in range(3)]
    assert "1 of 3 twins compute what the network computes" in page.words


@pytest.mark.parametrize("name", PAGES)
def test_the_notebooks_form_is_small_and_has_no_script(name: str) -> None:
    fragment = render_fragment(PAGES[name])
    page = Page(fragment)
    assert not page.all("script")
    assert not page.all("style")
    assert len(fragment) < 20_000
    for one in PAGES[name] if isinstance(PAGES[name], ResultSet) else (PAGES[name],):
        assert one.verdict in page.words
    if name == "fail":
        assert PAGES[name]._repr_html_() == fragment  # type: ignore[union-attr]
