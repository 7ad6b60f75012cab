"""The differences between two networks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from twinnet.result import Fact
from twinnet.result.speech import speaker

__all__ = ["Change", "Kind", "StructureDiff"]

Kind = Literal["input", "output", "only in A", "only in B", "replaced", "attribute", "weight"]


@dataclass(frozen=True, slots=True)
class Change:
    """One difference: its place, and the values on both sides."""

    kind: Kind
    place: str
    fact: Fact
    a: Any = None
    b: Any = None

    @property
    def sentence(self) -> str:
        """The fact in words."""
        return str(self.fact)


@dataclass(frozen=True)
class StructureDiff:
    """What differs between networks A and B; `matched` counts the layers that both have."""

    a: str
    b: str
    layers_a: int
    layers_b: int
    matched: int
    parameters_a: int = 0
    parameters_b: int = 0
    changes: tuple[Change, ...] = ()
    notes: tuple[Fact, ...] = field(default=())

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return not self.changes

    @property
    def exit_code(self) -> int:
        """0 the same, 1 different."""
        return 0 if self.same else 1

    def to_json(self) -> str:
        """Machine-readable form."""
        return speaker().to_json(self)

    def __repr__(self) -> str:
        return speaker().screen(self)
