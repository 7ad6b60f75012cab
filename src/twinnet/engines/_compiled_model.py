"""Prepare ONNX models for compilers: a recent opset, fixed shapes, watched tensors as outputs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from twinnet.engines._onnx_alone import typed_model

if TYPE_CHECKING:
    import onnx

__all__ = ["Prepared", "prepare", "tensor_types"]


@dataclass(frozen=True)
class Prepared:
    """A model ready to import. `outputs` are its own; `taps` are values that can be added as outputs, by name."""

    model: onnx.ModelProto
    outputs: tuple[str, ...]
    taps: Mapping[str, onnx.ValueInfoProto]
    converted_from: int = 0

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Inputs in the order in which the compiled function takes them."""
        held = {t.name for t in self.model.graph.initializer}
        return tuple(i.name for i in self.model.graph.input if i.name not in held)

    def tapped(self, names: Collection[str]) -> tuple[onnx.ModelProto, tuple[str, ...]]:
        """The model with further outputs, in the order of the graph, and the names of all its outputs."""
        extra = [n for n in self.taps if n in names and n not in self.outputs]
        model = type(self.model)()
        model.CopyFrom(self.model)
        model.graph.output.extend(self.taps[n] for n in extra)
        return model, (*self.outputs, *extra)


def prepare(
    model: onnx.ModelProto, feeds: Mapping[str, np.ndarray], *, static: bool, oldest: int = 0, opset: int = 0
) -> Prepared:
    """Convert, inline, fix the shapes to those of `feeds` (where `static`), and find the type of every tensor."""
    own, known, converted = typed_model(model, dict(feeds), static, oldest, opset)
    made = [name for node in own.graph.node for name in node.output if name]
    taps = {name: known[name] for name in made if name in known}
    return Prepared(own, tuple(o.name for o in own.graph.output), taps, converted)


def tensor_types(values: Iterable[onnx.ValueInfoProto]) -> dict[str, tuple[str, tuple[int, ...] | None]]:
    """dtype and, where it is fixed, shape of inputs or outputs of a model."""
    from twinnet.onnx.external import element_dtype

    found: dict[str, tuple[str, tuple[int, ...] | None]] = {}
    for info in values:
        tensor = info.type.tensor_type
        dims = [d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim]
        fixed = tuple(dims) if tensor.HasField("shape") and min(dims, default=0) >= 0 else None
        found[info.name] = (element_dtype(tensor.elem_type, info.name).name, fixed)
    return found
