"""Convolutions, pools and resizing: NHWC in the file, NCHW here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from twinnet.tflite.operators._node import Node, op

_SAME = 0


def _window(
    node: Node,
    place: int,
    kernel: tuple[int, int],
    dilations: tuple[int, int] = (1, 1),
    around: tuple[int, ...] | None = None,
) -> dict[str, Any]:
    """Strides and pads; SAME padding is counted out where the size is known, zeros `around` the image are given."""
    strides = (node.options["stride_h"], node.options["stride_w"])
    found: dict[str, Any] = {"strides": strides}
    if dilations != (1, 1):
        found["dilations"] = dilations
    if around is not None:
        found["pads"] = around
    if node.options["padding"] != _SAME:
        return found
    tensor = node.tensor(place)
    sizes = () if tensor is None or tensor.shape is None else tensor.shape[1:3]
    if len(sizes) != 2 or not all(isinstance(n, int) for n in sizes):
        return {**found, "auto_pad": "same_upper"}
    begins, ends = zip(*map(_same, sizes, kernel, strides, dilations), strict=True)
    return {**found, "pads": (*begins, *ends)} if any(begins + ends) else found


def _same(size: Any, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    wide = (kernel - 1) * dilation + 1
    total = max((-(-size // max(stride, 1)) - 1) * stride + wide - size, 0)
    return total // 2, total - total // 2


def _dynamic(node: Node, place: int, weight: int) -> str | None:
    """The data of a product; beside integer weights, real data is rounded to 8 bits with a step of its own."""
    name = node.operand(place)
    if name is None or node.counted(place) or not node.counted(weight):
        return name
    names = [node.temp("rounded"), node.temp("step"), node.temp("zero")]
    node.layer("dynamic_step", [name], names, symmetric=True)
    return names[0]


def _padded(node: Node) -> tuple[int, ...] | None:
    """The zeros that the operator before puts around the image of a convolution, which then reads what is before that.

    Nearly every converter writes padding that is not SAME as an operator of its own.
    """
    graph, index = node.scope.graph, node.operator.inputs[0]
    before = graph.producer.get(index)
    made_by = None if before is None else graph.operators[before]
    if made_by is None or made_by.op != "PAD" or node.options["padding"] == _SAME:
        return None
    pairs = node.scope.constant(made_by.inputs[1])
    source, padded = graph.tensors[made_by.inputs[0]], graph.tensors[index]
    same_steps = source.steps == padded.steps and source.dtype == padded.dtype
    if pairs is None or pairs.shape != (4, 2) or pairs[0].any() or pairs[3].any() or not same_steps:
        return None
    if source.index not in node.scope.view.last:
        return None
    node.operator = replace(node.operator, inputs=(source.index, *node.operator.inputs[1:]))
    return (*(int(n) for n in pairs[1:3, 0]), *(int(n) for n in pairs[1:3, 1]))


@op("CONV_2D")
def _conv(node: Node) -> None:
    _, _, _, depth = node.shape(1)
    channels = node.size(0, 3)
    if not depth or channels % depth:
        raise ValueError("the channels do not fit the weights")
    _convolution(node, (0, 3, 1, 2), channels // depth)


@op("DEPTHWISE_CONV_2D")
def _depthwise(node: Node) -> None:
    _, _, _, out = node.shape(1)
    channels = node.size(0, 3)
    if not channels or out % channels:
        raise ValueError("the channels do not fit the weights")
    # 1HWO to O1HW: output channel c * multiplier + m reads input channel c.
    _convolution(node, (3, 0, 1, 2), channels)


def _convolution(node: Node, order: tuple[int, ...], group: int) -> None:
    _, height, width, _ = node.shape(1)
    dilations = (node.options["dilation_h"], node.options["dilation_w"])
    around = _padded(node)
    operands = [_dynamic(node, 0, 1), node.kernel(1, order), node.stored(2)]
    node.emit("conv", operands, group=group, **_window(node, 0, (height, width), dilations, around))


@op("TRANSPOSE_CONV")
def _transpose_conv(node: Node) -> None:
    _, height, width, _ = node.shape(1)
    given = (node.size(2, 1), node.size(2, 2))
    made = tuple(int(n) for n in (node.made().shape or ())[1:3])
    strides = (node.options["stride_h"], node.options["stride_w"])
    begins, ends, extra = [], [], []
    for size, out, kernel, stride in zip(given, made, (height, width), strides, strict=True):
        whole = (size - 1) * stride + kernel
        total = max(whole - out, 0) if node.options["padding"] == _SAME else 0
        begins.append(total // 2)
        ends.append(total - total // 2)
        extra.append(out - (whole - total))
    if any(n < 0 for n in extra):
        raise ValueError("the declared size does not fit the window")
    operands = [_dynamic(node, 2, 1), node.kernel(1, (3, 0, 1, 2)), node.stored(3)]
    node.emit("conv_transpose", operands, strides=strides, pads=(*begins, *ends), output_padding=tuple(extra))


@op("AVERAGE_POOL_2D", "MAX_POOL_2D")
def _pool(node: Node) -> None:
    kernel = (node.options["filter_h"], node.options["filter_w"])
    kind = "max_pool" if node.op == "MAX_POOL_2D" else "average_pool"
    node.emit(kind, [node.operand(0)], kernel=kernel, **_window(node, 0, kernel))


@op("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
def _resize(node: Node) -> None:
    align, half = node.options["align_corners"], node.options["half_pixel"]
    coordinates = "align_corners" if align else "half_pixel" if half else "asymmetric"
    attrs: dict[str, Any] = {"mode": "linear"}
    if node.op == "RESIZE_NEAREST_NEIGHBOR":
        attrs = {"mode": "nearest", "nearest": "round_prefer_ceil" if align or half else "floor"}
    sizes = node.ints(1)
    node.emit("resize", [node.operand(0)], sizes=sizes, axes=(2, 3), coordinates=coordinates, **attrs)


@op("DEPTH_TO_SPACE", "SPACE_TO_DEPTH")
def _depth(node: Node) -> None:
    node.emit(node.op.lower(), [node.operand(0)], block=node.options["block"], mode="DCR")


@op("FULLY_CONNECTED")
def _fully_connected(node: Node) -> None:
    if node.options["format"]:
        raise ValueError("shuffled weights")
    _, width = node.shape(1)
    node.first = False
    data = _dynamic(node, 0, 1)
    if node.rank() != 2 and not node.options["keepdims"]:
        flat = node.temp("rows")
        node.layer("reshape", [data], [flat], shape=(-1, width))
        data = flat
    if (held := node.tensor(1)) is not None and node.scope.constant(held.index) is None:
        weight = node.stored(1)
    else:
        weight = node.kernel(1, (0, 1))
    node.emit("linear", [data, weight, node.stored(2)])


@op("BATCH_MATMUL")
def _matmul(node: Node) -> None:
    node.first = False
    left, right = node.options["adj_x"], node.options["adj_y"]
    node.emit("matmul", [_dynamic(node, 0, 1), node.stored(1)], trans_a=bool(left), trans_b=bool(right))


@op("EMBEDDING_LOOKUP")
def _embedding(node: Node) -> None:
    node.first = False
    node.emit("gather", [node.stored(1), node.stored(0)], axis=0)


@op("CUMSUM")
def _cumsum(node: Node) -> None:
    node.first = False
    axis = int(np.asarray(node.value(1)).reshape(-1)[0])
    node.emit(
        "cumsum",
        [node.stored(0)],
        axis=axis,
        exclusive=node.options["exclusive"],
        reverse=node.options["reverse"],
    )
