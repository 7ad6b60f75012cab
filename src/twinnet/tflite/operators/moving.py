"""Operators that only move values, and reductions."""

from __future__ import annotations

import math
from typing import Any

import torch

from twinnet.tflite.operators._node import Node, op
from twinnet.tflite.view import first_to_last, last_to_first

_REDUCTIONS = {
    "MEAN": "reduce_mean",
    "SUM": "reduce_sum",
    "REDUCE_PROD": "reduce_prod",
    "REDUCE_MAX": "reduce_max",
    "REDUCE_MIN": "reduce_min",
    "REDUCE_ANY": "reduce_any",
    "REDUCE_ALL": "reduce_all",
}


@op(*_REDUCTIONS)
def _reduce(node: Node) -> None:
    axes, keep, rank = node.ints(1), bool(node.options["keepdims"]), node.rank()
    if node.first and not keep:
        left = [a for a in range(rank) if a not in {n % rank for n in axes}]
        turned = [node.axis(a) for a in left]
        node.first = turned == sorted(turned)  # the axes that are left have the same order either way
    placed = tuple(sorted(node.axis(a) for a in axes))
    node.emit(_REDUCTIONS[node.op], [node.operand(0)], axes=placed, keepdims=keep)


@op("CONCATENATION")
def _concat(node: Node) -> None:
    node.emit("concat", axis=node.axis(node.options["axis"]))


def _pads(node: Node) -> tuple[int, ...]:
    pairs = node.value(1).reshape(-1, 2)
    order = last_to_first(4) if node.first and len(pairs) == 4 else range(len(pairs))
    return (*(int(pairs[a][0]) for a in order), *(int(pairs[a][1]) for a in order))


@op("PAD")
def _pad(node: Node) -> None:
    node.emit("pad", [node.operand(0)], pads=_pads(node))


@op("PADV2")
def _padv2(node: Node) -> None:
    value = node.tensor(2)
    number = float(node.value(2).reshape(-1)[0])
    if value is not None and value.steps is not None:
        number = (number - value.steps.zero[0]) * value.steps.scale[0]
    node.emit("pad", [node.operand(0)], pads=_pads(node), value=number)


@op("MIRROR_PAD")
def _mirror(node: Node) -> None:
    if node.options["mode"]:
        raise ValueError("padding that mirrors the edge as well")
    node.emit("pad", [node.operand(0)], pads=_pads(node), mode="reflect")


@op("RESHAPE", "SQUEEZE", "EXPAND_DIMS")
def _reshape(node: Node) -> None:
    given, made = node.tensor(0), node.made()
    assert given is not None
    same_order = node.first and _same_order(given.shape) and not _seen(node, made)
    node.first = False
    source = node.real(given, first=True) if same_order else node.stored(0)
    if node.op == "EXPAND_DIMS":
        axis = node.ints(1)[0] % (node.rank() + 1)
        if not same_order:
            node.emit("unsqueeze", [source], axes=(axis,))
            return
    if node.op == "SQUEEZE" and not same_order and node.options["axes"]:
        node.emit("squeeze", [source], axes=tuple(a % node.rank() for a in node.options["axes"]))
        return
    node.emit("reshape", [source], shape=_target(node), allowzero=True)


def _target(node: Node) -> tuple[int, ...]:
    """The shape of the result, with -1 for one size that is not fixed."""
    if node.op == "RESHAPE" and len(node.operator.inputs) > 1:
        given = node.tensor(1)
        known = None if given is None else node.scope.constant(given.index)
        if known is not None:
            return tuple(int(n) for n in known.reshape(-1))
    shape = node.made().shape or ()
    if sum(not isinstance(n, int) for n in shape) > 1:
        raise ValueError("the shape is computed")
    return tuple(n if isinstance(n, int) else -1 for n in shape)


def _same_order(shape: tuple[int | str, ...] | None) -> bool:
    """Whether moving the channels does not change the order of elements: only one of the sizes is not 1."""
    if shape is None or len(shape) != 4 or not all(isinstance(n, int) for n in shape[1:]):
        return False
    return shape[3] == 1 or math.prod(int(n) for n in shape[1:3]) == 1


def _seen(node: Node, tensor: Any) -> bool:
    return tensor.index in node.scope.view.last


@op("TRANSPOSE")
def _transpose(node: Node) -> None:
    perm = node.ints(1)
    given, made = node.tensor(0), node.made()
    assert given is not None
    rank = len(perm)
    before, after = (t.index in node.scope.view.last for t in (given, made))
    out = last_to_first(rank) if after else tuple(range(rank))
    back = first_to_last(rank) if before else tuple(range(rank))
    whole = tuple(back[perm[a]] for a in out)
    source = node.real(given, first=before)
    node.first = after
    if whole == tuple(range(rank)):
        node.emit("identity", [source])
    else:
        node.emit("transpose", [source], perm=whole)


@op("SLICE")
def _slice(node: Node) -> None:
    begins, sizes = node.ints(1), node.ints(2)
    far = 2**31 - 1
    ends = [far if s < 0 else b + s for b, s in zip(begins, sizes, strict=True)]
    node.emit("slice", [node.operand(0)], **_ranges(node, begins, ends, [1] * len(begins)))


def _ranges(node: Node, begins: Any, ends: Any, steps: Any) -> dict[str, Any]:
    """Starts, ends, axes and steps of the axes that are not taken whole."""
    shape = (node.tensor(0) or node.made()).shape or ()
    parts = []
    for axis, (begin, end, step) in enumerate(zip(begins, ends, steps, strict=True)):
        size = shape[axis] if axis < len(shape) else "?"
        whole = begin == 0 and step == 1 and isinstance(size, int) and end >= size
        if not whole:
            parts.append((node.axis(axis, len(begins)), begin, end, step))
    parts.sort()
    axes, starts, stops, strides = zip(*parts, strict=True) if parts else ((0,), (0,), (2**31 - 1,), (1,))
    return {"starts": starts, "ends": stops, "axes": axes, "steps": strides}


@op("STRIDED_SLICE")
def _strided(node: Node) -> None:
    options = node.options
    if options["ellipsis_mask"] or options["new_axis_mask"] or options["offset"]:
        raise ValueError("a slice with new axes")
    begins, ends, steps = list(node.ints(1)), list(node.ints(2)), list(node.ints(3))
    far = 2**31 - 1
    shrunk = [i for i in range(len(begins)) if options["shrink_axis_mask"] >> i & 1]
    for i in range(len(begins)):
        if options["begin_mask"] >> i & 1:
            begins[i] = 0 if steps[i] > 0 else far
        if options["end_mask"] >> i & 1:
            ends[i] = far if steps[i] > 0 else -far
        if i in shrunk:
            ends[i] = begins[i] + 1 if begins[i] != -1 else far
    if shrunk or len(begins) != node.rank():
        node.first = False
    attrs = _ranges(node, begins, ends, steps)
    source = node.operand(0)
    if not shrunk:
        node.emit("slice", [source], **attrs)
        return
    part = node.emit("slice", [source], [node.temp("part")], **attrs)
    node.emit("squeeze", [part], axes=tuple(shrunk))


@op("SPLIT", "SPLIT_V")
def _split(node: Node) -> None:
    place, axis_place = (1, 0) if node.op == "SPLIT" else (0, 2)
    rank = node.rank(place)
    axis = node.axis(node.ints(axis_place)[0], rank)
    source, first = node.operand(place), node.first
    names = [node.scope.fresh(f"{node.made(i).name}/part") for i in range(len(node.operator.outputs))]
    sizes = node.ints(1) if node.op == "SPLIT_V" else None
    stored = node.ints(axis_place)[0] % rank
    if sizes is None or -1 in sizes:
        sizes = tuple(node.made_shape(i)[stored] for i in range(len(names)))
    node.layer("split", [source], names, axis=axis, sizes=sizes)
    for i, name in enumerate(names):
        node.finish(lambda made, name=name: node.layer("identity", [name], [made]), i, first=first)


@op("PACK")
def _pack(node: Node) -> None:
    node.first = False
    node.emit("stack", axis=node.options["axis"])


@op("UNPACK")
def _unpack(node: Node) -> None:
    node.first = False
    source, axis = node.stored(0), node.options["axis"] % node.rank()
    for i in range(len(node.operator.outputs)):
        node.finish(lambda made, i=i: node.layer("select", [source], [made], axis=axis, index=i), i)


@op("TILE")
def _tile(node: Node) -> None:
    repeats = node.ints(1)
    order = last_to_first(4) if node.first and len(repeats) == 4 else range(len(repeats))
    node.emit("tile", [node.operand(0)], repeats=tuple(repeats[a] for a in order))


@op("BROADCAST_TO")
def _broadcast(node: Node) -> None:
    node.first = False
    node.emit("expand", [node.stored(0)], shape=node.ints(1))


@op("GATHER")
def _gather(node: Node) -> None:
    if node.options["batch_dims"]:
        raise ValueError("a gather in batches")
    node.first = False
    node.emit("gather", [node.stored(0), node.stored(1)], axis=node.options["axis"])


@op("GATHER_ND")
def _gather_nd(node: Node) -> None:
    node.first = False
    node.emit("gather_nd", [node.stored(0), node.stored(1)])


@op("SHAPE")
def _shape(node: Node) -> None:
    node.first = False
    node.emit("shape", [node.stored(0)])


@op("REVERSE_V2")
def _reverse(node: Node) -> None:
    node.first = False
    node.emit("flip", [node.stored(0)], axes=node.ints(1))


@op("ARG_MAX", "ARG_MIN")
def _arg(node: Node) -> None:
    node.first = False
    kind = "argmax" if node.op == "ARG_MAX" else "argmin"
    found = node.emit(kind, [node.stored(0)], [node.temp("index")], axis=node.ints(1)[0], keepdims=False)
    node.emit("cast", [found], to=getattr(torch, node.made().dtype))
