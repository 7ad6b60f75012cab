"""Two files with the same layers whose numbers differ, though no run shows it: the data does not reach the place."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from twinnet.result import Fact, Guard, fact

if TYPE_CHECKING:
    from twinnet.layers.graph import Graph, Layer

__all__ = ["files_differ"]

_SHOWN = 3

_ROUNDED = 2.0**-18
"""Numbers that were computed on the way may be off by this share of their mean size."""

_MASKED = 1e4
"""Numbers beyond this are what masks are made of: any of them says the same."""


def files_differ(ours: Graph | None, theirs: Graph | None) -> list[Guard]:
    """Numbers that the twin's file holds otherwise than the network, although every layer is the same.

    Nothing is said where layers differ: a fusion or a folded constant changes numbers rightly.
    """
    if ours is None or theirs is None or len(ours) != len(theirs):
        return []
    from twinnet.pairing.layers import LayerMatch

    partner = LayerMatch(ours, theirs).partner
    pairs = [(ours.layers[i], theirs.layers[j]) for i, j in partner.items()]
    if len(pairs) < len(ours) or any(not _alike(a, b, ours, theirs) for a, b in pairs):
        return []
    told = [change for a, b in pairs for change in (*_attributes(a, b), *_weights(a, b, ours, theirs))]
    if not told:
        return []
    said = fact("files.differ", changes=tuple(told[:_SHOWN]), more=max(len(told) - _SHOWN, 0))
    return [Guard("structure", said, weakens=True)]


def _alike(a: Layer, b: Layer, ours: Graph, theirs: Graph) -> bool:
    """Whether two layers are of one kind and have constants of the same shapes in the same places."""
    if a.kind != b.kind or len(a.inputs) != len(b.inputs):
        return False
    for mine, yours in zip(a.inputs, b.inputs, strict=True):
        x, y = ours.constants.get(mine or ""), theirs.constants.get(yours or "")
        if (x is None) != (y is None) or (x is not None and y is not None and x.shape != y.shape):
            return False
    return True


def _attributes(a: Layer, b: Layer) -> Iterator[Fact]:
    for name, mine in a.attrs.items():
        yours = b.attrs.get(name)
        if not (isinstance(mine, float) and isinstance(yours, float)):
            continue
        if not math.isclose(mine, yours, rel_tol=_ROUNDED) and mine == mine:
            yield fact("files.attribute", layer=a.label, name=name, network=mine, twin=yours)


def _weights(a: Layer, b: Layer, ours: Graph, theirs: Graph) -> Iterator[Fact]:
    for mine, yours in zip(a.inputs, b.inputs, strict=True):
        x, y = ours.constants.get(mine or ""), theirs.constants.get(yours or "")
        if x is None or y is None or not (x.is_floating_point() and y.is_floating_point()) or not x.numel():
            continue  # whole numbers are shapes and axes, which can be said in several ways
        x, y = x.double(), y.double()
        masks = (x.abs() > _MASKED) & (y.abs() > _MASKED) & (x.sign() == y.sign())
        usual = float(x[x.abs() <= _MASKED].abs().sum()) / x.numel()
        count = int(((x != y) & ~masks & ~((x - y).abs() <= _ROUNDED * usual)).sum())
        if count:
            yield fact("files.weight", layer=a.label, count=count, elements=x.numel())
