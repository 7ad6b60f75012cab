"""One call of an ATen operator with its arguments by schema name, and what a rule makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Node

__all__ = ["Call", "Form", "Rule", "Symbolic", "rules"]


class Symbolic(Exception):
    """An argument that a canonical layer needs as a number is only known when the program runs."""


@dataclass(frozen=True)
class Form:
    """The canonical form of a call: a kind of layer, its operands (value names, numbers or None) and attributes.

    `attrs` are those of `twinnet.layers.kinds`. Operands that are plain numbers become constants.

    >>> Form("mul", ("x", 2.0)).kind
    'mul'
    """

    kind: str
    inputs: Sequence[str | float | int | bool | torch.Tensor | None]
    attrs: Mapping[str, Any] = field(default_factory=dict)


class Call:
    """An ATen call with its arguments by schema name, defaults filled in; `call["dim"]` is a plain value.

    Tensors are given by `value(name)` as value names. Asking for an argument that holds a symbolic size as a plain
    value raises `Symbolic`, which makes the reader keep the call as it is.
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        target = node.target
        assert isinstance(target, torch._ops.OpOverload)
        self.op: str = target._schema.name.split("::")[1]
        self.overload: str = target._overloadname
        self._args = arguments(node)

    def __contains__(self, name: str) -> bool:
        return name in self._args

    def __getitem__(self, name: str) -> Any:
        found = self._args[name]
        if _holds_node(found):
            raise Symbolic(name)
        return found

    def value(self, name: str) -> str | None:
        """The name of a tensor argument, or None where it is absent."""
        found = self._args.get(name)
        if found is None:
            return None
        if not isinstance(found, Node) or not isinstance(found.meta.get("val"), torch.Tensor):
            raise Symbolic(name)
        return found.name

    def operand(self, name: str) -> str | float | int | bool | None:
        """A tensor's name, or the number that stands in its place."""
        found = self._args[name]
        return self.value(name) if isinstance(found, Node) else found

    def values(self, name: str) -> tuple[str | None, ...]:
        """The names in a list of tensors."""
        found = self._args[name]
        if any(n is not None and not isinstance(n.meta.get("val"), torch.Tensor) for n in found):
            raise Symbolic(name)
        return tuple(None if n is None else n.name for n in found)

    def shape(self, name: str | None = None) -> tuple[int, ...]:
        """The static shape of a tensor argument, or of the (first) result."""
        shape = self._tensor(name).shape
        if not all(isinstance(size, int) for size in shape):
            raise Symbolic(name or "result")
        return tuple(shape)

    def rank(self, name: str | None = None) -> int:
        """The number of dimensions of a tensor argument, or of the (first) result."""
        return self._tensor(name).dim()

    def dtype(self, name: str | None = None) -> torch.dtype:
        """The dtype of a tensor argument, or of the (first) result."""
        return self._tensor(name).dtype

    def axis(self, argument: str, of: str) -> int:
        """A dimension argument, counted from the front."""
        return self[argument] % max(self.rank(of), 1)

    def axes(self, argument: str, of: str) -> tuple[int, ...]:
        """A list of dimensions, counted from the front; none given means all of them."""
        rank = self.rank(of)
        dims = self[argument] if argument in self else None
        if dims is None or (isinstance(dims, (list, tuple)) and not dims):
            return tuple(range(rank))
        dims = [dims] if isinstance(dims, int) else dims
        return tuple(d % max(rank, 1) for d in dims)

    def _tensor(self, name: str | None) -> torch.Tensor:
        found = self.node if name is None else self._args[name]
        meta = found.meta.get("val") if isinstance(found, Node) else None
        meta = meta[0] if isinstance(meta, (list, tuple)) else meta
        if not isinstance(meta, torch.Tensor):
            raise Symbolic(name or "result")
        return meta


Rule = Callable[[Call], Form | None]


class Rules(dict[str, Rule]):
    """Rules by ATen operator name (without overload).

    >>> table = Rules()
    >>> @table.add("relu")
    ... def relu(call):
    ...     return Form("relu", [call.value("self")])
    >>> sorted(table)
    ['relu']
    """

    def add(self, *names: str) -> Callable[[Rule], Rule]:
        """Register a rule for these operators."""

        def register(rule: Rule) -> Rule:
            for name in names:
                if name in self:
                    raise ValueError(f"two rules for {name}")
                self[name] = rule
            return rule

        return register


rules = Rules()
"""All rules; the modules of this package fill it when they are imported."""


def arguments(node: Node) -> dict[str, Any]:
    """Arguments of an ATen node by schema name, defaults filled in."""
    schema = node.target._schema.arguments  # type: ignore[union-attr]
    found: dict[str, Any] = {}
    for i, argument in enumerate(schema):
        if i < len(node.args) and not argument.kwarg_only:
            found[argument.name] = node.args[i]
        elif argument.name in node.kwargs:
            found[argument.name] = node.kwargs[argument.name]
        else:
            found[argument.name] = argument.default_value if argument.has_default_value() else None
    return found


def _holds_node(found: Any) -> bool:
    if isinstance(found, (list, tuple)):
        return any(_holds_node(item) for item in found)
    return isinstance(found, (Node, torch.SymInt, torch.SymFloat))
