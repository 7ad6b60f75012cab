"""Match the layers of two graphs and compare their attributes and weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from twinnet.layers.graph import Graph, Layer
from twinnet.pairing.layers import LayerMatch
from twinnet.result import Fact, fact
from twinnet.signature import dims
from twinnet.structure.change import Change, StructureDiff
from twinnet.structure.names import op_of, place_of

if TYPE_CHECKING:
    import torch

__all__ = ["compare_graphs", "not_the_same"]

_FOLDED = 2.0**-18
_SHOWN = 3
_OPERANDS: Mapping[str, tuple[str, ...]] = {
    "conv": ("input", "weight", "bias"),
    "conv_transpose": ("input", "weight", "bias"),
    "linear": ("input", "weight", "bias"),
    "gemm": ("a", "b", "c"),
    "batch_norm": ("input", "scale", "bias", "mean", "variance"),
    "layer_norm": ("input", "scale", "bias"),
}


def compare_graphs(a: Graph, b: Graph) -> StructureDiff:
    """Match the layers of two graphs, then compare attributes and weights of those that match.

    >>> one = Graph((Layer("relu", ("x",), ("y",)),), ("x",), ("y",))
    >>> two = Graph((Layer("softplus", ("in",), ("out",), {"beta": 1.0}),), ("in",), ("out",))
    >>> compare_graphs(one, two).changes[0].sentence
    'y: A has relu, B has softplus'
    """
    plain = _compared(a, b)
    if all(c.kind in ("attribute", "weight") for c in plain.changes) and not _reshaped(plain):
        return plain
    from twinnet.layers.simplify import simplified

    # Files may write the same computation differently; what is left after simplification really differs.
    found = _compared(simplified(a), simplified(b))
    if len(found.changes) >= len(plain.changes):
        return plain
    return replace(found, layers_a=len(a), layers_b=len(b), notes=(fact("structure.folded"),))


def _reshaped(found: StructureDiff) -> bool:
    return any(c.kind == "weight" and c.a is not None for c in found.changes)


def _compared(a: Graph, b: Graph) -> StructureDiff:
    match = LayerMatch(a, b)
    changes: list[Change] = []
    for index, layer in enumerate(a.layers):
        partner = match.partner.get(index)
        if partner is None:
            told = fact("structure.only", place=place_of(layer), op=op_of(layer), side="A")
            changes.append(Change("only in A", place_of(layer), told, op_of(layer)))
            continue
        other = b.layers[partner]
        if layer.kind != other.kind:
            ours, theirs = layer.op or layer.kind, other.op or other.kind
            told = fact("structure.replaced", place=place_of(layer), a=ours, b=theirs)
            changes.append(Change("replaced", place_of(layer), told, ours, theirs))
            continue
        changes += _attributes(layer, other, a, b)
        changes += _weights(layer, other, a, b)
    taken = set(match.partner.values())
    for index, layer in enumerate(b.layers):
        if index not in taken:
            told = fact("structure.only", place=place_of(layer), op=op_of(layer), side="B")
            changes.append(Change("only in B", place_of(layer), told, None, op_of(layer)))
    return StructureDiff("A", "B", len(a), len(b), len(match.partner), changes=tuple(changes))


_NO_MEANING = {"random", "lines", "slack", "share"}
"""Attributes that say how a value is computed, not what it is."""


def _attributes(layer: Layer, other: Layer, a_graph: Graph, b_graph: Graph) -> list[Change]:
    found = []
    shape = a_graph.shapes.get(layer.outputs[0]) or b_graph.shapes.get(other.outputs[0])
    for name in dict.fromkeys((*layer.attrs, *other.attrs)):
        a, b = layer.attrs.get(name), other.attrs.get(name)
        if callable(a) or callable(b) or name in _NO_MEANING or _equal(a, b):
            continue
        if (
            name == "axis"
            and shape
            and isinstance(a, int)
            and isinstance(b, int)
            and (a - b) % len(shape) == 0
        ):
            continue
        ours, theirs = _value(a), _value(b)
        told = fact(
            "structure.attribute", place=place_of(layer), op=op_of(layer), name=name, a=ours, b=theirs
        )
        found.append(Change("attribute", place_of(layer), told, ours, theirs))
    return found


def _weights(layer: Layer, other: Layer, a: Graph, b: Graph) -> list[Change]:
    found = []
    roles = _OPERANDS.get(layer.kind, ())
    for index, (ours, theirs) in enumerate(zip(layer.inputs, other.inputs, strict=False)):
        x = a.constants.get(ours) if ours is not None else None
        y = b.constants.get(theirs) if theirs is not None else None
        if x is None and y is None:
            continue
        role = roles[index] if index < len(roles) else ours or theirs or f"operand {index}"
        place = place_of(layer)
        where = {"place": place, "op": op_of(layer), "operand": role}
        if x is None or y is None:
            told = fact("structure.constant", **where, side="A" if y is None else "B")
            found.append(Change("weight", place, told))
        elif tuple(x.shape) != tuple(y.shape):
            told = fact("structure.weight_shape", **where, a=tuple(x.shape), b=tuple(y.shape))
            found.append(Change("weight", place, told, dims(x.shape), dims(y.shape)))
        elif (how := _numbers(x, y)) is not None:
            told = fact("structure.weight", **where, shape=tuple(x.shape), how=how)
            found.append(Change("weight", place, told))
    return found


def _numbers(x: torch.Tensor, y: torch.Tensor) -> Fact | None:
    """By how much two weights of one shape differ, in how many elements, and in which channels."""
    import torch

    if x.dtype == y.dtype and torch.equal(x, y):
        return None
    floats = x.is_floating_point() or y.is_floating_point()
    left, right = (x.double(), y.double()) if floats else (x.long(), y.long())
    wrong = left != right
    if floats:
        wrong &= ~(left.isnan() & right.isnan())
        if torch.float64 in (x.dtype, y.dtype):
            # One side was folded in float64, the other in float32: ignore that much rounding.
            wrong &= (left - right).abs() > _FOLDED * torch.maximum(left.abs().max(), right.abs().max())
    count = int(wrong.sum())
    if not count:
        wide = torch.float64 in (x.dtype, y.dtype) or x.dtype == y.dtype
        types = (str(t.dtype).removeprefix("torch.") for t in (x, y))
        return None if wide else fact("weight.type", **dict(zip("ab", types, strict=True)))
    largest = float((left - right).abs().max())
    return fact("weight.values", largest=largest, count=count, elements=x.numel(), confined=_confined(wrong))


def _confined(wrong: torch.Tensor) -> tuple[int, tuple[int, ...], int, int] | None:
    """The axis with the smallest share of differing indices: axis, first indices, their number, its length."""
    best: tuple[float, int, list[int]] | None = None
    for axis in range(wrong.dim()):
        rest = [d for d in range(wrong.dim()) if d != axis]
        hit = (wrong.any(dim=tuple(rest)) if rest else wrong).nonzero().flatten().tolist()
        share = len(hit) / wrong.shape[axis]
        if share < 1 and (best is None or share < best[0]):
            best = (share, axis, hit)
    if best is None:
        return None
    _, axis, hit = best
    return axis, tuple(hit[:6]), len(hit), wrong.shape[axis]


def not_the_same(a: Graph, b: Graph) -> Fact | None:
    """Why two graphs cannot be the same network; None if they can be.

    They cannot if weights of layers that surely correspond differ in size.

    >>> import torch
    >>> def net(width):
    ...     return Graph((Layer("linear", ("x", "w", None), ("y",)),), ("x",), ("y",), {"w": torch.ones(width, 4)})
    >>> str(not_the_same(net(8), net(6)))
    'y linear: weight is 8x4 in A, 6x4 in B'
    """
    from twinnet.layers.simplify import simplified

    a, b = simplified(a), simplified(b)
    match = LayerMatch(a, b)
    apart = [
        change.fact
        for i, j in match.sure.items()
        for change in _weights(a.layers[i], b.layers[j], a, b)
        if change.fact.code == "structure.weight_shape"
        and math.prod(change.fact.params["a"]) != math.prod(change.fact.params["b"])
    ]
    if not apart:
        return None
    return fact(
        "structure.not_the_same",
        weights=tuple(apart[:_SHOWN]),
        more=max(len(apart) - _SHOWN, 0),
        layers=(len(a), len(b)),
    )


def _value(value: Any) -> str:
    if hasattr(value, "tolist") and getattr(value, "ndim", 0):
        return f"a tensor of {dims(tuple(value.shape))}"
    return str(value).replace("torch.", "")


def _equal(a: Any, b: Any) -> bool:
    if a is None or b is None or type(a).__name__ == "Graph" or type(b).__name__ == "Graph":
        return (a is None and b is None) or type(a).__name__ == type(b).__name__ == "Graph"
    if hasattr(a, "shape") or hasattr(b, "shape"):
        import torch

        return torch.equal(torch.as_tensor(a), torch.as_tensor(b))
    if isinstance(a, float) and isinstance(b, float):
        return a == b or math.isclose(a, b, rel_tol=2.0**-23) or (math.isnan(a) and math.isnan(b))
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(_equal(x, y) for x, y in zip(a, b, strict=True))
    return a == b
