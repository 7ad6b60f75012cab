"""Read a TFLite graph as canonical layers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import torch

from twinnet.layers.graph import Graph, Layer
from twinnet.tflite.ends import given_name, shown_name
from twinnet.tflite.model import Model, Tensor
from twinnet.tflite.names import module_of
from twinnet.tflite.operators import Node, Scope, rule_of
from twinnet.tflite.view import View, last_to_first

__all__ = ["read_tflite"]


def read_tflite(model: Model, view: View, modules: Collection[str] = (), kernels: str = "") -> Graph:
    """The canonical graph of the main graph of a model, in the form in which `view` sees its tensors.

    Value names are those of the tensors. `modules` are the module paths of the network it was made from, if known;
    `kernels` is the set that runs it, which decides how far its fixed-point arithmetic may be off ("" for any). An
    operator without a canonical form becomes kind "opaque"; evaluating it raises `UnknownLayer`.
    """
    graph = model.main
    scope = Scope(graph, view, frozenset(modules), kernels, names={t.name for t in graph.tensors})
    for index in graph.inputs:
        if index in view.real:
            _given(scope, graph.tensors[index])
    for operator in graph.operators:
        if not operator.outputs or _folded(scope, operator):
            continue
        names = (graph.tensors[t].name for t in operator.outputs if t >= 0)
        node = Node(operator, scope, next(filter(None, (module_of(n, scope.modules) for n in names)), ""))
        start, known, rule = len(scope.layers), dict(scope.made), rule_of(operator.op)
        try:
            if rule is None or operator.custom:
                raise ValueError("the operator is not known")
            rule(node)
        except (ValueError, KeyError, IndexError, AttributeError, RuntimeError, TypeError) as error:
            del scope.layers[start:]
            scope.made = known
            _opaque(node, str(error))
    for index in dict.fromkeys(graph.outputs):
        if index in view.real:
            _shown(scope, graph.tensors[index])
    shapes = {t.name: _seen_shape(t, view) for t in graph.tensors if t.shape is not None}
    dtypes = {t.name: getattr(torch, t.dtype) for t in graph.tensors if hasattr(torch, t.dtype)}
    inputs = tuple(given_name(graph.tensors[i], view) for i in graph.inputs)
    outputs = tuple(shown_name(graph.tensors[i], view) for i in graph.outputs)
    for index in graph.inputs + graph.outputs:
        tensor = graph.tensors[index]
        for name in (given_name(tensor, view), shown_name(tensor, view)):
            shapes.setdefault(name, _seen_shape(tensor, view))
            if name != tensor.name:
                dtypes[name] = torch.float32
    return Graph(tuple(scope.layers), inputs, outputs, scope.constants, dtypes, shapes)


def _seen_shape(tensor: Tensor, view: View) -> tuple[int | str, ...]:
    shape = tensor.shape or ()
    return tuple(shape[a] for a in last_to_first(len(shape))) if view.seen_first(tensor.index) else shape


def _given(scope: Scope, tensor: Tensor) -> None:
    """An integer input that is given as real numbers."""
    assert tensor.steps is not None
    node = Node(scope.graph.operators[0], scope, "")
    names = node.step_names(tensor.name, tensor.steps, tensor.dtype)
    attrs: dict[str, Any] = {"axis": tensor.steps.axis, "to": getattr(torch, tensor.dtype)}
    scope.names.add(f"{tensor.name}/given")
    scope.layers.append(
        Layer(
            "quantize_linear", (f"{tensor.name}/given", *names), (tensor.name,), attrs, tensor.name, "input"
        )
    )


def _shown(scope: Scope, tensor: Tensor) -> None:
    """An integer output that is shown as real numbers."""
    assert tensor.steps is not None
    key = ("real", tensor.name, tensor.steps.axis)
    name = f"{tensor.name}/real"
    if scope.made.get(key) == name:
        return
    node = Node(scope.graph.operators[-1], scope, "")
    names = node.step_names(tensor.name, tensor.steps, tensor.dtype)
    attrs = {"axis": tensor.steps.axis}
    scope.layers.append(Layer("dequantize_linear", (tensor.name, *names), (name,), attrs, name, "output"))


def _folded(scope: Scope, operator: Any) -> bool:
    """Whether an operator only converts a stored constant, which then is one itself."""
    if operator.op not in ("DEQUANTIZE", "RESHAPE", "CAST", "TRANSPOSE") or len(operator.outputs) != 1:
        return False
    source = scope.graph.tensors[operator.inputs[0]] if operator.inputs and operator.inputs[0] >= 0 else None
    made = scope.graph.tensors[operator.outputs[0]]
    value = None if source is None else scope.constant(source.index)
    if value is None or source is None or made.steps is not None:
        return False
    if operator.op == "DEQUANTIZE" and source.dtype == "float16":
        scope.folded[made.index] = value.astype(np.float32)
        return True
    if operator.op == "DEQUANTIZE" and source.steps is not None:
        scope.source[made.index] = source
        return True
    if operator.op == "RESHAPE" and source.steps is None and made.shape is not None:
        sizes = [n for n in made.shape if isinstance(n, int)]
        if len(sizes) == len(made.shape) and int(np.prod(sizes)) == value.size:
            scope.folded[made.index] = value.reshape(sizes)
            return True
    if operator.op == "TRANSPOSE" and source.steps is None:
        perm = scope.constant(operator.inputs[1])
        if perm is not None and sorted(perm.reshape(-1).tolist()) == list(range(value.ndim)):
            scope.folded[made.index] = value.transpose(perm.reshape(-1).tolist())
            return True
    return False


def _opaque(node: Node, reason: str) -> None:
    names = []
    for index in node.operator.inputs:
        if index < 0:
            continue
        tensor = node.scope.tensor(index)
        if tensor.data is None and index not in node.scope.folded:
            names.append(tensor.name)
    made = [node.scope.tensor(t).name for t in node.operator.outputs if t >= 0]
    node.layer("opaque", names, made, unknown=f"{node.op} has no canonical form: {reason}")
