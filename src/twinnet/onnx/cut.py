"""Cutting ONNX graphs: any values can be fed, any can be asked for, and only what lies between is kept."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from twinnet.errors import EngineError
from twinnet.onnx.graph import OnnxGraph

__all__ = ["between", "build", "set_inputs", "weights_of", "with_weights"]


def between(graph: OnnxGraph, outputs: Iterable[str], fed: Collection[str]) -> tuple[list[int], list[str]]:
    """The nodes that compute `outputs` from the values in `fed`, and the fed values they read.

    Raises EngineError if they need an input of the network that is not fed.
    """
    nodes: set[int] = set()
    read: dict[str, None] = {}
    stack = list(outputs)
    seen: set[str] = set()
    while stack:
        name = stack.pop()
        if name in seen or name in graph.weights:
            continue
        seen.add(name)
        if name in fed:
            read[name] = None
            continue
        index = graph.producer.get(name)
        if index is None:
            if name in graph.static:
                continue
            raise EngineError(f"the part needs {name}, which is not known", stage="cut")
        nodes.add(index)
        stack.extend(graph.reads[index])
    return sorted(nodes), list(read)


def build(
    graph: OnnxGraph,
    nodes: Sequence[int],
    feeds: Mapping[str, np.ndarray],
    outputs: Sequence[str],
    weights: Mapping[str, Any] | None = None,
) -> onnx.ModelProto:
    """A model of these nodes. Inputs take dtype and shape from `feeds`; Constant nodes become weights.

    `weights` gives the data of weights that lie in other files.
    """
    cut = onnx.ModelProto(ir_version=graph.model.ir_version)
    cut.opset_import.extend(graph.model.opset_import)
    cut.functions.extend(graph.model.functions)
    made = cut.graph
    made.name = "cut"
    needed: set[str] = set(outputs)
    for index in nodes:
        node = graph.nodes[index]
        constant = _constant(node)
        if constant is not None:
            made.initializer.append(constant)
            continue
        made.node.append(node)
        needed |= graph.reads[index]
    for name, tensor in graph.weights.items():
        if name not in needed or name in feeds:
            continue
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            if weights is None:
                raise EngineError(f"the data of {name} lie in another file", stage="cut")
            made.initializer.append(numpy_helper.from_array(np.asarray(weights[name]), name))
        else:
            made.initializer.append(tensor)
    made.sparse_initializer.extend(t for t in graph.model.graph.sparse_initializer if t.values.name in needed)
    for name in outputs:
        made.output.append(helper.make_empty_tensor_value_info(name))
    return set_inputs(cut, feeds)


def _constant(node: onnx.NodeProto) -> onnx.TensorProto | None:
    if node.op_type != "Constant" or node.domain not in ("", "ai.onnx") or len(node.attribute) != 1:
        return None
    attribute = node.attribute[0]
    value = helper.get_attribute_value(attribute)
    if attribute.name == "value":
        tensor = onnx.TensorProto()
        tensor.CopyFrom(value)
        tensor.name = node.output[0]
        return tensor
    kinds = {
        "value_float": np.float32,
        "value_floats": np.float32,
        "value_int": np.int64,
        "value_ints": np.int64,
    }
    kind = kinds.get(attribute.name)
    return None if kind is None else numpy_helper.from_array(np.array(value, kind), node.output[0])


def set_inputs(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    """Declare exactly the inputs that the graph reads, with the dtype and shape of `feeds`; changes `model`."""
    graph = model.graph
    held = {t.name for t in graph.initializer}
    read = {n for reads in OnnxGraph(model).reads for n in reads} | {o.name for o in graph.output}
    del graph.input[:]
    for name, array in feeds.items():
        if name in read and name not in held:
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            graph.input.append(helper.make_tensor_value_info(name, kind, array.shape))
    return model


def weights_of(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """The weights of a model that holds all of its data."""
    return {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}


def with_weights(model: onnx.ModelProto, weights: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    """A copy of the model with other data for these weights."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    for tensor in changed.graph.initializer:
        if tensor.name in weights:
            tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(weights[tensor.name]), tensor.name))
    return changed
