"""A fresh process opens both sides while PyTorch is imported: the answers are those of one that had it already."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import twinnet
from tests.needs import need_engine
from tests.onnx_edit import make_model, save
from twinnet.report.json_file import dump_result


@pytest.fixture(autouse=True)
def _engine() -> None:
    need_engine("onnxruntime")


def _net(scale: float = 1.0) -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((8, 8)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "v"], ["y"]),
    ]
    return make_model(nodes, {"x": (4, 8)}, ["y"], {"w": weight, "v": weight.T * np.float32(scale)})


def _fresh(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "twinnet.cli.main", "check", "net.onnx", "--out", "run", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


def _told(text: str) -> dict[str, object]:
    said = json.loads(text)
    return {k: v for k, v in said.items() if k not in ("timings", "command", "folder", "environment")}


@pytest.mark.parametrize("scale", [1.0, 1.5])
def test_a_fresh_process_says_the_same(tmp_path: Path, scale: float) -> None:
    net, twin = save(_net(), tmp_path / "net.onnx"), save(_net(scale), tmp_path / "twin.onnx")
    x = np.random.default_rng(1).standard_normal((4, 8)).astype(np.float32)
    np.savez(tmp_path / "in.npz", x=x)
    done = _fresh(tmp_path, "--twin", "onnxruntime:twin.onnx", "--inputs", "in.npz", "--quiet")
    assert done.returncode == (0 if scale == 1.0 else 1), done.stderr
    here = twinnet.check(str(net), str(tmp_path / "in.npz"), f"onnxruntime:{twin}")
    want, got = _told(dump_result(here)), _told((tmp_path / "run/result.json").read_text())
    for part in ("verdict", "pairs", "findings", "contributors", "coverage", "guards", "evidence"):
        assert got[part] == want[part], part


def test_a_twin_that_cannot_be_read_is_wrong_usage(tmp_path: Path) -> None:
    save(_net(), tmp_path / "net.onnx")
    tmp_path.joinpath("twin.onnx").write_bytes(b"no model at all")
    done = _fresh(tmp_path, "--twin", "onnxruntime:twin.onnx", "--quiet")
    assert done.returncode == 2
    assert "twin.onnx" in done.stderr and "Traceback" not in done.stderr


def test_of_two_problems_the_network_s_is_said(tmp_path: Path) -> None:
    """The twin is opened ahead of its turn; what is wrong with it must not hide what is wrong with the network."""
    nodes = [
        helper.make_node("RandomUniformLike", ["x"], ["r"]),
        helper.make_node("Add", ["x", "r"], ["y"]),
    ]
    save(make_model(nodes, {"x": (4, 8)}, ["y"]), tmp_path / "net.onnx")
    tmp_path.joinpath("twin.onnx").write_bytes(b"no model at all")
    done = _fresh(tmp_path, "--twin", "onnxruntime:twin.onnx")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "draws random numbers" in done.stdout
