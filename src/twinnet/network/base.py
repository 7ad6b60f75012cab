"""What every network has: a name, a format, a signature and a count of parameters."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from twinnet.network.shapes import apply_shapes
from twinnet.signature import Signature

if TYPE_CHECKING:
    from twinnet.structure.change import StructureDiff

__all__ = ["Network"]

Self = TypeVar("Self", bound="Network")


class Network:
    """The reference side of a check. Treat it as read-only; `with_shapes` makes a changed copy.

    >>> net = Network("net", Signature(()), parameters=12)
    >>> net
    <Network net (network, 12 parameters)>
    """

    format = "network"
    shapes_are_free = False
    """Whether dimensions come from examples only, so that another shape may be stated."""

    def __init__(
        self, name: str, signature: Signature, *, parameters: int = 0, path: Path | None = None
    ) -> None:
        self.name = name
        self.signature = signature
        self.parameters = parameters
        self.path = path

    def bounds(self) -> Mapping[str, tuple[int, int]]:
        """Inclusive ranges of integer inputs that index a table, as far as the network shows them."""
        return {}

    def compared(self, a: Network, b: Network) -> StructureDiff | None:
        """Compare two networks, one of which is this one; None: compare their layers instead."""
        return None

    def with_shapes(self: Self, shapes: Mapping[str, Iterable[int]]) -> Self:
        """The same network with these input shapes in its signature."""
        if not shapes:
            return self
        changed = copy.copy(self)
        changed.signature = apply_shapes(self.signature, shapes, force=self.shapes_are_free)
        return changed

    def with_example(self: Self, sample: Any) -> Self:
        """A copy that takes inputs of a sample's structure, if the network needs an example; None changes nothing."""
        return self

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} ({self.format}, {self.parameters} parameters)>"
