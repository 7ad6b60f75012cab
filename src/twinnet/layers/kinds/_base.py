"""The class `Kind`, the registry, and helpers that all kinds share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from twinnet.errors import EngineError

__all__ = [
    "Attrs",
    "Error",
    "Errors",
    "Flips",
    "Kind",
    "Tensors",
    "UnknownLayer",
    "add_up",
    "along",
    "get",
    "growth",
    "ints",
    "kinds",
    "mag",
    "no_error",
    "operand",
    "per_channel",
    "register",
    "scaled",
    "to_shape",
]

Attrs = Mapping[str, Any]
Tensors = Sequence[Any]
Error = torch.Tensor | None
Errors = Sequence[Error]


class UnknownLayer(EngineError):
    """A layer that has no canonical form and that no fallback can evaluate."""


@dataclass(frozen=True)
class Flips:
    """By how much each element of a discrete output may be off, and whether a given difference is excused.

    >>> Flips(torch.tensor([1.0, 0.0])).excuses(torch.tensor([3, 3]), torch.tensor([4, 4]))
    tensor([ True, False])
    """

    step: Error
    """Largest excused difference per element (`inf`: any); None: no difference."""
    ties: Callable[[torch.Tensor], torch.Tensor] | None = None
    """For indices: which of the chosen indices point at a value that ties with the best within the errors."""

    def excuses(self, expected: torch.Tensor, got: torch.Tensor) -> torch.Tensor:
        """True where `got` is what was expected, or differs in an excused way."""
        same = expected == got
        if self.ties is not None:
            return same | self.ties(got)
        if self.step is None:
            return same
        off = (got.to(torch.float64) - expected.to(torch.float64)).abs()
        return same | (off <= self.step)


@dataclass(frozen=True)
class Kind:
    """One canonical operator: `evaluate(attrs, *inputs)` and `error(attrs, inputs, errors, outputs, u)`."""

    name: str
    evaluate: Callable[..., tuple[Any, ...]]
    error: Callable[[Attrs, Tensors, Errors, Tensors, float], tuple[Error, ...]]
    exact: bool = False
    discrete: bool = False
    elementwise: bool = False
    """Each output element depends on the operands' elements at its place only (after broadcasting)."""
    tie_rules: Callable[[Attrs, Tensors, Errors, Tensors], tuple[Flips | None, ...]] | None = None

    def flips(
        self, attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float = 2.0**-24
    ) -> tuple[Flips | None, ...]:
        """For each output what flips are excused; None for outputs that are judged as numbers."""
        if self.tie_rules is not None:
            return self.tie_rules(attrs, inputs, errors, outputs)
        if not self.discrete:
            return (None,) * len(outputs)
        return tuple(Flips(step) for step in self.error(attrs, inputs, errors, outputs, u))


_KINDS: dict[str, Kind] = {}


def register(kind: Kind) -> Kind:
    """Make a kind known under its name."""
    if kind.name in _KINDS:
        raise ValueError(f"kind {kind.name!r} is registered twice")
    _KINDS[kind.name] = kind
    return kind


def get(name: str) -> Kind:
    """The kind of that name.

    >>> from twinnet.layers import kinds
    >>> kinds.get("relu").exact
    True
    """
    try:
        return _KINDS[name]
    except KeyError:
        raise UnknownLayer(f"unknown layer kind {name!r}") from None


def kinds() -> tuple[str, ...]:
    """Names of all kinds."""
    return tuple(sorted(_KINDS))


# ---- helpers for the formulas --------------------------------------------------------------------


def mag(x: torch.Tensor) -> torch.Tensor:
    """|x| as a fresh float32 tensor."""
    if x.is_complex():
        return x.abs().to(torch.float32)
    return x.to(torch.float32, copy=True).abs_()


def growth(n: int) -> float:
    """How rounding grows in a sum of n terms: a random walk, or for huge sums a bias."""
    return max(math.sqrt(n), n / 100.0) if n > 0 else 0.0


def scaled(x: torch.Tensor, factor: float) -> Error:
    """factor * |x| in float32; None when factor is 0."""
    return None if factor == 0 else mag(x).mul_(factor)


def to_shape(e: Error, like: torch.Tensor) -> Error:
    """A bound broadcast to the shape of `like`."""
    return e if e is None or e.shape == like.shape else e.expand(like.shape)


def add_up(like: torch.Tensor, *terms: Error) -> Error:
    """Sum of bounds, each broadcast to `like`; None if there are none. May write into no argument."""
    present = [t for t in terms if t is not None]
    if not present:
        return None
    if len(present) == 1:
        return to_shape(present[0], like)
    total = torch.add(present[0], present[1])
    for term in present[2:]:
        total = total.add_(term) if total.shape == like.shape else total + term
    return to_shape(total, like)


def no_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error, ...]:
    """The `error` of a kind whose results are always exact."""
    return (None,) * len(outputs)


def along(values: torch.Tensor, axis: int, rank: int) -> torch.Tensor:
    """One value per position of `axis`, shaped to broadcast against a tensor of `rank` axes.

    >>> along(torch.arange(3), 1, 4).shape
    torch.Size([1, 3, 1, 1])
    """
    return values.reshape([-1 if i == axis % rank else 1 for i in range(rank)])


def per_channel(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """One value per channel, shaped to broadcast against `like`."""
    return along(values, 1, like.dim())


def operand(attrs: Attrs, name: str, inputs: Tensors, place: int, default: Any = None) -> Any:
    """An operand that is either an attribute or an input; a Python number or tensor, or `default`."""
    if name in attrs and attrs[name] is not None:
        return attrs[name]
    if place < len(inputs) and inputs[place] is not None:
        return inputs[place]
    return default


def ints(value: Any) -> tuple[int, ...] | None:
    """Integers from a tensor, a sequence or one number; None stays None."""
    if value is None:
        return None
    if isinstance(value, torch.Tensor):
        value = value.tolist()
    if isinstance(value, (int, float)):
        return (int(value),)
    return tuple(int(v) for v in value)
