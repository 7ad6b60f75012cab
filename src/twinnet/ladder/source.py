"""Where the rungs of a network come from: places to cut it, and the cuts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from twinnet.cutting import Cut, graph_cutter_for
from twinnet.errors import UsageError
from twinnet.job import Arrays
from twinnet.network import ModuleNetwork, Network

__all__ = ["MOST", "Place", "Source", "source_of"]

MOST = 40
"""Rungs of one ladder; a longer one is climbed in two steps."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place to cut at: the end of a block. `parameters` are those up to here and of the block, `ops` as in `Rung`."""

    name: str
    kind: str
    parameters: int
    own: int
    ops: tuple[str, ...]


class Source(ABC):
    """A network and the places where it can be cut, from the bottom up; the last one is its end."""

    network: Network
    samples: Sequence[Arrays]

    @cached_property
    def places(self) -> Sequence[Place]:
        """The rungs."""
        return tuple(self._places())

    @abstractmethod
    def _places(self) -> Iterable[Place]: ...

    @abstractmethod
    def prefix(self, index: int) -> Cut:
        """Everything up to the end of a place."""

    @abstractmethod
    def block(self, index: int) -> Cut | None:
        """A place alone, on the inputs it has in the network; None if it cannot be run alone."""

    def starts_at(self, index: int) -> bool:
        """Whether nothing comes before a place, so that its prefix is the place alone."""
        return False

    def inside(self, index: int, block: Cut) -> Source | None:
        """The ladder inside a block; None if there is nothing to cut."""
        made = source_of(block.network, block.samples)
        return made if len(made.places) > 1 else None

    def index_of(self, module: str) -> int | None:
        """The place that a module belongs to."""
        return None


def source_of(network: Network, samples: Sequence[Arrays], at: Sequence[str] = ()) -> Source:
    """The ladder of a network; `at` are patterns of names to cut at, in place of the natural ones."""
    cutter = graph_cutter_for(network)
    if cutter is not None:
        from twinnet.ladder.graph_source import GraphSource

        return GraphSource(network, cutter, samples, at)
    if isinstance(network, ModuleNetwork):
        from twinnet.ladder.torch_source import TorchSource

        return TorchSource(network, samples, at)
    raise UsageError(f"a network of format {network.format} cannot be cut")
