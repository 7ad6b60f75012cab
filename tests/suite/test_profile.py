"""`twinnet suite --runtime-profile` and `--compile-profile`."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any, cast

import pytest

from tests.suite.project import write_net
from twinnet.errors import EngineError
from twinnet.profile import load_profile
from twinnet.suite import profile as suite_profile
from twinnet.suite.alone import run_suite
from twinnet.suite.outcome import Case
from twinnet.suite.profile import write_building, write_times
from twinnet.suite.subject import Subject


def test_every_case_leaves_its_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("TWINNET_CACHE", str(tmp_path / "cache"))
    write_net(Path())
    engines = "--twin-engines=onnxruntime,onnx-reference"
    assert run_suite([engines, "--runtime-profile=times", "--compile-profile=built", "-kfull_model"]) == 0
    found = {path.parent.name: load_profile(path) for path in Path("times").rglob("profile.json")}
    assert len(found) == 1  # onnx-reference has no timers
    ((name, profile),) = found.items()
    assert "onnxruntime" in name and profile.joined > 0.9 and profile.rows
    assert [load_profile(p.parent.parent) for p in Path("runs").rglob("profile/profile.json")] == [profile]
    built = {path.parent.name: json.loads(path.read_text()) for path in Path("built").rglob("compile.json")}
    assert len(built) == 2 and name in built
    assert "load" in dict(built[name]["steps"]) and dict(built[name]["passes"])["session_initialization"] > 0
    with (Path("built") / name / "compile.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(built[name]["estimates"]) and all(float(row["seconds"]) > 0 for row in rows)


def test_what_cannot_be_measured_says_why_and_no_older_file_stands_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, subject = Case("net", "onnxruntime", "default", "onnxruntime"), cast(Subject, None)
    monkeypatch.setattr(suite_profile, "_asked", lambda *_: (None, None, None))
    place = tmp_path / case.name
    place.mkdir()
    for write, verb, file, error in (
        (write_times, "profile_with", "profile.json", "profile-error.txt"),
        (write_building, "compile_profile_with", "compile.json", "compile-error.txt"),
    ):
        (place / file).write_text("old")

        def fails(*_: Any, **__: Any) -> None:
            raise EngineError("no timers today", stage="profile")

        monkeypatch.setattr(f"twinnet.profiling.{verb}", fails)
        write(case, subject, tmp_path)
        assert (place / error).read_text() == "not measured: no timers today\n"
        assert not (place / file).exists()
