"""The answer as a whole: what no single segment shows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from twinnet import check


def test_an_infinite_output_fails_although_every_layer_is_right(tmp_path: Path) -> None:
    """ONNX Runtime keeps the sum in float32 until the product; the reference stores it in float16: infinite."""
    graph = helper.make_graph(
        [
            helper.make_node("Mul", ["x", "x"], ["squares"]),
            helper.make_node("ReduceSum", ["squares", "axis"], ["sum"], keepdims=1),
            helper.make_node("Mul", ["sum", "factor"], ["y"]),
        ],
        "mean_square",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT16, [2, 512])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT16, [2, 1])],
        [
            numpy_helper.from_array(np.array([1]), "axis"),
            numpy_helper.from_array(np.array(1 / 512, np.float16), "factor"),
        ],
    )
    path = tmp_path / "mean_square.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    x = np.random.default_rng(0).uniform(12, 18, (2, 512)).astype(np.float16)
    with np.errstate(over="ignore"):
        result = check(str(path), {"x": x}, twin="onnx-reference")
    assert result.verdict == "FAIL"
    assert result.outputs[0].status == "fail"
    assert "NaN or Inf in other places than in the network (2 elements)" in str(result.outputs[0].reason)
    small = check(str(path), {"x": x / np.float16(8)}, twin="onnx-reference")
    assert small.verdict == "PASS"
