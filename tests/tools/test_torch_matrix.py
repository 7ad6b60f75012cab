"""The table of PyTorch versions: what is counted, how rows are kept, and that the page shows them."""

from __future__ import annotations

import sys
import tomllib
from dataclasses import replace
from pathlib import Path

from tools.torch_matrix import CORE, KEPT, PAGE, ROOT, Row, counted, find_python, kept_rows, merged, table

from twinnet.torch_versions import NEWEST_TRIED, OLDEST

ROW = Row("2.9.0+cu128", "3.11.7", 10, 0, 1, 60)


def test_a_junit_file_is_counted(tmp_path: Path) -> None:
    (tmp_path / "junit.xml").write_text(
        "<testsuites><testsuite>"
        '<testcase classname="a" name="good"/>'
        '<testcase classname="a" name="spared"><skipped message="no data"/></testcase>'
        '<testcase classname="a" name="wrong"><failure>x</failure></testcase>'
        '<testcase classname="a" name="wrong"><error>on the way out</error></testcase>'
        '<testcase classname="b" name="broken"><error>x</error></testcase>'
        "</testsuite></testsuites>"
    )
    assert counted(tmp_path / "junit.xml") == (1, 2, 1, ("a::wrong", "b::broken"))


def test_a_row_takes_the_place_of_its_predecessor() -> None:
    newer, other = replace(ROW, torch="2.9.1", passed=12), replace(ROW, python="3.13.0")
    last = replace(ROW, torch="2.13.0")
    assert merged([last, ROW], [other, newer]) == [newer, other, last]
    assert table([ROW]).splitlines()[-1] == "| 2.9.0+cu128 | 3.11.7 | 10 | 0 | 1 | 60 |"


def test_the_interpreter_that_runs_this_is_found() -> None:
    assert find_python("") == find_python("{}.{}".format(*sys.version_info)) == sys.executable
    assert find_python("3.99") is None


def test_the_core_tests_are_there() -> None:
    assert [place for place in CORE if not (ROOT / place).exists()] == []


def test_the_page_shows_the_rows_that_were_measured() -> None:
    rows = kept_rows()
    assert KEPT.exists() and rows == merged(rows, [])
    assert table(rows) in PAGE.read_text(encoding="utf-8")


def test_what_the_package_states_was_measured_without_a_failure() -> None:
    rows = kept_rows()
    assert not [row for row in rows if row.failed]
    versions = [".".join(row.torch.split(".")[:2]) for row in rows]
    assert (versions[0], versions[-1]) == (OLDEST, NEWEST_TRIED)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    stated = {c.rpartition(" ")[2] for c in project["classifiers"] if "Python :: 3." in c}
    assert stated == {".".join(row.python.split(".")[:2]) for row in rows}
