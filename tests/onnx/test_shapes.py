"""Shape inference: the same answers whether weights are initializers or nodes, and whatever they weigh."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.onnx_edit import make_model
from twinnet.onnx.shapes import infer


def _net(as_nodes: bool) -> onnx.ModelProto:
    weights = {"w": np.ones((6, 40, 3, 30), np.float32), "to": np.array([0, -1], np.int64)}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Reshape", ["c", "to"], ["y"]),
    ]
    if not as_nodes:
        return make_model(nodes, {"x": ("n", 40, 5, 60)}, ["y"], weights)
    given = [
        helper.make_node("Constant", [], [n], value=numpy_helper.from_array(a)) for n, a in weights.items()
    ]
    return make_model([*given, *nodes], {"x": ("n", 40, 5, 60)}, ["y"])


def _shapes(graph: onnx.GraphProto | None) -> dict[str, list[int | str]]:
    assert graph is not None
    return {
        i.name: [d.dim_value or d.dim_param for d in i.type.tensor_type.shape.dim]
        for i in (*graph.value_info, *graph.output)
    }


@pytest.mark.parametrize("as_nodes", [False, True])
def test_shapes_follow_from_inputs_and_small_constants(as_nodes: bool) -> None:
    model = _net(as_nodes)
    assert _shapes(infer(model))["c"] == ["n", 6, 3, 31]
    given = _shapes(infer(model, {"x": (2, 40, 7, 60)}))
    assert given["c"] == [2, 6, 5, 31]
    assert given["y"] == [2, 6 * 5 * 31]


def test_the_data_of_large_constants_stay_behind() -> None:
    for as_nodes in (False, True):
        graph = infer(_net(as_nodes))
        assert graph is not None and graph.ByteSize() < 2000
    assert _shapes(infer(_net(True)))["w"] == [6, 40, 3, 30]


def test_what_inference_refuses_gives_nothing() -> None:
    model = _net(False)
    del model.opset_import[:]
    assert infer(model) is None
