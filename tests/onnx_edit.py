"""Networks as ONNX files, and faults planted into them: what a wrong exporter, compiler or checkpoint would do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

__all__ = [
    "constant",
    "consumers",
    "make_model",
    "node_of",
    "rename",
    "save",
    "scale_channel",
    "set_attribute",
]


def make_model(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, tuple[int | str, ...]],
    outputs: list[str],
    weights: dict[str, np.ndarray] | None = None,
    opset: int = 18,
) -> onnx.ModelProto:
    """A model from nodes; inputs are float32."""
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [value(n, onnx.TensorProto.FLOAT, list(s)) for n, s in inputs.items()],
        [onnx.helper.make_empty_tensor_value_info(o) for o in outputs],
        [numpy_helper.from_array(w, n) for n, w in (weights or {}).items()],
    )
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    made.ir_version = 9
    return onnx.shape_inference.infer_shapes(made)


def save(model: onnx.ModelProto, path: Path) -> Path:
    """Write a model."""
    onnx.save(model, str(path))
    return path


def node_of(model: onnx.ModelProto, op: str, index: int = 0) -> onnx.NodeProto:
    """The nth node of an operator."""
    return [n for n in model.graph.node if n.op_type == op][index]


def constant(model: onnx.ModelProto, name: str) -> onnx.TensorProto:
    """The tensor behind a name: an initializer, or the value of a Constant node."""
    for tensor in model.graph.initializer:
        if tensor.name == name:
            return tensor
    for node in model.graph.node:
        if node.op_type == "Constant" and node.output[0] == name:
            return node.attribute[0].t
    raise KeyError(name)


def change(model: onnx.ModelProto, name: str, how: Callable[[np.ndarray], np.ndarray]) -> None:
    """Replace a constant by what `how` makes of it."""
    tensor = constant(model, name)
    array = how(numpy_helper.to_array(tensor).copy())
    tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array), tensor.name))


def scale_channel(model: onnx.ModelProto, node: onnx.NodeProto, channel: int, factor: float) -> None:
    """Scale one output channel of a convolution's weight."""

    def scaled(array: np.ndarray) -> np.ndarray:
        array[channel] *= factor
        return array

    change(model, node.input[1], scaled)


def set_attribute(node: onnx.NodeProto, name: str, value: object) -> None:
    """Set an attribute, replacing it where it is there."""
    kept = [a for a in node.attribute if a.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, onnx.helper.make_attribute(name, value)])


def consumers(model: onnx.ModelProto, name: str) -> list[onnx.NodeProto]:
    """The nodes that read a value."""
    return [n for n in model.graph.node if name in n.input]


def rename(model: onnx.ModelProto, how: Callable[[str], str]) -> onnx.ModelProto:
    """The same model with every value, weight and node called otherwise."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    for node in graph.node:
        node.input[:] = [how(n) if n else n for n in node.input]
        node.output[:] = [how(n) if n else n for n in node.output]
        node.name = how(node.name) if node.name else ""
        del node.metadata_props[:]
    for item in (*graph.initializer, *graph.input, *graph.output):
        item.name = how(item.name)
    del graph.value_info[:]
    return made
