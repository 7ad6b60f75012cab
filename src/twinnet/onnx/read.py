"""Read an ONNX model as a graph of canonical layers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import onnx
import torch

from twinnet.errors import EngineError, UsageError
from twinnet.layers.evaluate import evaluate
from twinnet.layers.graph import Graph, Layer
from twinnet.layers.integer import rounded_resizes
from twinnet.layers.kinds import get
from twinnet.onnx.cut import constant_tensor
from twinnet.onnx.graph import bodies
from twinnet.onnx.operators import Node, Scope, translator
from twinnet.onnx.operators._opaque import opaque
from twinnet.onnx.operators._tensors import array_to_torch, dtype_from_onnx, tensor_from_onnx
from twinnet.onnx.shapes import infer

__all__ = ["read_onnx"]


def read_onnx(model: onnx.ModelProto, *, weights: Mapping[str, Any] | None = None) -> Graph:
    """The canonical graph of a model; value names stay those of the model.

    `weights` (name -> array or tensor) replace initializers, for instance those whose data is in other files.
    Operators without a canonical form become kind "opaque", evaluated by onnx.reference; if nothing can evaluate
    them, evaluation raises `UnknownLayer`, reading does not.

    >>> from onnx import TensorProto, helper
    >>> value = helper.make_tensor_value_info
    >>> x, y = value("x", TensorProto.FLOAT, [2]), value("y", TensorProto.FLOAT, [2])
    >>> model = helper.make_model(helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y]))
    >>> [layer.kind for layer in read_onnx(model)]
    ['relu']
    """
    if len(model.functions):
        from onnx.inliner import inline_local_functions

        model = inline_local_functions(model)
    shapes, dtypes = _declared(model)
    scope = Scope(
        opsets={("" if o.domain == "ai.onnx" else o.domain): o.version for o in model.opset_import}
        or {"": 1},
        constants=_weights(model.graph, weights or {}),
        shapes=shapes,
        dtypes=dtypes,
        model=model,
        read_graph=_read_body,
    )
    scope.names.update(_names(model.graph))
    return _read(model.graph, scope)


def _read_body(graph: onnx.GraphProto, outer: Scope) -> Graph:
    """Read the body of a control-flow node, which sees the constants around it."""
    shadowed = {i.name for i in graph.input}
    constants = {n: v for n, v in outer.constants.items() if n not in shadowed}
    before = set(constants)
    constants.update(_weights(graph, {}))
    shapes = {n: s for n, s in outer.shapes.items() if n not in shadowed}
    dtypes = {n: d for n, d in outer.dtypes.items() if n not in shadowed}
    _collect([*graph.input, *graph.value_info, *graph.output], shapes, dtypes)
    scope = Scope(outer.opsets, constants, shapes, dtypes, outer.model, _read_body, names=outer.names)
    made = _read(graph, scope)
    used = {n for layer in made.layers for n in layer.inputs} | set(made.outputs)
    kept = {n: v for n, v in made.constants.items() if n not in before or n in used}
    return Graph(made.layers, made.inputs, made.outputs, kept, made.dtypes, made.shapes)


def _read(graph: onnx.GraphProto, scope: Scope) -> Graph:
    for proto in graph.node:
        if proto.op_type == "Constant" and proto.domain in ("", "ai.onnx"):
            scope.constants[proto.output[0]] = _constant(proto)
            continue
        start = len(scope.layers)
        node = Node(proto, scope)
        known = translator(proto.domain, proto.op_type)
        try:
            if known is None:
                raise ValueError("the operator is not known")
            known(node)
        except (ValueError, NotImplementedError) as error:
            del scope.layers[start:]
            opaque(node, str(error), runnable=isinstance(error, ValueError))
        _fold(scope, start)
    inputs = tuple(i.name for i in graph.input if i.name not in scope.constants)
    outputs = tuple(o.name for o in graph.output)
    made = Graph(tuple(scope.layers), inputs, outputs, scope.constants, scope.dtypes, scope.shapes)
    return rounded_resizes(made)


# ---- constants -------------------------------------------------------------------------------------


def _weights(graph: onnx.GraphProto, given: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for tensor in graph.initializer:
        if tensor.name in given:
            value = given[tensor.name]
            found[tensor.name] = value if isinstance(value, torch.Tensor) else array_to_torch(value)
            continue
        if tensor.data_location == onnx.TensorProto.EXTERNAL and not tensor.HasField("raw_data"):
            raise UsageError(
                f"the weights of {tensor.name!r} are in another file that was not loaded",
                hint="load the model with its external data beside it",
            )
        found[tensor.name] = tensor_from_onnx(tensor)
    for sparse in graph.sparse_initializer:
        values, places = tensor_from_onnx(sparse.values), tensor_from_onnx(sparse.indices)
        dense = torch.zeros(tuple(sparse.dims), dtype=values.dtype)
        if places.dim() == 1:
            dense.reshape(-1)[places] = values
        else:
            dense[tuple(places.t())] = values
        found[sparse.values.name] = dense
    return found


def _constant(proto: onnx.NodeProto) -> Any:
    tensor = constant_tensor(proto)
    if tensor is not None:
        return tensor_from_onnx(tensor)
    attribute = proto.attribute[0]
    value = onnx.helper.get_attribute_value(attribute)
    if attribute.name == "sparse_value":
        holder = onnx.GraphProto()
        holder.sparse_initializer.append(value)
        return next(iter(_weights(holder, {}).values()))
    return array_to_torch(value)


def _fold(scope: Scope, start: int) -> None:
    """Turn layers into constants where that changes no float: shapes, integers, and moved weights."""
    kept: list[Layer] = []
    for layer in scope.layers[start:]:
        values = None
        if layer.kind == "shape":
            values = _static_shape(scope, layer)
        elif _foldable(scope, layer):
            try:
                values = _exactly(scope, layer)
            except EngineError:  # evaluation reports the problem, if the value is ever needed
                values = None
        if values is None:
            kept.append(layer)
            continue
        for name, value in zip(layer.outputs, values):
            if name:
                scope.constants[name] = value
    scope.layers[start:] = kept


def _static_shape(scope: Scope, layer: Layer) -> tuple[torch.Tensor] | None:
    name = layer.inputs[0]
    known = scope.constants.get(name) if name else None
    sizes = tuple(known.shape) if isinstance(known, torch.Tensor) else scope.shapes.get(name or "")
    if sizes is None:
        return None
    part = sizes[layer.attrs.get("start", 0) : layer.attrs.get("end")]
    if not all(isinstance(s, int) for s in part):
        return None
    return (torch.tensor(part, dtype=torch.int64),)


def _foldable(scope: Scope, layer: Layer) -> bool:
    if layer.kind in ("opaque", "if", "loop"):
        return False
    operands = [scope.constants.get(n) for n in layer.inputs if n is not None]
    if not all(isinstance(v, torch.Tensor) for v in operands) or not get(layer.kind):
        return False
    whole = all(not v.is_floating_point() for v in operands if isinstance(v, torch.Tensor))
    return get(layer.kind).exact or (whole and layer.kind != "dequantize_linear") or layer.kind == "cast"


def _exactly(scope: Scope, layer: Layer) -> tuple[Any, ...] | None:
    """The results, in the type the network declares if that holds them without rounding."""
    graph = Graph((layer,), (), tuple(n for n in layer.outputs if n), scope.constants)
    found = evaluate(graph, {})
    results = []
    for name in layer.outputs:
        value = found.get(name)
        if isinstance(value, torch.Tensor) and value.dtype == torch.float64:
            floats = [
                scope.constants[n].dtype for n in layer.inputs if n and scope.constants[n].is_floating_point()
            ]
            target = (
                layer.attrs.get("to") or layer.attrs.get("dtype") or (floats[0] if floats else torch.float32)
            )
            if not target.is_floating_point:
                target = torch.float32
            narrow = value.to(target)
            again = narrow.to(torch.float64)
            if not bool(((again == value) | (again.isnan() & value.isnan())).all()):
                return None
            value = narrow if value.numel() < 2 or value.stride() != (0,) * value.dim() else value
        results.append(value)
    return tuple(results)


# ---- declared shapes and types ---------------------------------------------------------------------


def _declared(model: onnx.ModelProto) -> tuple[dict[str, tuple[int | str, ...]], dict[str, torch.dtype]]:
    shapes: dict[str, tuple[int | str, ...]] = {}
    dtypes: dict[str, torch.dtype] = {}
    graph = model.graph
    _collect([*graph.value_info, *graph.output, *graph.input], shapes, dtypes)
    inferred = infer(model)
    if inferred is not None:
        _collect([*inferred.value_info, *inferred.output], shapes, dtypes)
    return shapes, dtypes


def _collect(
    infos: Iterable[onnx.ValueInfoProto],
    shapes: dict[str, tuple[int | str, ...]],
    dtypes: dict[str, torch.dtype],
) -> None:
    for info in infos:
        kind = info.type.tensor_type
        if not info.type.HasField("tensor_type"):
            continue
        dtype = dtype_from_onnx(kind.elem_type)
        if dtype is not None:
            dtypes[info.name] = dtype
        if kind.HasField("shape"):
            shapes[info.name] = tuple(
                d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else (d.dim_param or "?")
                for d in kind.shape.dim
            )


def _names(graph: onnx.GraphProto) -> set[str]:
    found = {i.name for i in graph.input} | {t.name for t in graph.initializer}
    for node in graph.node:
        found.update(node.output)
        for body in bodies(node):
            found |= _names(body)
    return found
