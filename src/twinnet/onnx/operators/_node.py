"""An ONNX node as passed to its translator, and the registry of translators."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import onnx
import torch

from twinnet.layers.graph import Graph, Layer, fresh_name
from twinnet.onnx.operators._tensors import tensor_from_onnx

__all__ = ["Node", "Scope", "Translator", "op", "translator"]

Translator = Callable[["Node"], None]

_TRANSLATORS: dict[tuple[str, str], Translator] = {}
_STANDARD = ("", "ai.onnx")


def op(*names: str, domain: str = "") -> Callable[[Translator], Translator]:
    """Register a translator for operators of a domain."""

    def remember(function: Translator) -> Translator:
        for name in names:
            if (domain, name) in _TRANSLATORS:
                raise ValueError(f"operator {name} has two translators")
            _TRANSLATORS[domain, name] = function
        return function

    return remember


def translator(domain: str, name: str) -> Translator | None:
    """The translator of an operator, if there is one."""
    return _TRANSLATORS.get(("" if domain in _STANDARD else domain, name))


@dataclass
class Scope:
    """The state of reading a graph."""

    opsets: Mapping[str, int]
    constants: dict[str, Any]
    shapes: dict[str, tuple[int | str, ...]]
    dtypes: dict[str, torch.dtype]
    model: onnx.ModelProto
    read_graph: Callable[[onnx.GraphProto, Scope], Graph]
    layers: list[Layer] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    def fresh(self, base: str) -> str:
        """A value name that the model does not use."""
        return fresh_name(base, self.names)


class Node:
    """Decoded attributes, operands and origin of one node; `emit` adds layers."""

    def __init__(self, proto: onnx.NodeProto, scope: Scope) -> None:
        self.proto = proto
        self.scope = scope
        self.op = proto.op_type
        domain = "" if proto.domain in _STANDARD else proto.domain
        self.version = scope.opsets.get(domain, 1)
        self.inputs: list[str | None] = [name or None for name in proto.input]
        while self.inputs and self.inputs[-1] is None:
            self.inputs.pop()
        self.outputs: list[str] = list(proto.output)
        while self.outputs and not self.outputs[-1]:
            self.outputs.pop()
        self.attrs: dict[str, Any] = {a.name: _value(a) for a in proto.attribute}
        self.module, self.source = _place(proto)

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute, or its default."""
        return self.attrs.get(name, default)

    def input(self, i: int) -> str | None:
        """Name of an operand, None if it is absent."""
        return self.inputs[i] if i < len(self.inputs) else None

    def constant(self, i: int) -> Any:
        """Value of an operand that is a constant, else None."""
        name = self.input(i)
        return None if name is None else self.scope.constants.get(name)

    def ints(self, i: int) -> tuple[int, ...] | None:
        """Integers of a constant operand, else None."""
        value = self.constant(i)
        return None if value is None else tuple(int(v) for v in value.reshape(-1).tolist())

    def shape(self, i: int) -> tuple[int | str, ...] | None:
        """Declared or inferred shape of an operand."""
        name = self.input(i)
        if name is None:
            return None
        known = self.scope.constants.get(name)
        return tuple(known.shape) if isinstance(known, torch.Tensor) else self.scope.shapes.get(name)

    def rank(self, i: int = 0) -> int | None:
        """Number of axes of an operand, if known."""
        shape = self.shape(i)
        return None if shape is None else len(shape)

    def dtype(self, name: str | None) -> torch.dtype | None:
        """Declared or inferred type of a value."""
        if name is None:
            return None
        known = self.scope.constants.get(name)
        return known.dtype if isinstance(known, torch.Tensor) else self.scope.dtypes.get(name)

    def temp(self, suffix: str) -> str:
        """A name for an intermediate value of a node that becomes several layers."""
        return self.scope.fresh(f"{self.outputs[0]}/{suffix}")

    def hold(self, value: Any, suffix: str) -> str:
        """Store a constant and return its name."""
        name = self.temp(suffix)
        self.scope.constants[name] = value
        return name

    def emit(
        self,
        kind: str,
        inputs: list[str | None] | None = None,
        outputs: list[str] | None = None,
        **attrs: Any,
    ) -> str:
        """Add a layer (all operands and results of the node by default) and return its first output."""
        made = tuple(self.outputs if outputs is None else outputs)
        layer = Layer(
            kind,
            tuple(self.inputs if inputs is None else inputs),
            made,
            {k: v for k, v in attrs.items() if v is not None},
            node=self.proto.name,
            op=self.op,
            module=self.module,
            source=self.source,
        )
        self.scope.layers.append(layer)
        return made[0]


def _value(attribute: onnx.AttributeProto) -> Any:
    kind = attribute.type
    if kind == onnx.AttributeProto.STRING:
        return attribute.s.decode("utf-8", "replace")
    if kind == onnx.AttributeProto.STRINGS:
        return [s.decode("utf-8", "replace") for s in attribute.strings]
    if kind == onnx.AttributeProto.TENSOR:
        return tensor_from_onnx(attribute.t)
    if kind in (onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS):
        return tuple(onnx.helper.get_attribute_value(attribute))
    return onnx.helper.get_attribute_value(attribute)


_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


def _place(proto: onnx.NodeProto) -> tuple[str, str]:
    """Module path and source line that torch.onnx left in a node, empty if it did not."""
    module = source = ""
    for entry in proto.metadata_props:
        if entry.key == "pkg.torch.onnx.name_scopes":
            try:
                scopes = [s for s in ast.literal_eval(entry.value) if isinstance(s, str)]
            except (ValueError, SyntaxError):
                continue
            module = scopes[-2] if len(scopes) > 1 else ""
        elif entry.key == "pkg.torch.onnx.stack_trace":
            frames = _FRAME.findall(entry.value)
            own = [
                f for f in frames if "/torch/nn/" not in f[0].replace("\\", "/")
            ]  # the user's line, not torch's
            if frames:
                path, line = (own or frames)[-1]
                source = f"{path}:{line}"
    return module, source
