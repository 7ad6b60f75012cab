"""QDQ files with signed activations, which ONNX Runtime makes unsigned before it fuses them (on x86).

There it adds 128 to int8 activations and their zero points, under names of its own. To mark a tensor by the file's name
would keep it signed, and what reads it would not be fused any more: other kernels than those that are deployed. So a
model that is tapped is written as the optimiser would, under the file's names, and what it shows is taken back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from copy import deepcopy
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import onnx

__all__ = ["back", "has_signed", "is_renamed", "unsigned"]

_RENAMED = "qdq_s8_to_u8_quant"
"""How names of activations begin that ONNX Runtime made unsigned."""
_HALF = 128
_INT8 = 3
"""ONNX's number of the type."""


def has_signed(graph: onnx.GraphProto) -> bool:
    """Whether activations are quantised with zero points in int8, as far as they are stored in the graph."""
    held = {t.name for t in graph.initializer if t.data_type == _INT8}
    return any(n.op_type == "QuantizeLinear" and len(n.input) > 2 and n.input[2] in held for n in graph.node)


def is_renamed(optimised: onnx.GraphProto) -> bool:
    """Whether an optimised graph has activations that were made unsigned."""
    return any(name.startswith(_RENAMED) for node in optimised.node for name in node.output)


def unsigned(model: onnx.ModelProto) -> tuple[onnx.ModelProto, frozenset[str]]:
    """A model that computes the same with unsigned activations, and the tensors that hold 128 more in it."""
    made = deepcopy(model)
    graph = made.graph
    points = {t.name: t for t in graph.initializer if t.data_type == _INT8}
    readers: dict[str, list[onnx.NodeProto]] = defaultdict(list)
    for node in graph.node:
        for name in node.input:
            readers[name].append(node)
    moved: set[str] = set()
    for node in graph.node:
        if node.op_type != "QuantizeLinear" or len(node.input) < 3 or node.input[2] not in points:
            continue
        ends = readers[node.output[0]]
        if ends and all(_takes(end, node.output[0], points) for end in ends):
            for end in (node, *ends):
                end.input[2] = _moved_point(graph, points[end.input[2]])
            moved.add(node.output[0])
    for values in (graph.output, graph.value_info):  # they may state int8
        for value in values:
            if value.name in moved:
                value.ClearField("type")
    return made, frozenset(moved)


def back(array: np.ndarray) -> np.ndarray:
    """Values that hold 128 more, as they are in the file.

    >>> back(np.array([0, 128, 255], np.uint8))
    array([-128,    0,  127], dtype=int8)
    """
    return (array ^ np.uint8(_HALF)).view(np.int8)


def _takes(node: onnx.NodeProto, name: str, points: Collection[str]) -> bool:
    reads = node.op_type == "DequantizeLinear" and node.input[0] == name
    return reads and len(node.input) > 2 and node.input[2] in points


def _moved_point(graph: onnx.GraphProto, point: onnx.TensorProto) -> str:
    from onnx import numpy_helper

    name = f"{point.name}/unsigned"
    if all(t.name != name for t in graph.initializer):
        value = numpy_helper.to_array(point).astype(np.int16) + _HALF
        graph.initializer.append(numpy_helper.from_array(value.astype(np.uint8), name))
    return name
