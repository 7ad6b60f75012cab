"""Infer shapes and types of an ONNX model's values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx

from twinnet.errors import EngineError, foreign

__all__ = ["infer"]

_SMALL = 4096
"""Size in bytes up to which constants keep their values: only small ones affect shapes."""


def infer(
    model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]] | None = None
) -> onnx.GraphProto | None:
    """The model's graph after shape inference, without the data of large constants; None if inference fails.

    `shapes` replaces the shapes of the inputs; declared shapes of other values are then ignored.

    >>> from onnx import TensorProto, helper
    >>> x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])
    >>> y = helper.make_empty_tensor_value_info("y")
    >>> nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Transpose", ["a"], ["y"])]
    >>> graph = infer(helper.make_model(helper.make_graph(nodes, "g", [x], [y])), {"x": (5, 2)})
    >>> [d.dim_value for d in graph.value_info[-1].type.tensor_type.shape.dim]
    [2, 5]
    """
    light = _light(model, shapes)
    try:
        with foreign("infer shapes", "onnx"):
            return onnx.shape_inference.infer_shapes(light, data_prop=True).graph
    except EngineError:  # a model that inference rejects may still run
        return None


def _light(model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]] | None) -> onnx.ModelProto:
    light = onnx.ModelProto(ir_version=model.ir_version)
    light.opset_import.extend(model.opset_import)
    light.functions.extend(model.functions)
    graph = light.graph
    graph.name = model.graph.name or "graph"
    weights = {t.name for t in model.graph.initializer}
    for info in model.graph.input:
        if shapes is None:
            graph.input.append(info)
        elif info.name not in weights:
            graph.input.append(_declared(info, shapes.get(info.name)))
    if shapes is None:
        graph.value_info.extend(model.graph.value_info)
        graph.output.extend(model.graph.output)
    have = {i.name for i in graph.input}
    for tensor in model.graph.initializer:
        if tensor.data_location != onnx.TensorProto.EXTERNAL and tensor.ByteSize() <= _SMALL:
            graph.initializer.append(tensor)
        elif tensor.name not in have:
            graph.input.append(_of(tensor.name, tensor))
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute[0].t.ByteSize() > _SMALL:
            graph.value_info.append(_of(node.output[0], node.attribute[0].t))
        else:
            graph.node.append(node)
    return light


def _of(name: str, tensor: onnx.TensorProto) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(name, tensor.data_type, list(tensor.dims))


def _declared(info: onnx.ValueInfoProto, shape: Sequence[int] | None) -> onnx.ValueInfoProto:
    if shape is None:
        return info
    return onnx.helper.make_tensor_value_info(info.name, info.type.tensor_type.elem_type, shape)
