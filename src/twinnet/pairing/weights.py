"""Match the weights of a twin's segment with the network's, where the twin holds them rounded."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from twinnet.layers.graph import Graph, Layer

__all__ = ["WEIGHTED", "agreeing", "corresponding", "same_weights", "weighted_layers"]

WEIGHTED = {"conv", "conv_transpose", "matmul", "gemm", "linear"}
_MOST = 0.75
_SLACK = 1 + 2.0**-10  # a weight on a tie was divided in float32


def corresponding(
    ours: Graph, theirs: Sequence[Layer], names: Collection[str]
) -> Iterator[tuple[int, int, str]]:
    """(index of a layer in `ours`, place of an operand, name in the twin) of weights, where it is one of `names`.

    `ours` is the network's segment and `theirs` the twin's, both simplified: layers with weights correspond in order.
    """
    for i, other in weighted_layers(ours, theirs):
        for place, (name, twin) in enumerate(zip(ours.layers[i].inputs, other.inputs, strict=False)):
            if name is not None and twin is not None and name in ours.constants and twin in names:
                yield i, place, twin


def weighted_layers(ours: Graph, theirs: Sequence[Layer]) -> Iterator[tuple[int, Layer]]:
    """(index of a layer in `ours`, layer of the twin) with weights, in order; none if their kinds differ anywhere."""
    weighted = [i for i, layer in enumerate(ours.layers) if layer.kind in WEIGHTED]
    twins = [layer for layer in theirs if layer.kind in WEIGHTED]
    if [ours.layers[i].kind for i in weighted] == [layer.kind for layer in twins]:
        yield from zip(weighted, twins, strict=True)


def same_weights(
    ours: Graph, theirs: Sequence[Layer], constants: Mapping[str, Any], allowed: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """(name in `ours`, name in the twin) of weights that agree to within `allowed` in most of their elements.

    `allowed` is given by the twin's name.
    """
    for i, place, twin in corresponding(ours, theirs, allowed):
        name = ours.layers[i].inputs[place] or ""
        mine, other = ours.constants[name], constants[twin]
        if mine.shape == other.shape and float(agreeing(mine, other, allowed[twin]).double().mean()) > _MOST:
            yield name, twin


def agreeing(ours: Any, theirs: Any, allowed: Any) -> Any:
    """Where two weights agree to within what is allowed."""
    return (ours.double() - theirs.double()).abs() <= allowed.double() * _SLACK + 1e-30
