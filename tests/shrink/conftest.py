"""Runs with a fault, made once for all tests of this folder."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.models import MODELS, model_path
from twinnet.check import check
from twinnet.result import Result

Start = Callable[[Path], tuple[int, str]]


@pytest.fixture(scope="session")
def start() -> Start:
    """Run a repro.py as a stranger would: without twinnet on the path."""

    def run(folder: Path) -> tuple[int, str]:
        code = (
            "import sys; sys.modules['twinnet'] = None; import runpy; "
            f"sys.argv = ['repro.py']; runpy.run_path({str(folder / 'repro.py')!r}, run_name='__main__')"
        )
        done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=300)
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.fixture(scope="session")
def detector(shared_folder: Path) -> tuple[Path, str]:
    """A check of PP-OCRv4-det against a file in which one channel of one convolution is scaled by 1.5."""
    folder = shared_folder / "detector"
    folder.mkdir()
    model = onnx.load(str(model_path("ppocr-det")))
    convs = [n for n in model.graph.node if n.op_type == "Conv"]
    node = convs[len(convs) // 2]
    made = {o: n for n in model.graph.node for o in n.output}
    if node.input[1] in made:
        tensor = made[node.input[1]].attribute[0].t
    else:
        tensor = next(t for t in model.graph.initializer if t.name == node.input[1])
    weight = numpy_helper.to_array(tensor).copy()
    weight[-1] *= 1.5
    tensor.CopyFrom(numpy_helper.from_array(weight, tensor.name))
    onnx.save(model, str(folder / "faulty.onnx"))
    picture = np.random.default_rng(0).uniform(-1, 1, (1, 3, 160, 160)).astype(np.float32)
    assert list(MODELS["ppocr-det"].shapes) == ["x"]
    result = check(
        str(model_path("ppocr-det")),
        {"x": picture},
        f"onnxruntime:{folder / 'faulty.onnx'}",
        out=folder / "run",
    )
    assert isinstance(result, Result)
    assert result.verdict == "FAIL"
    return folder / "run", node.output[0]


@pytest.fixture(scope="session")
def gelu(shared_folder: Path) -> Path:
    """An ONNX file whose GELU, five nodes of it, ONNX Runtime replaces by an approximation when told to."""
    path = shared_folder / "gelu.onnx"
    weight = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)

    def scalar(name: str, value: float) -> onnx.TensorProto:
        return numpy_helper.from_array(np.array(value, np.float32), name)

    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Div", ["a", "root"], ["b"]),
        helper.make_node("Erf", ["b"], ["c"]),
        helper.make_node("Add", ["c", "one"], ["d"]),
        helper.make_node("Mul", ["a", "d"], ["e"]),
        helper.make_node("Mul", ["e", "half"], ["f"]),
        helper.make_node("MatMul", ["f", "w"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, 16]) for n in ("x", "y")]
    constants = [
        numpy_helper.from_array(weight, "w"),
        scalar("root", 2**0.5),
        scalar("one", 1),
        scalar("half", 0.5),
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path
