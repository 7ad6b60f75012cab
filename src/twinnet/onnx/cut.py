"""Cut ONNX graphs: feed any values, ask for any others, and keep only the nodes in between."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from twinnet.errors import EngineError
from twinnet.layers.walk import walk_back
from twinnet.onnx.graph import OnnxGraph, Piece

__all__ = ["between", "build", "constant_tensor", "extract", "set_inputs", "weights_of", "with_weights"]


def between(graph: OnnxGraph, outputs: Iterable[str], fed: Collection[str]) -> tuple[list[int], list[str]]:
    """The nodes that compute `outputs` from the values in `fed`, and the fed values they read.

    Raises EngineError if they need an input of the network that is not fed.
    """
    nodes, ends = walk_back(outputs, fed, graph.producer, lambda index: graph.reads[index])
    ends = [name for name in ends if name not in graph.weights]
    for name in ends:
        if name not in fed and name not in graph.static:
            raise EngineError(f"the part needs the value {name}, which is not given", stage="cut")
    return nodes, [name for name in ends if name in fed]


def build(
    graph: OnnxGraph,
    nodes: Sequence[int],
    feeds: Mapping[str, np.ndarray],
    outputs: Sequence[str],
    weights: Mapping[str, Any] | None = None,
) -> onnx.ModelProto:
    """A model of these nodes. Inputs take dtype and shape from `feeds`; Constant nodes become weights.

    `weights` gives the data of weights stored in other files, as arrays or as the tensors that refer to them.
    """
    cut = onnx.ModelProto(ir_version=graph.model.ir_version)
    cut.opset_import.extend(graph.model.opset_import)
    cut.functions.extend(graph.model.functions)
    made = cut.graph
    made.name = "cut"
    needed: set[str] = set(outputs)
    for index in nodes:
        node = graph.nodes[index]
        constant = constant_tensor(node)
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
                raise EngineError(f"the data of {name} is in another file", stage="cut")
            data = weights[name]
            tensor = (
                data
                if isinstance(data, onnx.TensorProto)
                else numpy_helper.from_array(np.asarray(data), name)
            )
        made.initializer.append(tensor)
    made.sparse_initializer.extend(t for t in graph.model.graph.sparse_initializer if t.values.name in needed)
    for name in outputs:
        made.output.append(helper.make_empty_tensor_value_info(name))
    return set_inputs(cut, feeds)


def extract(graph: OnnxGraph, piece: Piece, values: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    """A model of one piece, whose inputs take dtype and shape from `values`; weights stay in their files."""
    outputs = (*piece.wanted, *piece.passed)
    nodes, _ = between(graph, outputs, piece.inputs)
    return build(graph, nodes, {name: values[name] for name in piece.inputs}, outputs, graph.weights)


def constant_tensor(node: onnx.NodeProto) -> onnx.TensorProto | None:
    """What a Constant node of numbers holds, under the name of its output; None for any other node."""
    if node.op_type != "Constant" or node.domain not in ("", "ai.onnx") or len(node.attribute) != 1:
        return None
    attribute = node.attribute[0]
    value = helper.get_attribute_value(attribute)
    if attribute.name == "value":
        tensor = onnx.TensorProto()
        tensor.CopyFrom(value)
        tensor.name = node.output[0]
        return tensor
    kind = {"value_float": np.float32, "value_int": np.int64}.get(attribute.name.removesuffix("s"))
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
            tensor.CopyFrom(numpy_helper.from_array(np.asarray(weights[tensor.name], order="C"), tensor.name))
    return changed
