"""Evaluate canonical layers in float64 together with a bound on what rounding may change: the noise floor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from twinnet.layers._blocks import BLOCK, blocks, part
from twinnet.layers.evaluate import Walk, bound_of, run, wide
from twinnet.layers.graph import Graph, Layer
from twinnet.layers.threads import few_threads

if TYPE_CHECKING:
    import torch

__all__ = ["evaluate_with_error"]


def evaluate_with_error(
    graph: Graph,
    values: Mapping[str, torch.Tensor],
    errors: Mapping[str, torch.Tensor],
    *,
    unit: float,
    layers: Sequence[int] | None = None,
    keep: Iterable[str] | None = None,
    flush: float = 0.0,
) -> dict[str, tuple[torch.Tensor, torch.Tensor | None]]:
    """Like `evaluate`, with an elementwise bound of the rounding error (a float32 tensor, or None for exact).

    `errors` are bounds on the given values (a missing one is exact); `unit` is the unit roundoff of the arithmetic
    to allow for (2^-24 for float32). The bound is 0 where a value is NaN or infinite: those must match as they are.
    Operands smaller than `flush` may be read as 0.

    >>> import torch
    >>> graph = Graph((Layer("mul", ("x", "x"), ("y",)),), ("x",), ("y",))
    >>> value, bound = evaluate_with_error(graph, {"x": torch.tensor([3.0])}, {}, unit=2.0**-24)["y"]
    >>> bool(bound == 9 * 2.0**-24)
    True
    """
    walk = Walk(graph, values, layers, keep, raw=True)
    bounds: dict[str, Any] = dict(errors)
    with few_threads(values):
        for layer, kind, inputs in walk:
            given = tuple(None if n is None else bounds.get(n) for n in layer.inputs)
            if flush:
                given = tuple(_flushed(x, e, flush) for x, e in zip(inputs, given))
            shape = _common_shape(kind, layer, inputs)
            if shape is not None:
                outputs, found = _by_blocks(layer, kind, inputs, given, shape, unit)
            else:
                inputs = tuple(wide(x) for x in inputs)
                outputs = run(layer, kind, inputs)
                found = bound_of(layer, kind, inputs, given, outputs, unit)
            walk.give(layer, outputs)
            bounds.update({name: e for name, e in zip(layer.outputs, found) if name in walk.known})
            walk.forget(bounds)
    return {name: (wide(walk.known[name]), bounds.get(name)) for name in walk.keep}


def _flushed(value: Any, bound: torch.Tensor | None, flush: float) -> torch.Tensor | None:
    """The bound of an operand whose smallest elements may be read as 0."""
    import torch

    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return bound
    size = value.to(torch.float64).abs()
    small = (size < flush) & (size > 0)
    if not bool(small.any()):
        return bound
    # A bound is a float32 itself: a whole `flush` is the least that is safe from being flushed.
    lost = torch.where(small, flush, 0.0).to(torch.float32)
    return lost if bound is None else lost + bound


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


def _by_blocks(
    layer: Layer, kind: Any, inputs: Any, errors: Any, shape: tuple[int, ...], unit: float
) -> tuple[tuple[torch.Tensor], tuple[torch.Tensor | None]]:
    """The one output of an elementwise layer and its bound, computed piece by piece."""
    import torch

    value = bound = None
    for start, stop, where in blocks(shape):
        pieces = tuple(wide(part(x, where)) for x in inputs)
        (y,) = run(layer, kind, pieces)
        (e,) = bound_of(layer, kind, pieces, tuple(part(e, where) for e in errors), (y,), unit)
        value = torch.empty(shape, dtype=y.dtype) if value is None else value
        value.reshape(-1)[start:stop] = y.reshape(-1)
        if e is not None:
            bound = torch.zeros(shape, dtype=torch.float32) if bound is None else bound
            bound.reshape(-1)[start:stop].view(e.shape).copy_(e)
    assert value is not None
    return (value,), (bound,)
