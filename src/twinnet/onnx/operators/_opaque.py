"""Operators without a canonical form, evaluated node by node with onnx.reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import torch

from twinnet.errors import foreign_as
from twinnet.layers.kinds import UnknownLayer
from twinnet.onnx.graph import reads
from twinnet.onnx.operators._node import Node
from twinnet.onnx.operators._tensors import array_to_torch

__all__ = ["opaque"]

_RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
_RANDOM |= {"Multinomial", "Bernoulli", "Dropout"}


def opaque(node: Node, reason: str, runnable: bool = True) -> None:
    """Emit an opaque layer that runs the node; values captured by its bodies become operands."""
    names = [*node.inputs, *(n for n in reads(node.proto) if n not in node.inputs)]
    what = f"{node.op} {node.proto.name!r}" if node.proto.name else node.op
    if node.op in _RANDOM:
        node.emit("opaque", names, unknown=f"{what} is random")
        return
    if not runnable:
        node.emit("opaque", names, unknown=f"{what} has no canonical form: {reason}")
        return
    try:
        run = _runner(node, names)
    except UnknownLayer as error:
        node.emit(
            "opaque", names, unknown=f"{what} has no canonical form ({reason}) and no reference: {error}"
        )
        return
    node.emit("opaque", names, run=run, reason=reason)


def _runner(node: Node, names: list[str | None]) -> Callable[..., tuple[Any, ...]]:
    from onnx.reference import ReferenceEvaluator

    proto = node.proto
    present = list(dict.fromkeys(n for n in names if n))
    unknown = onnx.TensorProto.UNDEFINED
    graph = onnx.helper.make_graph(
        [proto],
        "node",
        [onnx.helper.make_tensor_value_info(n, unknown, None) for n in present],
        [onnx.helper.make_tensor_value_info(n, unknown, None) for n in proto.output if n],
    )
    opsets = [onnx.helper.make_opsetid(d, v) for d, v in node.scope.opsets.items()]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=node.scope.model.ir_version or 8)
    with foreign_as(lambda error: UnknownLayer(str(error))):
        session = ReferenceEvaluator(model)
    what = f"{node.op} {proto.name!r}"
    wanted = list(node.outputs)

    def results(values: tuple[Any, ...], floats: Any) -> Any:
        given = {n: _numpy(v, floats) for n, v in zip(names, values) if n}
        with foreign_as(lambda error: UnknownLayer(f"{what} cannot be evaluated: {error}")):
            return session.run(None, given)

    def run(*values: Any) -> tuple[Any, ...]:
        try:
            found = results(values, np.float64)
        except UnknownLayer:  # some reference operators insist on float32
            found = results(values, np.float32)
        made = iter(found)
        return tuple(_torch(next(made)) if n else None for n in wanted)

    return run


def _numpy(value: Any, floats: Any) -> Any:
    if isinstance(value, torch.Tensor):
        array = value.detach().contiguous().numpy()
        return array.astype(floats) if array.dtype == np.float64 else array
    if isinstance(value, list):
        return [_numpy(v, floats) for v in value]
    return value


def _torch(value: Any) -> Any:
    if isinstance(value, list):
        return [_torch(v) for v in value]
    return None if value is None else array_to_torch(value)
