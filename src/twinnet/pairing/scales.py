"""Pair across factors and summands: converters make a constant behind a layer with weights part of these.

`-conv(x)` may be a convolution with other weights. What is behind the constants is the same tensor in both; what is
between need not be anything that the other side has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from twinnet.layers.graph import Graph
from twinnet.layers.simplify import simplified, with_scales_folded
from twinnet.pairing.topology import apart_by, by_topology

__all__ = ["by_folded_scales", "scaled_otherwise"]

_SAME = 1e-3
"""Weights that are closer than this are the same, rounded."""


def by_folded_scales(graph: Graph, twin_graph: Graph, names: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Pairs of (network tensor, twin tensor) behind constants that scale or shift, if there are any."""
    if _between(graph) or _between(twin_graph):
        yield from by_topology(with_scales_folded(graph), with_scales_folded(twin_graph), names)


def scaled_otherwise(graph: Graph, twin_graph: Graph) -> set[str]:
    """Tensors of the twin between weights and a constant behind them, where the network has other weights there."""
    ours = list(_between(graph).values())
    return {
        name
        for name, held in _between(twin_graph).items()
        if not any(len(own) == len(held) and all(map(_alike, own, held)) for own in ours)
    }


def _between(graph: Graph) -> dict[str, list[Any]]:
    """The weights of layers whose result is only scaled or shifted, by the names of these results."""
    plain = simplified(graph)
    kept = {name for layer in with_scales_folded(graph) for name in layer.outputs}
    return {
        layer.outputs[0]: [plain.constants[n] for n in layer.inputs if n is not None and n in plain.constants]
        for layer in plain
        if layer.outputs[0] not in kept
    }


def _alike(ours: Any, theirs: Any) -> bool:
    return apart_by(ours, theirs) < _SAME
