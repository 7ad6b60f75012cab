"""One call of an ATen operator with its arguments by schema name, and what a rule makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Node

from twinnet.torch_versions import is_operator

__all__ = [
    "Call",
    "Const",
    "Form",
    "Operand",
    "Out",
    "Result",
    "Rule",
    "Symbolic",
    "arguments",
    "qualified",
    "rules",
    "spoken",
]


class Symbolic(Exception):
    """An argument that a canonical layer needs as a number is only known when the program runs."""


@dataclass(frozen=True)
class Const:
    """A tensor that becomes a constant of the graph, named after the node and this label."""

    tensor: torch.Tensor
    label: str


@dataclass(frozen=True, eq=False)
class Form:
    """A canonical layer to be made: kind, operands and attributes as in `twinnet.layers.kinds`.

    Operands are names of values, constants, or other forms (for a call that takes two layers).
    `form[i]` is its output number i.

    >>> Form("reshape", [Form("relu", ["x"])], {"shape": (-1,)}).kind
    'reshape'
    """

    kind: str
    inputs: Sequence[Operand]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1

    def __getitem__(self, index: int) -> Out:
        return Out(self, index)


@dataclass(frozen=True)
class Out:
    """One output of a form."""

    form: Form
    index: int


Operand = str | Const | Form | Out | None
Result = Form | Sequence[Form | Out | None] | None
Rule = Callable[["Call"], Result]
"""What a rule returns: one form whose outputs are the call's; or one form or output for each result of the call (None
for a result without a canonical form); or None if the call has no canonical form."""


class Call:
    """An ATen call with its arguments by schema name, defaults filled in; `call["dim"]` is a plain value.

    `value(name)` gives the name of a tensor argument. Reading an argument with a symbolic size as a plain value raises
    `Symbolic`, and the reader keeps the call as it is.
    """

    def __init__(self, node: Node, constants: Mapping[str, torch.Tensor]) -> None:
        self.node = node
        self.op = qualified(node)
        self.constants = constants
        self._args = arguments(node)

    def __contains__(self, name: str) -> bool:
        return name in self._args

    def __getitem__(self, name: str) -> Any:
        found = self._args[name]
        if _holds_node(found):
            raise Symbolic(name)
        return found

    def get(self, name: str, default: Any = None) -> Any:
        """A plain value, or `default` if this operator has no such argument."""
        return self[name] if name in self._args else default

    def raw(self, name: str) -> Any:
        """An argument unchanged, possibly an fx node."""
        return self._args[name]

    def value(self, name: str) -> str | None:
        """The name of a tensor argument, or None if it is absent."""
        found = self._args.get(name)
        if found is None:
            return None
        if not isinstance(found, Node) or not _is_tensor(found):
            raise Symbolic(name)
        return found.name

    def operand(self, name: str, *, exact: bool = False) -> Operand:
        """A tensor's name, or a constant if the argument is a number.

        The number is rounded as the program rounds it: to the dtype of the tensor beside it where values are
        only moved or compared (`exact`), in arithmetic no further than to float32, which is what the kernels
        of narrower types compute in.
        """
        found = self._args[name]
        return (
            self.value(name)
            if isinstance(found, Node) or found is None
            else self.const(name, self[name], exact)
        )

    def const(self, label: str, number: float | int | bool, exact: bool = False) -> Const:
        """A constant for a number that acts on the call's tensors."""
        beside = next(
            (n.meta["val"] for n in self.node.all_input_nodes if _is_tensor(n)), self.node.meta.get("val")
        )
        dtype = torch.result_type(beside, number) if isinstance(beside, torch.Tensor) else None
        if not exact and dtype in (torch.float16, torch.bfloat16):
            dtype = torch.float32
        return Const(torch.tensor(number, dtype=dtype), label)

    def real(self, name: str) -> Operand:
        """A tensor as the operator computes with it: integers and bool in the type of the result."""
        value, given = self.value(name), self.dtype(name)
        wanted = self["dtype"] if self._args.get("dtype") is not None else self.dtype()
        if value is None or given == wanted or given.is_complex:
            return value
        if given.is_floating_point and self._args.get("dtype") is None:
            return value
        return Form("cast", [value], {"to": wanted})

    def constant(self, name: str, index: int | None = None) -> torch.Tensor | None:
        """The tensor behind an argument (or behind an entry of a list) if it never changes."""
        found = self._args[name] if index is None else self._args[name][index]
        return self.constants.get(found.name) if isinstance(found, Node) else None

    def values(self, name: str) -> tuple[str | None, ...]:
        """The names in a list of tensors."""
        found = self._args[name]
        if any(n is not None and not _is_tensor(n) for n in found):
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
        dims = self.get(argument, None)
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


class Rules(dict[str, Rule]):
    """Rules by operator name without overload: `relu` for ATen, `namespace::name` for others.

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


def qualified(node: Node) -> str:
    """The operator's name without overload; operators outside ATen keep their namespace."""
    if is_operator(node.target):
        return node.target._schema.name.removeprefix("aten::")
    return getattr(node.target, "__name__", str(node.target))


_SPOKEN = {
    "_native_batch_norm_legit_no_training": "batch_norm",
    "native_batch_norm": "batch_norm",
    "native_layer_norm": "layer_norm",
    "native_group_norm": "group_norm",
    "_unsafe_view": "view",
    "_to_copy": "to",
}


def spoken(node: Node) -> str:
    """The operator's name as users know it: `batch_norm`, not the variant that export chose."""
    name = qualified(node)
    return _SPOKEN.get(name, name.lstrip("_") if "::" not in name else name)


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


def _is_tensor(node: Any) -> bool:
    return isinstance(node, Node) and isinstance(node.meta.get("val"), torch.Tensor)


def _holds_node(found: Any) -> bool:
    if isinstance(found, (list, tuple)):
        return any(_holds_node(item) for item in found)
    return isinstance(found, (Node, torch.SymInt, torch.SymFloat))
