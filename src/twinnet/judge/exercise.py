"""Which sides of a graph's bounds and branches the data reaches: a fault beyond the others cannot show.

Pictures in [0,1] never reach the lower side of a ReLU or a clip on the input, and a branch that is not taken computes
nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from twinnet.judge.bounds import Side, sides_of
from twinnet.layers.graph import Graph, Layer
from twinnet.result import Fact, fact
from twinnet.trace import TraceBuilder

__all__ = ["Exercise", "Seeing"]


@dataclass(slots=True)
class _Rows:
    """A learned table, the tensor that holds its indices, and which rows were read."""

    layer: Layer
    tensor: str
    read: np.ndarray


class Exercise:
    """The sides of all bounds of a graph, and the rows of its tables, crossed off as samples reach them.

    `observable` are the tensors that can be seen, if not all: an activation may be fused with what it reads. `widest`
    is the largest bound that counts; formats have bounds of their own.
    """

    def __init__(
        self, graph: Graph, observable: Collection[str] | None = None, *, widest: float = np.inf
    ) -> None:
        makers = {name: layer for layer in graph for name in layer.outputs}
        sides = (side for layer in graph for side in sides_of(layer, graph, makers))
        self._missing = [_seen_behind(side, observable) for side in sides if abs(side.bound) < widest]
        self._tables = [table for layer in graph if (table := _table(layer, graph)) is not None]

    @property
    def tensors(self) -> frozenset[str]:
        """Tensors of which some side has not been reached yet."""
        return frozenset(side.tensor for side in self._missing)

    def beyond(self, other: Exercise) -> tuple[Fact, ...]:
        """The sides that no sample has reached, without those that `other` misses as well."""
        known, found = Counter(side.like for side in other._missing), []
        for side in self._missing:
            if known[side.like]:
                known[side.like] -= 1
            else:
                found.append(_told(side))
        return tuple(found)

    @property
    def missing(self) -> tuple[Fact, ...]:
        """The sides that no sample has reached."""
        rows = tuple(
            fact("exercise.rows", layer=t.layer.label, read=int(t.read.sum()), rows=t.read.size)
            for t in self._tables
            if t.read.any() and not t.read.all()
        )
        return rows + tuple(map(_told, self._missing))

    def see(self, values: Mapping[str, np.ndarray]) -> bool:
        """Cross off what these tensors reach; whether a bound was."""
        for table in self._tables:
            if table.tensor in values:
                table.read[np.asarray(values[table.tensor]).reshape(-1) % table.read.size] = True
        wanted = {name: values[name] for name in self.tensors if name in values}
        if not wanted:
            return False
        left = [s for s in self._missing if s.tensor not in wanted or not s.reached(wanted[s.tensor])]
        reached = len(left) < len(self._missing)
        self._missing = left
        return reached


class Seeing(TraceBuilder):
    """Shows every tensor of a run to an exercise, and keeps none."""

    def __init__(self, exercise: Exercise) -> None:
        super().__init__()
        self._exercise = exercise
        self.reached = False

    def add(self, name: str, array: np.ndarray) -> None:
        self.reached |= self._exercise.see({name: array})


def _told(side: Side) -> Fact:
    layer, place = side.layer, {"source": side.layer.source} if side.layer.source else {}
    return fact(
        "exercise.side", layer=layer.label, kind=layer.kind, side=side.code, bound=side.bound, **place
    )


def _seen_behind(side: Side, observable: Collection[str] | None) -> Side:
    """The side as the layer's output shows it, where its input cannot be seen: what is bounded lies at the bound."""
    made, bound = side.layer.outputs[0], side.bound
    if observable is None or side.tensor in observable or made not in observable:
        return side
    if side.layer.kind not in ("clip", "relu", "max", "min"):
        return side
    at_bound = side.layer.kind == "clip" or side.code == ("above" if side.layer.kind == "min" else "below")
    shows = (lambda array: bool((array == bound).any())) if at_bound else side.reached
    return replace(side, tensor=made, reached=shows)


def _table(layer: Layer, graph: Graph) -> _Rows | None:
    if layer.kind != "gather" or len(layer.inputs) < 2:
        return None
    table, indices = layer.inputs[:2]
    if table is None or table not in graph.constants or indices is None or indices in graph.constants:
        return None
    shape = tuple(graph.constants[table].shape)
    axis = int(layer.attrs.get("axis", 0))
    return _Rows(layer, indices, np.zeros(shape[axis], bool)) if shape and shape[axis] > 1 else None
