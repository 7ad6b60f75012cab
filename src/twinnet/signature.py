"""What a network takes and gives: named tensors with dtype and shape, dimensions possibly symbolic."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

__all__ = ["Signature", "TensorSpec", "by_position", "dims"]


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One named input or output. A dimension is an int, or a string for a symbolic one ("batch", "?").

    `dtype` is a numpy dtype name ("float32", "int64", "bool", "bfloat16"). `shape` None means unknown rank.

    >>> TensorSpec("x", "float32", (1, 3, "h", "w")).dynamic
    True
    """

    name: str
    dtype: str = "float32"
    shape: tuple[int | str, ...] | None = None
    optional: bool = False

    @property
    def dynamic(self) -> bool:
        """Whether a dimension, or the rank itself, is not known."""
        return self.shape is None or any(not isinstance(d, int) for d in self.shape)

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype} {'?' if self.shape is None else dims(self.shape)}"


@dataclass(frozen=True, slots=True)
class Signature:
    """Inputs and outputs of a network in order."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...] = ()

    @property
    def required(self) -> tuple[TensorSpec, ...]:
        """The inputs that must be given; all of them where each is optional."""
        return tuple(spec for spec in self.inputs if not spec.optional) or self.inputs


def by_position(ours: Collection[str], theirs: Collection[str]) -> dict[str, str]:
    """Map input names of one side to those of the other by position; empty if names agree or counts differ.

    >>> by_position(["x"], ["image"]), by_position(["x"], ["x", "mask"])
    ({'x': 'image'}, {})
    """
    if set(ours) <= set(theirs) or len(ours) != len(theirs):
        return {}
    return dict(zip(ours, theirs, strict=True))


def dims(shape: Sequence[int | str] | None) -> str:
    """Format a shape.

    >>> dims((1, 3, "h")), dims(()), dims(None)
    ('1x3xh', 'scalar', 'any shape')
    """
    return "any shape" if shape is None else "x".join(map(str, shape)) or "scalar"
