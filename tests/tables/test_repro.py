"""Repros of table networks: the steps in numpy, the rows and pixels that matter, and nothing of twinnet."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks.faults.tables.kinds import ENGINE_FAULTS, PLAN_FAULTS
from benchmarks.faults.tables.run import _foreign

import twinnet
from tests.lut.zoo import random_net
from tests.shrink.conftest import Start
from tests.tables.test_causes import IMAGE, place
from twinnet import lut
from twinnet.errors import UsageError
from twinnet.lut.file import LutFile, write
from twinnet.lut.plan import Plan
from twinnet.result import Result
from twinnet.shrink.seed import load_seeds


@pytest.fixture(scope="module")
def plan() -> Plan:
    return lut.lower(random_net("mulut-sdy"))


@pytest.fixture(scope="module")
def good(plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write(LutFile(plan), tmp_path_factory.mktemp("good") / "good.lut.safetensors"))


def made(good: str, twin: object, folder: Path) -> twinnet.Repro:
    result = twinnet.check(good, {"image": IMAGE}, twin, out=folder / "run")
    assert isinstance(result, Result) and result.verdict == "FAIL"
    assert load_seeds(folder / "run")[0].kind == "table"
    return twinnet.repro(folder / "run", folder / "repro")


def again(folder: Path, *arguments: str) -> int:
    command = [sys.executable, "-I", str(folder / "repro.py"), *arguments]
    return subprocess.run(command, capture_output=True, timeout=300, check=False).returncode


@pytest.mark.parametrize("fault", ["wrong padding", "one entry", "wrong divisor", "a rotation left out"])
def test_two_files_of_tables(fault: str, plan: Plan, good: str, tmp_path: Path, start: Start) -> None:
    planted = PLAN_FAULTS[fault](place(plan))
    assert planted is not None
    bad = write(LutFile(planted.plan), tmp_path / "bad.lut.safetensors")
    repro = made(good, f"lut:{bad}", tmp_path)
    folder = tmp_path / "repro"
    assert repro.confirmed and repro.elements <= 64
    assert start(folder)[0] == 1, "it shows the fault without twinnet"
    assert again(folder, str(bad)) == 1
    assert again(folder, good) == 0, "a corrected file is found correct"
    assert again(folder, str(tmp_path / "absent")) == 3
    assert sum(p.stat().st_size for p in folder.iterdir()) < 100_000
    issue = (folder / "ISSUE.md").read_text()
    assert "Cause: the twin" in issue and "pip install numpy" in issue


def test_nothing_of_it_can_be_hidden(plan: Plan, good: str, tmp_path: Path) -> None:
    planted = PLAN_FAULTS["one entry"](place(plan))
    assert planted is not None
    bad = write(LutFile(planted.plan), tmp_path / "bad.lut.safetensors")
    twinnet.check(good, {"image": IMAGE}, f"lut:{bad}", out=tmp_path / "run")
    with pytest.raises(UsageError, match="not available for networks of lookup tables") as refused:
        twinnet.repro(tmp_path / "run", confidential=True)
    assert refused.value.exit_code == 2 and "look at them" in str(refused.value.hint)
    assert not (tmp_path / "run" / "repro").exists()


def test_an_onnx_model(plan: Plan, good: str, tmp_path: Path, start: Start) -> None:
    for fault in ("wrong padding", "wrong divisor"):
        planted = PLAN_FAULTS[fault](place(plan))
        assert planted is not None
        home = tmp_path / fault
        home.mkdir()
        lut.to_onnx(planted.plan, home / "bad.onnx")
        repro = made(good, f"onnxruntime:{home / 'bad.onnx'}", home)
        assert repro.confirmed and (home / "repro" / "twin.onnx").is_file()
        code, said = start(home / "repro")
        assert code == 1, said
        # The numbers are those of the check: the network's and the twin's own.
        (seed, *_) = load_seeds(home / "run")
        assert seed.observed is not None and f"{float(np.ravel(seed.observed)[0]):.4g}"[:3] in said


def test_a_function_leaves_its_values(plan: Plan, good: str, tmp_path: Path, start: Start) -> None:
    planted = ENGINE_FAULTS["wrong bin"](place(plan))
    assert planted is not None
    repro = made(good, _foreign(planted, "all"), tmp_path)
    folder = tmp_path / "repro"
    assert repro.confirmed and start(folder)[0] == 1
    (seed, *_) = load_seeds(tmp_path / "run")
    assert seed.expected is not None
    np.savez(folder / "twin.npz", observed=seed.expected)
    assert start(folder)[0] == 0, "what a corrected twin gives makes it say so"
    (folder / "inputs.npz").unlink()
    assert start(folder)[0] == 3


def test_a_chain_that_nobody_sees_inside(plan: Plan, good: str, tmp_path: Path, start: Start) -> None:
    planted = ENGINE_FAULTS["wrong bin"](place(plan))
    assert planted is not None
    repro = made(good, _foreign(planted, "stages"), tmp_path)
    assert repro.nodes > 1 and start(tmp_path / "repro")[0] == 1
