"""Evaluate canonical layers in float64."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from twinnet.errors import EngineError
from twinnet.layers.graph import Graph, Layer
from twinnet.layers.threads import few_threads

if TYPE_CHECKING:
    import torch

__all__ = ["evaluate"]


def evaluate(
    graph: Graph,
    values: Mapping[str, torch.Tensor],
    *,
    layers: Sequence[int] | None = None,
    keep: Iterable[str] | None = None,
    widen: bool = True,
    flush: float = 0.0,
) -> dict[str, torch.Tensor]:
    """Compute values in float64 from `values`, with `layers` only (default: all); return `keep` (default: the
    outputs).

    Floats become float64 and complex numbers complex128; integers and booleans keep their type. A value is dropped
    after its last use unless it is in `keep`. A given value is used as it is, even if a layer could compute it.
    Without `widen` values keep their type: enough for layers that only move them, and comparable bit by bit.
    With `flush`, numbers below it become 0, as in engines that compute without subnormal numbers.

    >>> import torch
    >>> graph = Graph((Layer("relu", ("x",), ("y",)), Layer("neg", ("y",), ("z",))), ("x",), ("z",))
    >>> evaluate(graph, {"x": torch.tensor([-1.0, 2.0])}, keep=["y"])
    {'y': tensor([0., 2.], dtype=torch.float64)}
    """
    walk = Walk(graph, values, layers, keep, raw=not widen)
    with few_threads(values):
        for layer, kind, inputs in walk:
            if flush:
                inputs = tuple(_flushed(x, flush) for x in inputs)
            walk.give(layer, run(layer, kind, inputs, widen))
    return {name: walk.known[name] for name in walk.keep}


# ---- the walk ------------------------------------------------------------------------------------


class Walk:
    """Iterates over the layers with their inputs; keeps each value until its last use.

    Given values and constants are converted to float64, unless `raw`.
    """

    def __init__(
        self,
        graph: Graph,
        values: Mapping[str, torch.Tensor],
        layers: Sequence[int] | None,
        keep: Iterable[str] | None,
        raw: bool = False,
    ) -> None:
        self.graph = graph
        self.raw = raw
        self.order = range(len(graph.layers)) if layers is None else sorted(layers)
        self.keep = tuple(dict.fromkeys(graph.outputs if keep is None else keep))
        self.given = values
        self.known: dict[str, Any] = {}
        self.uses: dict[str, int] = {}
        for i in self.order:
            for name in graph.layers[i].inputs:
                if name is not None:
                    self.uses[name] = self.uses.get(name, 0) + 1
        for name in self.keep:
            self.uses[name] = self.uses.get(name, 0) + 1
        self.dead: list[str] = []

    def __iter__(self) -> Iterator[tuple[Layer, Any, tuple[Any, ...]]]:
        from twinnet.layers import kinds

        for i in self.order:
            layer = self.graph.layers[i]
            if all(not name or name in self.given for name in layer.outputs):
                self._used(layer)
                continue
            inputs = tuple(None if name is None else self._value(name, layer) for name in layer.inputs)
            yield layer, kinds.get(layer.kind), inputs
            self._used(layer)
        for name in self.keep:
            if name not in self.known:
                self.known[name] = self._value(name, None)

    def _value(self, name: str, layer: Layer | None) -> Any:
        if name in self.known:
            return self.known[name]
        if name in self.given:
            value = self.given[name]
        elif name in self.graph.constants:
            value = self.graph.constants[name]
        else:
            reader = f"layer {layer.node or layer.kind}" if layer else "the caller"
            raise EngineError(
                f"value {name!r}, needed by {reader}, is neither given nor computed", stage="evaluate"
            )
        value = value if self.raw else wide(value)
        self.known[name] = value
        return value

    def give(self, layer: Layer, outputs: tuple[Any, ...]) -> None:
        for name, value in zip(layer.outputs, outputs):
            if name and self.uses.get(name):
                self.known.setdefault(name, value)

    def _used(self, layer: Layer) -> None:
        for name in layer.inputs:
            if name is not None:
                self.uses[name] -= 1
                if not self.uses[name]:
                    self.known.pop(name, None)
                    self.dead.append(name)

    def forget(self, bounds: dict[str, Any]) -> None:
        """Drop the bounds of values that are gone."""
        for name in self.dead:
            bounds.pop(name, None)
        self.dead.clear()


def wide(value: Any) -> Any:
    import torch

    if not isinstance(value, torch.Tensor):
        return value
    if value.is_complex():
        return value.to(torch.complex128)
    return value.to(torch.float64) if value.is_floating_point() else value


def _flushed(value: Any, flush: float) -> Any:
    import torch

    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    return torch.where(value.abs() < flush, 0.0, value)


def run(layer: Layer, kind: Any, inputs: tuple[Any, ...], widen: bool = True) -> tuple[Any, ...]:
    import torch

    try:
        with torch.no_grad():
            outputs = kind.evaluate(layer.attrs, *inputs)
    except (RuntimeError, ValueError, IndexError) as error:  # what torch raises for operands that do not fit
        place = " ".join(p for p in (layer.op, layer.node and repr(layer.node)) if p) or layer.kind
        raise EngineError(
            f"layer {place} (kind {layer.kind}) could not be evaluated: {error}", stage="evaluate"
        ) from error
    outputs = outputs[: len(layer.outputs)]
    return tuple(wide(y) for y in outputs) if widen else tuple(outputs)


def bound_of(
    layer: Layer,
    kind: Any,
    inputs: tuple[Any, ...],
    errors: tuple[Any, ...],
    outputs: tuple[Any, ...],
    u: float,
) -> tuple[torch.Tensor | None, ...]:
    import torch

    from twinnet.layers.lines import lines_off

    with torch.no_grad():
        found = kind.error(layer.attrs, inputs, errors, outputs, u)
        if u and "lines" in layer.attrs:
            off = lines_off(kind, layer.attrs, inputs[0], outputs[0])
            found = (off if found[0] is None else found[0] + off, *found[1:])
        return tuple(clean(e, y) for e, y in zip(found, outputs))


def clean(e: torch.Tensor | None, y: Any) -> torch.Tensor | None:
    """Make a bound infinite where it is NaN, and 0 where the value is not finite: that is compared as a mask."""
    import torch

    if e is None or not e.numel() or torch.isfinite(e.sum()):
        return e
    e = torch.where(torch.isnan(e), float("inf"), e)
    if isinstance(y, torch.Tensor) and (y.is_floating_point() or y.is_complex()) and y.shape == e.shape:
        e = torch.where(torch.isfinite(y), e, 0.0)
    return e
