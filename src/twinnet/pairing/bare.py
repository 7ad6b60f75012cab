"""Pair by structure across layouts: what only moves axes is left out on both sides.

A converter may turn images between channels first and channels last wherever it likes, and add and drop axes of size 1.
Without these steps the same operators follow each other in both graphs. How a pair's axes correspond is settled by its
values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from twinnet.layers.graph import Graph, Layer
from twinnet.layers.simplify import simplified
from twinnet.pairing.quantised import folded, unquantised
from twinnet.pairing.topology import by_topology

__all__ = ["by_bare_layers"]

_TURNS = {"transpose", "squeeze", "unsqueeze", "identity"}
_MOVES = {"reshape", "flatten", "pad", "slice", "tile", "expand", "resize", "clip"}


def by_bare_layers(graph: Graph, twin_graph: Graph, names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Pairs of (network tensor, twin tensor) that operators give, seen from the pairs in `names` (twin to network)."""
    ours, our_roots = _bare(simplified(graph))
    rounded, steps = unquantised(folded(twin_graph))
    theirs, their_roots = _bare(simplified(rounded))
    roots = {**{n: their_roots.get(r, r) for n, r in steps.items()}, **their_roots}
    known: dict[str, str] = {}
    for twin, tensor in names.items():
        known.setdefault(roots.get(twin, twin), our_roots.get(tensor, tensor))
    yield from by_topology(ours, theirs, known, strict=True)


def _bare(graph: Graph) -> tuple[Graph, dict[str, str]]:
    """The graph without layers that only move axes, and what each value was that they made."""
    roots: dict[str, str] = {}
    layers: list[Layer] = []
    for layer in graph:
        inputs = tuple(n if n is None else roots.get(n, n) for n in layer.inputs)
        source = inputs[0] if inputs else None
        if source is not None and source not in graph.constants and _turns(layer, graph):
            roots[layer.outputs[0]] = source
        else:
            layers.append(_plain(replace(layer, inputs=inputs), graph))
    return replace(graph, layers=tuple(layers)), roots


def _plain(layer: Layer, graph: Graph) -> Layer:
    """A layer without operands that one format writes as attributes, and another as constants."""
    if layer.kind not in _MOVES or any(n is not None and n not in graph.constants for n in layer.inputs[1:]):
        return layer
    mode = f" {layer.attrs.get('mode', 'constant')}" if layer.kind == "pad" else ""
    return replace(layer, kind=f"{layer.kind}{mode}", inputs=layer.inputs[:1])


def _turns(layer: Layer, graph: Graph) -> bool:
    if layer.kind in _TURNS:
        return True
    if layer.kind not in ("reshape", "flatten"):
        return False
    before, after = graph.shapes.get(layer.inputs[0] or ""), graph.shapes.get(layer.outputs[0])
    if after is None:
        given = graph.constants.get(layer.inputs[1] or "") if len(layer.inputs) > 1 else None
        after = layer.attrs.get("shape") if given is None else tuple(int(n) for n in given.flatten())
    if before is None or after is None:
        return False
    ours, theirs = ([n for n in shape if n != 1] for shape in (before, after))
    # A size that is not fixed may be 1 as well.
    return ours == theirs or _fixed(ours) == _fixed(theirs)


def _fixed(sizes: list[int | str]) -> list[int]:
    return [n for n in sizes if isinstance(n, int) and n > 0]
