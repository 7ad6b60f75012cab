"""What a suite costs: listing layers, running them, and finding that nothing has changed."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from benchmarks.bar import Bar

__all__ = ["bars", "collect_seconds"]

_CHECK = """
import sys, twinnet
assert twinnet.check(sys.argv[1], sys.argv[2], "onnxruntime", out=sys.argv[3]).verdict == "PASS"
"""


def bars() -> list[Bar]:
    """All promises."""
    with tempfile.TemporaryDirectory() as place:
        collected = collect_seconds(Path(place, "collect"))
        layers, again, count = _layers(Path(place, "layers"))
    return [
        Bar("pytest --collect-only, 1000 layers, CPU s", collected, 3.0),
        Bar("layer cases beyond twice a check, CPU s a case", layers, 0.1, note=f"ppocr-cls, {count} layers"),
        # Of the second run of so small a suite nearly all is imports; tests/suite/test_slow.py has a large one.
        Bar("the second run, share of the first", again, note="nothing changed"),
    ]


def _pytest(folder: Path, *words: str) -> tuple[float, str]:
    """CPU seconds of a session, and what it printed."""
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "TWINNET_CACHE": str(folder / "cache")}
    command = [sys.executable, "-m", "pytest", "-p", "twinnet.suite.plugin", "-q", *words]
    start = _children()
    done = subprocess.run(command, cwd=folder, env={**os.environ, **alone}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return _children() - start, done.stdout


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def collect_seconds(folder: Path) -> float:
    """CPU seconds to collect a model of a thousand layers that nobody has seen before."""
    (folder / "models").mkdir(parents=True)
    (folder / "pyproject.toml").write_text('[tool.twinnet]\nengines = ["onnxruntime"]\n')
    onnx.save(_deep(1000), str(folder / "models" / "deep.onnx"))
    seconds, said = _pytest(folder, "--collect-only")
    assert "1001 tests collected" in said, said[-400:]
    return seconds


def _deep(count: int) -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    nodes, weights, last = [], [], "x"
    for i in range(count):
        made = f"t{i}"
        if i % 2:
            nodes.append(helper.make_node("Relu", [last], [made]))
        else:
            weights.append(numpy_helper.from_array(rng.standard_normal((16, 16)).astype(np.float32), f"w{i}"))
            nodes.append(helper.make_node("MatMul", [last, f"w{i}"], [made]))
        last = made
    value = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4, 16]) for name in ("x", last)]
    graph = helper.make_graph(nodes, "deep", value[:1], value[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 9
    return model


def _layers(folder: Path) -> tuple[float, float, int]:
    """CPU seconds of a layer case beyond twice a check of the model, the share of a second run, and how many cases."""
    from tests.models import MODELS, model_path

    from twinnet.store import write_tensors

    (folder / "models").mkdir(parents=True)
    model = folder / "models" / "cls.onnx"
    model.write_bytes(model_path("ppocr-cls").read_bytes())
    inputs = write_tensors(folder / "inputs.safetensors", MODELS["ppocr-cls"].inputs())
    text = (
        '[tool.twinnet]\nengines = ["onnxruntime"]\n[tool.twinnet.model.cls]\ninputs = "inputs.safetensors"\n'
    )
    (folder / "pyproject.toml").write_text(text)
    command = [sys.executable, "-c", _CHECK, str(model), str(inputs), str(folder / "run")]
    start = _children()
    subprocess.run(command, check=True, capture_output=True, text=True)
    check = _children() - start
    first, said = _pytest(folder, "-k", "layer")
    again, _ = _pytest(folder, "-k", "layer")
    count = int(said.split(" cases, ")[0].split()[-1])
    return max(0.0, first - 2 * check) / count, again / first, count
