"""`twinnet profile` as typed: what is measured, what is only built, and which folders hold it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from twinnet.cli.main import app
from twinnet.errors import EngineError, UsageError
from twinnet.profile import load_profile
from twinnet.profiling import profile_twin

NET = """
import torch
from torch import nn

def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten()).eval(), torch.ones(1, 3, 8, 8)
"""
BOARD = 'name = "a board"\npeak = 8e9\nbandwidth = 2e9\noverhead = 5e-6\n'
SHORT = ("--repeats", "2", "--rounds", "1", "--threads", "1", "--target", "board.toml")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("verb")
    (root / "net.py").write_text(NET)
    (root / "board.toml").write_text(BOARD)
    return root


@pytest.fixture(autouse=True)
def here(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)


def profile(*words: str) -> str:
    done = CliRunner().invoke(app, ["profile", *words])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


def test_an_engine_without_timers_is_built_and_estimated() -> None:
    said = profile("net.py:build", "--twin", "onnx-reference", "--compile", "--out", "built", *SHORT)
    assert "onnx-reference does not measure them" in said and "a run on a board" in said
    assert (
        said.rstrip().endswith("files    built/compile.csv") and not (Path("built") / "profile.json").exists()
    )
    rows = list(csv.DictReader((Path("built") / "compile.csv").open()))
    assert {row["op"] for row in rows} >= {"conv2d", "relu"} and all(
        float(r["seconds"]) >= 5e-6 for r in rows
    )
    told = json.loads(
        profile("net.py:build", "--twin", "onnx-reference", "--compile", "--out", "built", "--json", *SHORT)
    )
    assert told["target"]["name"] == "a board" and len(told["estimates"]) == len(rows)


def test_beside_a_twin_with_timers() -> None:
    said = profile("net.py:build", "-t", "torch,onnx-reference", "--compile", "--out", "mixed", *SHORT)
    assert said.count("network  net.build") == 2 and "timers   cost" in said
    assert load_profile("mixed/torch").rows and (Path("mixed") / "torch" / "compile.json").exists()
    assert (Path("mixed") / "onnx-reference" / "compile.json").exists()


def test_without_compile_it_says_so_at_once() -> None:
    done = CliRunner().invoke(app, ["profile", "net.py:build", "--twin", "torch,onnx-reference"])
    assert isinstance(done.exception, EngineError)
    assert done.exception.what == "onnx-reference does not measure times per layer"
    assert "--compile" in str(done.exception.hint)


@pytest.fixture(scope="module")
def measured(place: Path) -> str:
    """A folder that is called nearly as a verb is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        profile("--out", "measured", "net.py:build", "--twin", "torch", *SHORT)
    return "measured"


def test_the_value_of_an_option_is_no_verb(measured: str) -> None:
    assert load_profile(measured).rows


def test_twins_of_one_name_keep_their_own_folders_and_no_older_profile_stands_for_them() -> None:
    profile("net.py:build", "--twin", "torch", "--out", "twice", *SHORT)
    profile("net.py:build", "--twin", "torch,torch", "--out", "twice", *SHORT)
    groups = {load_profile(f"twice/{name}").group for name in ("torch", "torch-2")}
    assert len(groups) == 1 and groups != {""}
    with pytest.raises(
        UsageError, match=r"twice holds several profiles\n  name one: twice/torch, twice/torch-2"
    ):
        load_profile("twice")


def test_profiles_of_a_check_of_several_twins_are_found(measured: str, tmp_path: Path) -> None:
    text = load_profile(measured).to_json()
    for folder in ("run/torch/profile", "run/other/profile"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "profile.json").write_text(text)
    assert load_profile(tmp_path / "run" / "torch").to_json() == text
    with pytest.raises(UsageError, match="holds several profiles"):
        load_profile(tmp_path / "run")


def test_in_python_one_twin_at_a_time() -> None:
    with pytest.raises(UsageError, match="measures one twin"):
        profile_twin("net.py:build", twin="torch,onnxruntime")
