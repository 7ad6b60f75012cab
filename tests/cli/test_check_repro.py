"""`twinnet check --repro`: culprit and smallest proof with one command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from typer.testing import CliRunner

from tests.onnx_edit import make_model, save, scale_channel
from twinnet.cli.main import app


def _files(folder: Path) -> tuple[Path, Path]:
    rng = np.random.default_rng(0)
    weights = {n: rng.standard_normal((4, 4, 3, 3)).astype(np.float32) for n in ("a", "b", "c")}
    nodes = [
        onnx.helper.make_node("Conv", ["x", "a"], ["one"]),
        onnx.helper.make_node("Conv", ["one", "b"], ["two"]),
        onnx.helper.make_node("Conv", ["two", "c"], ["y"]),
    ]
    good = save(make_model(nodes, {"x": (1, 4, 12, 12)}, ["y"], weights), folder / "good.onnx")
    model = onnx.load(str(good))
    scale_channel(model, model.graph.node[1], 2, 1.5)
    return good, save(model, folder / "bad.onnx")


def test_one_command_gives_culprit_and_repro(tmp_path: Path) -> None:
    good, bad = _files(tmp_path)
    run = tmp_path / "run"
    call = ["check", str(good), "--twin", f"onnxruntime:{bad}", "--repro", "--out", str(run)]
    done = CliRunner().invoke(app, call)
    assert done.exit_code == 1, done.output
    assert "born in  two Conv" in done.output and "1 node (Conv)" in done.output
    shown = subprocess.run([sys.executable, run / "repro" / "repro.py"], capture_output=True, timeout=300)
    assert shown.returncode == 1, shown.stderr


def test_what_passes_leaves_no_repro(tmp_path: Path) -> None:
    good, _ = _files(tmp_path)
    run = tmp_path / "run"
    call = ["check", str(good), "--twin", f"onnxruntime:{good}", "--repro", "--out", str(run)]
    done = CliRunner().invoke(app, call)
    assert done.exit_code == 0, done.output
    assert not (run / "repro").exists()
