"""Which sides of a graph's bounds and branches the data reaches: a fault beyond the others cannot show.

Pictures in [0,1] never reach the lower side of a ReLU or a clip on the input, and a branch that is not taken computes
nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from twinnet.layers.graph import Graph, Layer
from twinnet.result import Fact, fact
from twinnet.trace import TraceBuilder

__all__ = ["Exercise", "Seeing"]

_NEGATIVE = ("relu", "abs", "leaky_relu", "prelu", "elu", "celu", "selu", "shrink")
"""Kinds that treat numbers below and above 0 differently."""
_COMPARISONS = ("less", "less_equal", "greater", "greater_equal")


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a layer's bound: the tensor that must reach it, and how to tell that it does."""

    layer: Layer
    tensor: str
    code: str
    """below, above, true, false, halfway or masked."""
    bound: float
    reached: Callable[[np.ndarray], bool]

    @property
    def like(self) -> tuple[str, float]:
        """What it has in common with the same bound of another graph, whatever operator sets it there."""
        return self.code, float(np.float32(self.bound))


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
        sides = (side for layer in graph for side in _sides(layer, graph, makers))
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


def _told(side: _Side) -> Fact:
    layer, place = side.layer, {"source": side.layer.source} if side.layer.source else {}
    return fact(
        "exercise.side", layer=layer.label, kind=layer.kind, side=side.code, bound=side.bound, **place
    )


def _seen_behind(side: _Side, observable: Collection[str] | None) -> _Side:
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


def _sides(layer: Layer, graph: Graph, makers: Mapping[str, Layer]) -> Iterable[_Side]:
    tensor = layer.inputs[0] if layer.inputs else None
    if layer.kind in ("max", "min", *_COMPARISONS):
        return _beside_constant(layer, graph, makers)
    if tensor is None or tensor in graph.constants:
        return ()
    if layer.kind in _NEGATIVE:
        return _around(layer, tensor, 0.0, 0.0)
    if layer.kind in ("mod", "floor", "ceil", "trunc") or (
        layer.kind == "div" and layer.attrs.get("rounding")
    ):
        return _around(layer, tensor, 0.0, None)
    if layer.kind == "pow" and _odd(_number(graph, layer.inputs[1], makers)):
        return _around(layer, tensor, 0.0, None)
    if layer.kind == "cast" and _to_whole(layer, graph):
        return _around(layer, tensor, 0.0, None)
    if layer.kind == "attention" and layer.attrs.get("is_causal"):
        return (_Side(layer, tensor, "masked", 0.0, lambda array: array.ndim > 1 and array.shape[-2] > 1),)
    if layer.kind == "round":
        return (_Side(layer, tensor, "halfway", 0.0, lambda array: bool((array % 1 == 0.5).any())),)
    if layer.kind == "thresholded_relu":
        at = float(layer.attrs.get("alpha", 1.0))
        return _around(layer, tensor, at, at)
    if layer.kind == "hard_swish":
        return _around(layer, tensor, -3.0, 3.0)
    if layer.kind == "hard_sigmoid":
        alpha, beta = float(layer.attrs.get("alpha", 0.2)), float(layer.attrs.get("beta", 0.5))
        return _around(layer, tensor, -beta / alpha, (1 - beta) / alpha) if alpha else ()
    if layer.kind == "clip":
        return _around(layer, tensor, _limit(layer, graph, "min", 1), _limit(layer, graph, "max", 2))
    if layer.kind == "grid_sample" and layer.inputs[1] is not None and layer.inputs[1] not in graph.constants:
        return _around(layer, layer.inputs[1], -1.0, 1.0)
    if layer.kind in ("where", "if"):
        if tensor in makers and _beside_constant(makers[tensor], graph, makers):
            return ()  # the comparison that decides it is listed itself
        return tuple(
            _Side(layer, tensor, code, 0.0, lambda array, to=to: bool((array.astype(bool) == to).any()))
            for code, to in (("true", True), ("false", False))
        )
    return ()


def _beside_constant(layer: Layer, graph: Graph, makers: Mapping[str, Layer]) -> tuple[_Side, ...]:
    """Both sides of the number that a tensor is compared with, or that bounds it."""
    if layer.kind not in ("max", "min", *_COMPARISONS) or len(layer.inputs) != 2:
        return ()
    for tensor, other in (layer.inputs, layer.inputs[::-1]):
        at = _number(graph, other, makers)
        if at is not None and tensor is not None and tensor not in graph.constants:
            return _around(layer, tensor, at, at)
    return ()


def _number(graph: Graph, name: str | None, makers: Mapping[str, Layer]) -> float | None:
    """The value of a constant that is one number, whatever its shape, or of a copy of it; None otherwise."""
    while name is not None and name in makers and makers[name].kind == "identity":
        name = makers[name].inputs[0]
    held: Any = graph.constants.get(name or "")
    return float(held) if held is not None and held.numel() == 1 and not held.is_complex() else None


def _odd(exponent: float | None) -> bool:
    """Whether a power has the sign of its base."""
    return exponent is not None and exponent % 2 == 1


def _to_whole(layer: Layer, graph: Graph) -> bool:
    """Whether numbers with decimals become whole ones: below 0 some engines round down, others towards 0."""
    given, made = (graph.dtypes.get(n or "") for n in (layer.inputs[0], layer.outputs[0]))
    return given is not None and made is not None and given.is_floating_point and not made.is_floating_point


def _around(layer: Layer, tensor: str, low: float | None, high: float | None) -> tuple[_Side, ...]:
    found = []
    if low is not None and np.isfinite(low):
        found.append(_Side(layer, tensor, "below", low, lambda array: bool((array < low).any())))
    if high is not None and np.isfinite(high):
        found.append(_Side(layer, tensor, "above", high, lambda array: bool((array > high).any())))
    return tuple(found)


def _limit(layer: Layer, graph: Graph, name: str, position: int) -> float | None:
    """A bound of a clip that is one number and known; None otherwise."""
    given: Any = layer.attrs.get(name)
    if given is None and len(layer.inputs) > position and layer.inputs[position] is not None:
        given = graph.constants.get(str(layer.inputs[position]))
    if given is None:
        return None
    return float(given) if getattr(given, "numel", lambda: 1)() == 1 else None
