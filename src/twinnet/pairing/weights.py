"""Which weight of a twin's segment is which of the network's, where the twin holds it rounded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from twinnet.layers.graph import Graph, Layer

__all__ = ["agreeing", "same_weights"]

_WEIGHTED = {"conv", "conv_transpose", "matmul", "gemm", "linear"}
_MOST = 0.75
_SLACK = 1 + 2.0**-10  # a weight on a tie was divided in float32


def same_weights(
    ours: Graph, theirs: Sequence[Layer], constants: Mapping[str, Any], allowed: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """(name in `ours`, name in the twin) of weights that agree to within `allowed` in most of their elements.

    `allowed` is given by the twin's name. `ours` is the network's segment and `theirs` the twin's, both simplified:
    layers with weights correspond in order.
    """
    weighted = [layer for layer in ours if layer.kind in _WEIGHTED]
    twins = [layer for layer in theirs if layer.kind in _WEIGHTED]
    if [layer.kind for layer in weighted] != [layer.kind for layer in twins]:
        return
    for a, b in zip(weighted, twins, strict=True):
        for name, twin in zip(a.inputs, b.inputs, strict=False):
            if name is None or twin is None or name not in ours.constants or twin not in allowed:
                continue
            mine, other = ours.constants[name], constants[twin]
            if mine.shape != other.shape:
                continue
            if float(agreeing(mine, other, allowed[twin]).double().mean()) > _MOST:
                yield name, twin


def agreeing(ours: Any, theirs: Any, allowed: Any) -> Any:
    """Where two weights agree to within what is allowed."""
    return (ours.double() - theirs.double()).abs() <= allowed.double() * _SLACK + 1e-30
