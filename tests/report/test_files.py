"""The files of a run folder, read back by the readers they are meant for."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from tests.report import examples
from twinnet.errors import UsageError
from twinnet.files import atomic_write
from twinnet.report.files import write_run
from twinnet.report.junit import render_junit
from twinnet.report.markdown import render_markdown
from twinnet.report.model_explorer import render_overlay
from twinnet.report.pairs_csv import COLUMNS, render_csv
from twinnet.result import Result, ResultSet, said
from twinnet.site import Site

FILES = {
    "result.json",
    "report.html",
    "pairs.csv",
    "junit.xml",
    "summary.md",
    "environment.json",
    "model_explorer.json",
}


def test_a_run_folder_holds_every_file_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "detector"
    written = write_run(examples.failing(12), folder, examples.tensors())
    assert {path.name for path in folder.iterdir()} == FILES == {path.name for path in written}
    assert written[-1].name == "result.json"
    loaded = Result.load(folder)
    assert isinstance(loaded, Result)
    assert replace(loaded, folder="") == replace(examples.failing(12), folder="")


def test_several_twins_share_a_folder(tmp_path: Path) -> None:
    write_run(examples.several(), tmp_path)
    loaded = Result.load(tmp_path)
    assert isinstance(loaded, ResultSet)
    assert loaded == examples.several()
    assert loaded.exit_code == 1


def test_a_run_can_be_written_over(tmp_path: Path) -> None:
    write_run(examples.failing(12), tmp_path)
    write_run(examples.error(), tmp_path)
    loaded = Result.load(tmp_path)
    assert isinstance(loaded, Result)
    assert loaded.verdict == "ERROR"


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("here")
    with pytest.raises(UsageError, match="cannot write"):
        write_run(examples.passing(), tmp_path / "file" / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_files_have_the_rights_of_ordinary_files(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("x")
    ours = atomic_write(tmp_path / "ours", b"x")
    assert os.stat(ours).st_mode == os.stat(plain).st_mode  # noqa: PTH116


# ------------------------------------------------------------------------------------------------- pairs.csv


def rows(result: Result | ResultSet) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(render_csv(result))))


def test_every_pair_is_a_line_with_exact_figures() -> None:
    result = examples.failing()
    found = rows(result)
    assert len(found) == 318
    assert tuple(found[0]) == COLUMNS
    for row, pair in zip(found, result.pairs, strict=True):
        assert row["tensor"] == pair.site.tensor
        assert float(row["ratio"]) == pair.ratio
        assert float(row["max_abs"]) == pair.difference.max_abs
        assert row["index"] == "0 3 11 42"
    assert {row["twin"] for row in rows(examples.several())} == {"onnxruntime?opt=off", "onnxruntime"}


def test_missing_and_infinite_figures_are_distinct() -> None:
    base = examples.failing(12)
    pair = replace(base.pairs[0], ratio=None, born=math.inf, floor=math.nan)
    row = rows(replace(base, pairs=(pair,)))[0]
    assert (row["ratio"], row["born"], row["floor"]) == ("", "inf", "nan")


@given(
    name=st.text(max_size=12), lead=st.sampled_from(["", "=", "+", "-", "@", "\t=", " =", "\r=", "\n+", "＝"])
)
def test_no_cell_of_text_is_a_formula(name: str, lead: str) -> None:
    base = examples.failing(12)
    site = Site(lead + name, lead + name, lead + name, lead + name, source=lead + name)
    pair = replace(base.pairs[0], site=site, twin_site=site, reason=said(lead + name), segment=(lead + name,))
    found = rows(replace(base, pairs=(pair,), network=replace(base.network, name=lead + name)))
    assert len(found) == 1
    for column in (
        "network",
        "module",
        "op",
        "tensor",
        "source",
        "twin_tensor",
        "twin_op",
        "segment",
        "reason",
    ):
        cell = found[0][column].lstrip()
        assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "＝"))


# ------------------------------------------------------------------------------------------------- junit.xml

ATTRIBUTES = {
    "testsuites": {"name", "tests", "failures", "errors"},
    "testsuite": {"name", "tests", "failures", "errors", "skipped", "time"},
    "testcase": {"name", "classname", "time"},
    "failure": {"message", "type"},
    "error": {"message", "type"},
    "skipped": {"message"},
    "system-out": set(),
}
CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"testcase"},
    "testcase": {"failure", "error", "skipped", "system-out"},
}


def suites(result: Result | ResultSet) -> ET.Element:
    """Parsed, and checked for the elements, attributes and counts that the common schema allows."""
    root = ET.fromstring(render_junit(result))
    for element in root.iter():
        assert set(element.attrib) == ATTRIBUTES[element.tag]
        assert {child.tag for child in element} <= CHILDREN.get(element.tag, set())
    for suite in root:
        assert int(suite.attrib["tests"]) == len(suite.findall("testcase"))
        assert int(suite.attrib["failures"]) == len(suite.findall("testcase/failure"))
        assert int(suite.attrib["errors"]) == len(suite.findall("testcase/error"))
        assert float(suite.attrib["time"]) >= 0
    assert int(root.attrib["tests"]) == sum(int(suite.attrib["tests"]) for suite in root)
    return root


def test_a_failing_check_is_a_failure_with_a_test_per_finding() -> None:
    root = suites(examples.failing())
    cases = root.findall("testsuite/testcase")
    assert [case.attrib["name"] for case in cases] == ["onnxruntime", "features.4.block.0.2 SiLU"]
    failure = cases[0].find("failure")
    assert failure is not None
    assert failure.attrib["message"].startswith("output differs by 2.1e-2, which is 9 400 x")
    assert "born in  features.4.block.0.2 SiLU" in (failure.text or "")
    cause = cases[1].find("failure")
    assert cause is not None
    assert cause.attrib["type"] == "padding"
    assert len(suites(examples.inner()).findall("testsuite/testcase/failure")) == 6


def test_a_check_that_could_not_run_is_an_error_and_no_failure() -> None:
    root = suites(examples.error())
    assert (root.attrib["tests"], root.attrib["failures"], root.attrib["errors"]) == ("1", "0", "1")
    error = root.find("testsuite/testcase/error")
    assert error is not None
    assert error.attrib["message"].startswith("NOT_IMPLEMENTED")
    assert "[info] step 0" in (error.text or "")


def test_weak_evidence_is_said_beside_a_pass() -> None:
    root = suites(examples.weak())
    assert root.attrib["failures"] == "0"
    said = root.find("testsuite/testcase/system-out")
    assert said is not None
    assert "could not have shown a fault" in (said.text or "")
    assert suites(examples.passing()).find("testsuite/testcase/system-out") is None


def test_several_twins_are_several_suites() -> None:
    root = suites(examples.several())
    assert [suite.attrib["name"].partition(" / ")[2] for suite in root] == [
        "onnxruntime?opt=off",
        "onnxruntime",
        "openvino?device=CPU&precision=f32",
    ]


@given(text=st.text(max_size=20))
def test_no_text_breaks_the_xml(text: str) -> None:
    base = examples.hostile()
    bad = text + examples.HOSTILE + "\x00\x08\ufffe\ud800"
    site = Site(bad, bad, bad, bad, source=bad)
    finding = replace(base.findings[0], site=site, cause=None)
    suites(replace(base, findings=(finding,), error=bad, log=bad, stage=bad, verdict="ERROR"))
    suites(replace(base, findings=(finding,), network=replace(base.network, name=bad)))


# ------------------------------------------------------------------------------------------------ summary.md


@pytest.mark.parametrize("name", ["passing", "failing", "error", "weak", "several"])
def test_the_summary_reads_as_agreed(name: str, snapshot: SnapshotAssertion) -> None:
    assert render_markdown(getattr(examples, name)()) == snapshot


def test_names_write_no_markdown() -> None:
    text = render_markdown(examples.hostile())
    outside = [line for line in text.splitlines() if "script" in line]
    assert outside
    for line in outside:
        # In a code span GitHub shows everything as it is; elsewhere it must be escaped.
        spans = line.split("`")
        assert "<script>" not in "".join(spans[::2]) or line.startswith(("<script>", "twinnet"))
    prose = replace(
        examples.weak(),
        guards=(replace(examples.weak().guards[0], fact=said("@all see #12 [x](http://y) a|b")),),
    )
    line = next(line for line in render_markdown(prose).splitlines() if "see" in line)
    for mark in ("@all", "#12", "[x](", "http://", " a|b"):
        assert mark not in line


def test_a_table_row_has_its_cells_whatever_the_names() -> None:
    base = examples.failing(12)
    for name in ("a|b", "a`b", "``", "\\|", "a\nb"):
        site = replace(base.findings[0].site, module=name, source=name)
        text = render_markdown(replace(base, findings=(replace(base.findings[0], site=site),)))
        head = text.splitlines().index("| born in | source | x noise floor | share | cause |")
        row = text.splitlines()[head + 2]
        assert row.replace("\\|", "").count("|") == 6


# --------------------------------------------------------------------------------------- model_explorer.json


def test_the_overlay_has_the_form_model_explorer_reads() -> None:
    result = examples.failing()
    data = json.loads(render_overlay(result))
    # A file without graph ids has `results` at its top, whose values are single node results.
    assert set(data) == {"name", "results", "thresholds"}
    assert "results" not in data["results"]
    for node in data["results"].values():
        assert set(node) <= {"value", "bgColor", "textColor"}
        assert math.isfinite(node["value"])
    bounds = [item["value"] for item in data["thresholds"]]
    assert bounds == sorted(bounds)
    culprit = result.findings[0]
    for name in (culprit.twin_site.tensor, culprit.twin_site.node, culprit.site.tensor):
        assert data["results"][name]["value"] == 9412.0
    assert sum("textColor" in node for node in data["results"].values()) == 3


def test_the_overlay_holds_numbers_only() -> None:
    base = examples.failing(12)
    odd = (
        replace(base.pairs[0], ratio=math.inf),
        replace(base.pairs[1], ratio=math.nan, status="fail"),
        replace(base.pairs[2], ratio=None, status="fail"),
        replace(base.pairs[3], ratio=None, status="not judged"),
    )
    data = json.loads(render_overlay(replace(base, pairs=odd)))["results"]
    values = [data[pair.twin_site.tensor]["value"] for pair in odd]
    assert values == [1e12, 1e12, 1e12, 0.0]


def test_of_several_twins_the_overlay_shows_the_worst() -> None:
    data = json.loads(render_overlay(examples.several()))["results"]
    assert data["silu_170"]["value"] == 9412.0
    assert json.loads(render_overlay(ResultSet(())))["results"] == {}
