"""One TFLite operator as passed to its rule, and the registry of rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from twinnet.layers.graph import Layer, fresh_name
from twinnet.network.arrays import to_tensor
from twinnet.tflite.model import Operator, Steps, Subgraph, Tensor
from twinnet.tflite.operators._fixed_point import fixed_point
from twinnet.tflite.schema import ACTIVATIONS
from twinnet.tflite.view import View, first_to_last, last_to_first

__all__ = ["Node", "Rule", "Scope", "op", "rule_of"]

Rule = Callable[["Node"], None]

_RULES: dict[str, Rule] = {}


def op(*names: str) -> Callable[[Rule], Rule]:
    """Register the rule of operators."""

    def remember(rule: Rule) -> Rule:
        for name in names:
            if name in _RULES:
                raise ValueError(f"operator {name} has two rules")
            _RULES[name] = rule
        return rule

    return remember


def rule_of(name: str) -> Rule | None:
    """The rule of an operator, if there is one."""
    return _RULES.get(name)


@dataclass
class Scope:
    """The state of reading a graph.

    `kernels` is the set that runs it, "" for any. `folded` holds tensors computed from constants alone, as arrays;
    `source` the stored tensors that others merely convert to real numbers.
    """

    graph: Subgraph
    view: View
    modules: frozenset[str] = frozenset()
    kernels: str = ""
    layers: list[Layer] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    folded: dict[int, np.ndarray] = field(default_factory=dict)
    source: dict[int, Tensor] = field(default_factory=dict)
    made: dict[tuple[Any, ...], str] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)

    def fresh(self, base: str) -> str:
        """A value name that the graph does not use."""
        return fresh_name(base, self.names)

    def tensor(self, index: int) -> Tensor:
        return self.graph.tensors[index]

    def constant(self, index: int) -> np.ndarray | None:
        """The value of a tensor that depends on no input."""
        if index in self.folded:
            return self.folded[index]
        tensor = self.tensor(index)
        if tensor.data is None or tensor.sparse or tensor.shape is None or tensor.dtype in _NO_NUMBERS:
            return None
        return tensor.array()


_NO_NUMBERS = {"str", "resource", "variant", "float8_e4m3fn", "float8_e5m2"}


class Node:
    """An operator with its operands; `emit` adds layers.

    Operands come in two orders of axes: with channels `first`, where the operator is read that way, or as `stored` in
    the file. Both give real numbers for integers that stand for such.
    """

    def __init__(self, operator: Operator, scope: Scope, module: str) -> None:
        self.operator = operator
        self.scope = scope
        self.op = operator.op
        self.options = operator.options
        self.module = module
        data = [t for t in (*operator.inputs, *operator.outputs) if t >= 0]
        self.first = any(t in scope.view.last for t in data)
        """Whether it computes tensors with channels last, and is read with channels first."""

    # -- operands ------------------------------------------------------------------------------------------------------

    def tensor(self, place: int) -> Tensor | None:
        """The operand at a place; None if it is absent."""
        index = self.operator.inputs[place] if place < len(self.operator.inputs) else -1
        return None if index < 0 else self.scope.source.get(index) or self.scope.tensor(index)

    def counted(self, place: int) -> bool:
        """Whether an operand reaches the operator as integers that stand for real numbers."""
        index = self.operator.inputs[place] if place < len(self.operator.inputs) else -1
        return index >= 0 and self.scope.tensor(index).steps is not None and _counts(self.scope.tensor(index))

    def made(self, place: int = 0) -> Tensor:
        """The result at a place."""
        return self.scope.tensor(self.operator.outputs[place])

    def value(self, place: int) -> np.ndarray:
        """A constant operand, as stored; ValueError if it is not constant."""
        tensor = self.tensor(place)
        found = None if tensor is None else self.scope.constant(tensor.index)
        if found is None:
            raise ValueError(f"operand {place} is not constant")
        return found

    def ints(self, place: int) -> tuple[int, ...]:
        """The integers of a constant operand."""
        return tuple(int(v) for v in self.value(place).reshape(-1))

    def shape(self, place: int) -> tuple[int, ...]:
        """The shape of an operand as stored; ValueError if a size is unknown."""
        tensor = self.tensor(place)
        return self._sizes(tensor)

    def size(self, place: int, axis: int) -> int:
        """One size of an operand as stored; ValueError if it is not known."""
        tensor = self.tensor(place)
        found = tensor.shape[axis] if tensor is not None and tensor.shape is not None else "?"
        if not isinstance(found, int):
            raise ValueError("a size is not known")
        return found

    def made_shape(self, place: int = 0) -> tuple[int, ...]:
        """The shape of a result as stored."""
        return self._sizes(self.made(place))

    @staticmethod
    def _sizes(tensor: Tensor | None) -> tuple[int, ...]:
        if tensor is None or tensor.shape is None or not all(isinstance(n, int) for n in tensor.shape):
            raise ValueError("a size is not known")
        return tuple(int(n) for n in tensor.shape)

    def rank(self, place: int = 0) -> int:
        """How many axes an operand has."""
        tensor = self.tensor(place)
        if tensor is None or tensor.shape is None:
            raise ValueError("a rank is not known")
        return len(tensor.shape)

    def axis(self, axis: int, rank: int | None = None) -> int:
        """An axis of this operator's data in the order in which it is read."""
        rank = self.rank() if rank is None else rank
        axis %= max(rank, 1)
        return first_to_last(rank)[axis] if self.first and rank == 4 else axis

    def operand(self, place: int) -> str | None:
        """An operand in the order in which the operator is read."""
        tensor = self.tensor(place)
        if tensor is None:
            return None
        return self.real(tensor, first=self.first)

    def stored(self, place: int) -> str | None:
        """An operand in the order of the file."""
        tensor = self.tensor(place)
        return None if tensor is None else self.real(tensor, first=False)

    def real(self, tensor: Tensor, *, first: bool) -> str:
        """A tensor as real numbers, with channels first or as stored."""
        name = self.raw(tensor, first=first)
        if tensor.steps is None or not _counts(tensor):
            return name
        axis, rank = tensor.steps.axis, len(tensor.shape or ())
        if first and self.scope.constant(tensor.index) is not None and 0 < rank < 4:
            axis, rank = axis + 4 - rank, 4
        if first and rank == 4:
            axis = first_to_last(4)[axis]
        return self.dequantised(name, tensor.steps, axis, tensor.dtype)

    def dequantised(self, name: str, steps: Steps, axis: int, dtype: str) -> str:
        """Real numbers from integers, by a layer that several readers share."""
        key = ("real", name, axis)
        if key not in self.scope.made:
            made = self.scope.fresh(f"{name}/real")
            self.layer("dequantize_linear", [name, *self.step_names(name, steps, dtype)], [made], axis=axis)
            self.scope.made[key] = made
        return self.scope.made[key]

    def step_names(self, name: str, steps: Steps, dtype: str) -> list[str]:
        """The names of a scale and a zero point, as constants of the graph."""
        key = ("steps", name, steps)
        if key not in self.scope.made:
            self.scope.made[key] = base = self.scope.fresh(f"{name}/steps")
            one = len(steps.scale) == 1
            scale = torch.tensor(steps.scale[0] if one else steps.scale, dtype=torch.float32)
            zero = torch.tensor(
                steps.zero[0] if one else steps.zero, dtype=getattr(torch, _HELD.get(dtype, dtype))
            )
            self.scope.constants[f"{base}.scale"] = scale
            self.scope.constants[f"{base}.zero"] = zero
        base = self.scope.made[key]
        return [f"{base}.scale", f"{base}.zero"]

    def raw(self, tensor: Tensor, *, first: bool) -> str:
        """A tensor's own numbers, with channels first or as stored."""
        value = self.scope.constant(tensor.index)
        rank = len(tensor.shape or ())
        if value is not None:
            if first and 0 < value.ndim < 4:  # broadcast from the last axis
                value = value.reshape((1,) * (4 - value.ndim) + value.shape)
            return self.weight(tensor, value, last_to_first(4) if first and value.ndim == 4 else None)
        seen = self.scope.view.seen_first(tensor.index)
        name = self.scope.made.get(("as real", tensor.index), tensor.name)
        wanted = first and tensor.index in self.scope.view.last
        if first and not wanted and 1 < rank < 4:
            raise ValueError("operands with and without channels last")
        if seen == wanted:
            return name
        return self.turn(
            name, last_to_first(rank) if wanted else first_to_last(rank), "first" if wanted else "last"
        )

    def turn(self, name: str, perm: tuple[int, ...], word: str) -> str:
        """A value with another order of axes, by a layer that several readers share."""
        key = ("turned", name, perm)
        if key not in self.scope.made:
            made = self.scope.fresh(f"{name}/channels {word}")
            self.layer("transpose", [name], [made], perm=perm)
            self.scope.made[key] = made
        return self.scope.made[key]

    def weight(self, tensor: Tensor, value: np.ndarray, perm: tuple[int, ...] | None = None) -> str:
        """A constant under its own name, or under another where it is also used with another order of axes."""
        key = ("weight", tensor.index, perm, value.shape)
        if key not in self.scope.made:
            name = (
                tensor.name
                if tensor.name not in self.scope.constants
                else self.scope.fresh(f"{tensor.name}/also")
            )
            turned = value if perm is None else value.transpose(perm)
            self.scope.constants[name] = to_tensor(np.ascontiguousarray(turned).reshape(turned.shape))
            self.scope.made[key] = name
        return self.scope.made[key]

    def kernel(self, place: int, perm: tuple[int, ...]) -> str:
        """A weight with its axes permuted; integers become real."""
        tensor = self.tensor(place)
        if tensor is None:
            raise ValueError("there is no weight")
        name = self.weight(tensor, self.value(place).transpose(perm))
        if tensor.steps is None or not _counts(tensor):
            return name
        axis = perm.index(tensor.steps.axis)
        return self.dequantised(name, tensor.steps, axis, tensor.dtype)

    def temp(self, word: str) -> str:
        """A name for a value that the file does not show."""
        return self.scope.fresh(f"{self.made().name}/{word}")

    # -- results -------------------------------------------------------------------------------------------------------

    def layer(self, kind: str, inputs: Sequence[str | None], outputs: Sequence[str], **attrs: Any) -> None:
        """Add a layer."""
        shown = self.scope.tensor(self.operator.outputs[0]).name if self.operator.outputs else ""
        self.scope.layers.append(
            Layer(kind, tuple(inputs), tuple(outputs), attrs, node=shown, op=self.op, module=self.module)
        )

    def emit(
        self,
        kind: str,
        inputs: Sequence[str | None] | None = None,
        outputs: Sequence[str] | None = None,
        **attrs: Any,
    ) -> str:
        """Add a layer; without `outputs` it makes the operator's first result, activation and rounding included."""
        if inputs is None:
            inputs = [self.operand(i) for i in range(len(self.operator.inputs))]
        if outputs is not None:
            self.layer(kind, inputs, outputs, **attrs)
            return outputs[0]
        return self.finish(lambda name: self.layer(kind, inputs, [name], **attrs))

    def finish(self, make: Callable[[str], None], place: int = 0, *, first: bool | None = None) -> str:
        """Let `make` add the layer of a result under a name, and whatever follows it."""
        tensor = self.made(place)
        first = (self.first if first is None else first) and len(tensor.shape or ()) == 4
        fused = (
            ACTIVATIONS[self.options.get("fused", 0)]
            if 0 <= self.options.get("fused", 0) < len(ACTIVATIONS)
            else "?"
        )
        steps: list[tuple[str, dict[str, Any], list[str]]] = []
        if fused:
            if fused not in _ACTIVATIONS:
                raise ValueError(f"the activation {fused} has no canonical form")
            kind, attrs = _ACTIVATIONS[fused]
            steps.append((kind, attrs, []))
        end = tensor.name
        shown = self.scope.view.seen_first(tensor.index)
        counts = tensor.steps is not None and _counts(tensor)
        if counts and tensor.steps is not None:
            axis = tensor.steps.axis
            named = self.step_names(end, tensor.steps, tensor.dtype)
            attrs = {"axis": first_to_last(4)[axis] if first else axis, "to": getattr(torch, tensor.dtype)}
            steps.append(("quantize_linear", {**attrs, **fixed_point(self, self.scope.kernels)}, named))
        if first != shown:
            rank = len(tensor.shape or ())
            perm = first_to_last(rank) if first else last_to_first(rank)
            steps.append(("transpose", {"perm": perm}, []))
        names = [self.temp("before " + kind.partition("_")[0]) for kind, _, _ in steps] + [end]
        make(names[0])
        for (kind, attrs, more), before, after in zip(steps, names, names[1:], strict=False):
            self.layer(kind, [before, *more], [after], **attrs)
        return end


_ACTIVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "RELU": ("relu", {}),
    "RELU6": ("clip", {"min": 0.0, "max": 6.0}),
    "RELU_N1_TO_1": ("clip", {"min": -1.0, "max": 1.0}),
    "TANH": ("tanh", {}),
}
_HELD = {"int4": "int8", "int2": "int8", "uint4": "uint8"}


def _counts(tensor: Tensor) -> bool:
    """Whether the integers of a tensor stand for real numbers."""
    return tensor.dtype in ("int8", "uint8", "int16", "int32", "int4", "int2", "uint4", "int64")
