"""The noise floor of one segment, evaluated on a twin's own tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from twinnet.layers._blocks import BLOCK, blocks, part
from twinnet.layers.evaluate import Walk, bound_of, run, wide
from twinnet.layers.graph import Graph, Layer
from twinnet.layers.threads import few_threads

if TYPE_CHECKING:
    import torch

__all__ = ["Floor", "Visit", "evaluate_with_floor"]

Visit = Callable[[str, int, int, "torch.Tensor", "torch.Tensor | None"], None]


@dataclass(frozen=True, slots=True)
class Floor:
    """A value in float64, how far rounding may move it, and what of that later segments may inherit.

    `bound` holds the segment's own rounding and what its inputs were allowed. `carry` is the own rounding
    only, or, behind layers that merely move values, what their input was allowed. None means exact. `value`
    and `bound` are None where they were only shown to a visitor.
    """

    value: torch.Tensor | None
    bound: torch.Tensor | None
    carry: torch.Tensor | None


def evaluate_with_floor(
    graph: Graph,
    values: Mapping[str, torch.Tensor],
    carry: Mapping[str, torch.Tensor | None],
    *,
    unit: float,
    layers: Sequence[int] | None = None,
    keep: Iterable[str] | None = None,
    visit: Visit | None = None,
) -> dict[str, Floor]:
    """One segment on a twin's tensors: its result, the bound to judge by, and the bound to hand on.

    `carry` holds, for each given value, the `Floor.carry` of the segment that made it. Carrying goes one
    level: the bound handed on leaves out what was inherited, except behind layers that only move values.

    With `visit`, values of `keep` are not returned but shown piece by piece while they are in the cache, as
    `visit(name, start, stop, value, bound)`: flat pieces of the result and of its bound (None: exact).
    Judging that way takes a fraction of the time and memory.

    >>> import torch
    >>> graph = Graph((Layer("mul", ("x", "x"), ("y",)),), ("x",), ("y",))
    >>> x, off = torch.tensor([3.0]), torch.tensor([1e-6])
    >>> floor = evaluate_with_floor(graph, {"x": x}, {"x": off}, unit=2.0**-24)["y"]
    >>> floor.value.item(), round(floor.bound.item() * 1e6, 2), round(floor.carry.item() * 1e6, 2)
    (9.0, 6.54, 0.54)
    """
    return bounded(graph, values, carry, unit=unit, layers=layers, keep=keep, visit=visit, one_level=True)


def bounded(
    graph: Graph,
    values: Mapping[str, torch.Tensor],
    errors: Mapping[str, torch.Tensor | None],
    *,
    unit: float,
    layers: Sequence[int] | None = None,
    keep: Iterable[str] | None = None,
    visit: Visit | None = None,
    one_level: bool = False,
) -> dict[str, Floor]:
    """The walk behind `evaluate_with_error` and, with `one_level`, behind `evaluate_with_floor`."""
    walk = Walk(graph, values, layers, keep, raw=True)
    given = {n: e for n, e in errors.items() if e is not None}
    state = _State(unit, given, set(given) if one_level else set())
    shown: set[str] = set()
    with few_threads(values):
        for layer, kind, inputs in walk:
            shape = _common_shape(kind, layer, inputs)
            if shape is not None:
                _by_blocks(walk, state, layer, kind, inputs, shape, visit, shown)
            else:
                _whole(walk, state, layer, kind, tuple(wide(x) for x in inputs), visit, shown)
            walk.forget(state.bounds, state.carries)
    result = {}
    for name in walk.keep:
        value = None if name in shown else wide(walk.known[name])
        bound = None if name in shown else state.bounds.get(name)
        result[name] = Floor(value, bound, state.carries.get(name))
    return result


class _State:
    """Bounds of the values so far: the whole, what is handed on, and which come from other segments."""

    def __init__(self, unit: float, carry: dict[str, Any], foreign: set[str]) -> None:
        self.unit = unit
        self.bounds: dict[str, Any] = dict(carry)
        self.carries: dict[str, Any] = dict(carry)
        self.foreign = foreign

    def given(self, layer: Layer, kind: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Errors of a layer's inputs: all of them, and those that its result hands on."""
        names = layer.inputs
        every = tuple(self.bounds.get(n) if n is not None else None for n in names)
        handed = tuple(
            None if n is None or (n in self.foreign and not kind.exact) else self.carries.get(n)
            for n in names
        )
        return every, handed

    def learn(self, layer: Layer, kind: Any) -> None:
        """Values that were only moved keep their origin."""
        names = [n for n in layer.inputs if n is not None and self.carries.get(n) is not None]
        if kind.exact and names and all(n in self.foreign for n in names):
            self.foreign.update(n for n in layer.outputs if n)

    def of(
        self, layer: Layer, kind: Any, inputs: Any, every: Any, handed: Any, outputs: Any
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Bounds of a layer's outputs, whole and handed on."""
        carries = bound_of(layer, kind, inputs, handed, outputs, self.unit)
        if all(a is b for a, b in zip(every, handed)):
            return carries, carries
        if kind.discrete or kind.exact or any(e is not None for e in handed):
            return bound_of(layer, kind, inputs, every, outputs, self.unit), carries
        # its own part is known already: add the inherited part only
        extra = bound_of(layer, kind, inputs, every, outputs, 0.0)
        return tuple(b if a is None else a if b is None else a + b for a, b in zip(carries, extra)), carries


def _common_shape(kind: Any, layer: Layer, inputs: tuple[Any, ...]) -> tuple[int, ...] | None:
    """The broadcast shape of a large elementwise layer; None for everything else."""
    import torch

    if not kind.elementwise or len(layer.outputs) != 1:
        return None
    tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
    if (
        not tensors
        or max(x.numel() for x in tensors) <= BLOCK
        or len(tensors) != sum(x is not None for x in inputs)
    ):
        return None
    # torch.broadcast_shapes says the same, but imports sympy for it.
    return np.broadcast_shapes(*(tuple(x.shape) for x in tensors))


def _show(visit: Visit, name: str, value: Any, bound: Any) -> None:
    flat = value.reshape(-1)
    e = None if bound is None else bound.reshape(-1)
    for start in range(0, max(flat.numel(), 1), BLOCK):
        stop = min(start + BLOCK, flat.numel())
        visit(name, start, stop, flat[start:stop], None if e is None else e[start:stop])


def _whole(
    walk: Walk, state: _State, layer: Layer, kind: Any, inputs: Any, visit: Visit | None, shown: set[str]
) -> None:
    import torch

    outputs = run(layer, kind, inputs)
    every, handed = state.given(layer, kind)
    bounds, carries = state.of(layer, kind, inputs, every, handed, outputs)
    state.learn(layer, kind)
    walk.give(layer, outputs)
    for name, value, bound, carry in zip(layer.outputs, outputs, bounds, carries):
        if not name or name not in walk.known:
            continue
        state.bounds[name], state.carries[name] = bound, carry
        if visit is not None and name in walk.keep and isinstance(value, torch.Tensor):
            _show(visit, name, value, bound)
            shown.add(name)


def _by_blocks(
    walk: Walk,
    state: _State,
    layer: Layer,
    kind: Any,
    inputs: Any,
    shape: tuple[int, ...],
    visit: Visit | None,
    shown: set[str],
) -> None:
    import torch

    name = layer.outputs[0]
    show = visit is not None and name in walk.keep
    later = walk.uses.get(name, 0) - (1 if show else 0) > 0  # somebody needs the whole tensors
    every, handed = state.given(layer, kind)
    same = all(a is b for a, b in zip(every, handed))
    value = bound = carry = None
    for start, stop, where in blocks(shape):
        pieces = tuple(wide(part(x, where)) for x in inputs)
        e_every = tuple(part(e, where) for e in every)
        e_handed = e_every if same else tuple(part(e, where) for e in handed)
        (y,) = run(layer, kind, pieces)
        (b,), (c,) = state.of(layer, kind, pieces, e_every, e_handed, (y,))
        if show and visit is not None:
            visit(name, start, stop, y.reshape(-1), None if b is None else b.reshape(-1))
        if later:
            value = torch.empty(shape, dtype=y.dtype) if value is None else value
            value.reshape(-1)[start:stop] = y.reshape(-1)
            if not same:
                bound = _put(bound, b, shape, start, stop)
        carry = _put(carry, c, shape, start, stop)
    state.learn(layer, kind)
    if later:
        walk.give(layer, (value,))
        state.bounds[name] = carry if same else bound
    state.carries[name] = carry
    if show:
        shown.add(name)
        walk.known.setdefault(name, value)


def _put(whole: Any, piece: Any, shape: tuple[int, ...], start: int, stop: int) -> Any:
    import torch

    if piece is None and whole is None:
        return None
    if whole is None:
        whole = torch.empty(shape, dtype=torch.float32)
        whole.reshape(-1)[:start] = 0.0
    flat = whole.reshape(-1)
    if piece is None:
        flat[start:stop] = 0.0
    else:
        flat[start:stop].view(piece.shape).copy_(piece)
    return whole
