"""The layers of two graphs, matched, and their attributes and weights compared."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from twinnet.layers.graph import Graph, Layer
from twinnet.pairing.layers import LayerMatch
from twinnet.structure.change import Change, StructureDiff
from twinnet.structure.words import dims, op_of, place_of

if TYPE_CHECKING:
    import torch

__all__ = ["compare_graphs", "not_the_same"]

_FOLDED = 2.0**-18
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

    # Different files may write one computation in different ways; what is left then really differs.
    found = _compared(simplified(a), simplified(b))
    if len(found.changes) >= len(plain.changes):
        return plain
    note = "compared after batch norm was folded into the layer before it and x * sigmoid(x) was joined"
    return replace(found, layers_a=len(a), layers_b=len(b), notes=(note,))


def _reshaped(found: StructureDiff) -> bool:
    return any(c.kind == "weight" and c.a is not None for c in found.changes)


def _compared(a: Graph, b: Graph) -> StructureDiff:
    match = LayerMatch(a, b)
    changes: list[Change] = []
    for index, layer in enumerate(a.layers):
        partner = match.partner.get(index)
        if partner is None:
            changes.append(
                Change(
                    "only in A",
                    place_of(layer),
                    f"{place_of(layer)} {op_of(layer)} is only in A",
                    op_of(layer),
                )
            )
            continue
        other = b.layers[partner]
        if layer.kind != other.kind:
            ours, theirs = layer.op or layer.kind, other.op or other.kind
            said = f"{place_of(layer)}: A has {ours}, B has {theirs}"
            changes.append(Change("replaced", place_of(layer), said, ours, theirs))
            continue
        changes += _attributes(layer, other, a, b)
        changes += _weights(layer, other, a, b)
    taken = set(match.partner.values())
    for index, layer in enumerate(b.layers):
        if index not in taken:
            changes.append(
                Change(
                    "only in B",
                    place_of(layer),
                    f"{place_of(layer)} {op_of(layer)} is only in B",
                    None,
                    op_of(layer),
                )
            )
    return StructureDiff("A", "B", len(a), len(b), len(match.partner), changes=tuple(changes))


def _attributes(layer: Layer, other: Layer, a_graph: Graph, b_graph: Graph) -> list[Change]:
    found = []
    shape = a_graph.shapes.get(layer.outputs[0]) or b_graph.shapes.get(other.outputs[0])
    for name in dict.fromkeys((*layer.attrs, *other.attrs)):
        a, b = layer.attrs.get(name), other.attrs.get(name)
        if callable(a) or callable(b) or name == "random" or _equal(a, b):
            continue
        if (
            name == "axis"
            and shape
            and isinstance(a, int)
            and isinstance(b, int)
            and (a - b) % len(shape) == 0
        ):
            continue
        said = f"{place_of(layer)} {op_of(layer)}: {name} is {_value(a)} in A, {_value(b)} in B"
        found.append(Change("attribute", place_of(layer), said, _value(a), _value(b)))
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
        place = f"{place_of(layer)} {op_of(layer)}"
        if x is None or y is None:
            have, lack = ("A", "B") if y is None else ("B", "A")
            said = f"{place}: {role} is a constant in {have} and not in {lack}"
            found.append(Change("weight", place_of(layer), said))
        elif tuple(x.shape) != tuple(y.shape):
            said = f"{place}: {role} is {dims(x.shape)} in A, {dims(y.shape)} in B"
            found.append(Change("weight", place_of(layer), said, dims(x.shape), dims(y.shape)))
        else:
            said = _numbers(x, y)
            if said:
                found.append(
                    Change("weight", place_of(layer), f"{place}: {role} {dims(x.shape)} differs {said}")
                )
    return found


def _numbers(x: torch.Tensor, y: torch.Tensor) -> str:
    """By how much two weights of one shape differ, in how many elements, and in which channels."""
    import torch

    if x.dtype == y.dtype and torch.equal(x, y):
        return ""
    floats = x.is_floating_point() or y.is_floating_point()
    left, right = (x.double(), y.double()) if floats else (x.long(), y.long())
    wrong = left != right
    if floats:
        wrong &= ~(left.isnan() & right.isnan())
        if torch.float64 in (x.dtype, y.dtype):
            # Folded here in float64, there in float32: that much rounding is no difference.
            wrong &= (left - right).abs() > _FOLDED * torch.maximum(left.abs().max(), right.abs().max())
    count = int(wrong.sum())
    if not count:
        wide = torch.float64 in (x.dtype, y.dtype) or x.dtype == y.dtype
        return "" if wide else f"in type: {x.dtype} in A, {y.dtype} in B".replace("torch.", "")
    largest = float((left - right).abs().max())
    share = f"{count} of {x.numel()} elements"
    return f"by up to {largest:.3g} in {share}{_channels(wrong)}"


def _channels(wrong: torch.Tensor) -> str:
    """The axis along which the difference is confined most, where it is."""
    best: tuple[float, int, list[int]] | None = None
    for axis in range(wrong.dim()):
        rest = [d for d in range(wrong.dim()) if d != axis]
        hit = (wrong.any(dim=tuple(rest)) if rest else wrong).nonzero().flatten().tolist()
        share = len(hit) / wrong.shape[axis]
        if share < 1 and (best is None or share < best[0]):
            best = (share, axis, hit)
    if best is None:
        return ""
    _, axis, hit = best
    places = ", ".join(map(str, hit[:6])) + ("..." if len(hit) > 6 else "")
    return f", all at index {places} of axis {axis} ({len(hit)} of {wrong.shape[axis]})"


def not_the_same(a: Graph, b: Graph, *, limit: int = 3) -> str:
    """Why two graphs cannot be the same network, in a sentence; empty if they can be.

    They cannot where weights that surely stand in the same place have other sizes.

    >>> import torch
    >>> def net(width):
    ...     return Graph((Layer("linear", ("x", "w", None), ("y",)),), ("x",), ("y",), {"w": torch.ones(width, 4)})
    >>> not_the_same(net(8), net(6))
    'y linear: weight is 8x4 in A, 6x4 in B'
    """
    from twinnet.layers.simplify import simplified

    a, b = simplified(a), simplified(b)
    match = LayerMatch(a, b)
    said = []
    for i, j in match.sure.items():
        for change in _weights(a.layers[i], b.layers[j], a, b):
            if change.a is not None and change.b is not None and _volume(change.a) != _volume(change.b):
                said.append(change.sentence)
    if not said:
        return ""
    more = f"; and {len(said) - limit} more weights" if len(said) > limit else ""
    depth = f"; {len(a)} layers in A, {len(b)} in B" if len(a) != len(b) else ""
    return "; ".join(said[:limit]) + more + depth


def _volume(dims: str) -> int:
    return math.prod(int(n) for n in dims.split("x")) if dims != "scalar" else 1


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
