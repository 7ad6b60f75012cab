"""How far the integers of a kernel may be from the exactly rounded ones: what its fixed-point arithmetic adds.

Sums of products are exact; what rounds is the change from steps of the sum to steps of the result, by a factor M:

- LiteRT's own kernels hold M as m * 2**e, with m in 31 bits, 0.5 <= m < 1, and round twice if e is negative: after
  multiplying with m, and after shifting by -e bits. The first rounding is half a unit, 2**e / 2 steps of the result.
  Their mean also rounds the zero point of its data, which is then the same number of steps off everywhere.
- XNNPACK multiplies in float32 and rounds once. Where it only changes steps (QUANTIZE, LEAKY_RELU) it holds M in 8
  fractional bits: half of the last one for each step of the data. What it does not take over runs as above.
- Kernels with 16-bit activations hold m in 15 bits, so a result is off by up to 2**-15 of itself. Some draw a function
  as lines between 513 values of it (`layers/lines.py`), off by what the lines are and by the roundings of a value
  and of how far it was moved. Their sigmoid and tanh draw lines between 256 values of the sigmoid, 1/24 apart, at data
  that were multiplied by a number of 15 bits, cut off, and rounded to 1/256 of that.
- Square roots are cut off to whole steps, not rounded.

A bound is a number of steps, or a share of the value. tests/tflite/test_fixed_point.py compares with the kernels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twinnet.tflite.operators._node import Node

__all__ = ["fixed_point", "lines", "rounded_twice"]

_PRODUCTS = {
    "CONV_2D": 0,
    "DEPTHWISE_CONV_2D": 0,
    "FULLY_CONNECTED": 0,
    "BATCH_MATMUL": 0,
    "TRANSPOSE_CONV": 2,
    "MUL": 0,
}
"""Operators that multiply their data, at this place, with the operand at place 1."""

_FLOAT = 2.0**-22
"""A share: three operations in float32, which is coarser than 31 bits."""
_TIE = 2.0**-12
"""Steps: halves may be rounded either way."""
_ADDED = 2.0**-11
"""Sums hold their operands in 20 further bits, 8 of which the operands fill; both kernels round each twice."""
_MEASURED = {
    "LOGISTIC": 0.02,
    "TANH": 0.02,
    "HARD_SWISH": 1.0,
    "SOFTMAX": 0.02,
    "RESIZE_BILINEAR": 0.02,
    "SUM": 0.5,
}
_OTHERS = 0.02
_MEASURED_16 = {"SOFTMAX": 8.0}
"""Steps, for functions that kernels compute in fixed point by a polynomial or a table; measured."""
_SIGMOID_16 = {"LOGISTIC": 1.84, "TANH": 3.67}
"""Steps: what a line is off (h * h * curvature / 8), what the data are off times the slope, and a value's rounding."""
_LINES_16 = {"GELU", "RSQRT", "EXP", "LOG"}
"""Functions that kernels with 16-bit activations draw as lines between values of a table."""
_CUT_OFF = {"SQRT"}


def rounded_twice(factor: float) -> float:
    """Steps that the first of two roundings adds to the second, for a factor.

    >>> rounded_twice(0.4), rounded_twice(0.002), rounded_twice(0.7)
    (0.25, 0.001953125, 0.0)
    """
    _, exponent = math.frexp(factor)
    return 0.5 * 2.0**exponent if exponent < 0 else 0.0


def fixed_point(node: Node, kernels: str) -> dict[str, float]:
    """What the kernels of an operator add to rounding: `slack` in steps, `share` of the value.

    `kernels` is a set of LiteRT's, or "" for any of them.
    """
    made, places = node.made(), range(len(node.operator.inputs))
    if made.steps is None or not any(node.counted(i) for i in places):
        return {}
    step = made.steps.scale[0]
    if step <= 0 or min(min(_scales(node, i)) for i in places) < 0:
        return {}
    wide = made.dtype == "int16"
    slack, share = _slack(node, step, wide=wide), 2.0**-15 if wide else _FLOAT
    factor = _scales(node, 0)[0] / step
    if kernels in ("xnnpack", "") and not wide and factor > 0:
        if node.op == "QUANTIZE":
            share = max(share, 2.0**-9 / factor)
        if node.op == "LEAKY_RELU":
            slack = max(slack, 0.5)
    return {"slack": slack + _TIE, "share": share}


def lines(node: Node) -> dict[str, Any]:
    """The steps of the data and of the result, where the kernel draws the function as lines."""
    made = node.made()
    if node.op not in _LINES_16 or made.dtype != "int16" or made.steps is None or not node.counted(0):
        return {}
    found = _scales(node, 0)[0], made.steps.scale[0]
    return {"lines": found} if min(found) > 0 else {}


def _slack(node: Node, step: float, *, wide: bool) -> float:
    op = node.op
    if wide and op in _MEASURED_16:
        return _MEASURED_16[op]
    if wide and op in _SIGMOID_16:
        return _SIGMOID_16[op]
    if wide and op in _LINES_16:
        return 1.5
    if op in _CUT_OFF:
        return 0.5
    if op in _MEASURED:
        return _MEASURED[op]
    if op in _PRODUCTS:
        data, other = _scales(node, _PRODUCTS[op]), _scales(node, 1)
        return max(rounded_twice(data[0] * scale / step) for scale in other)
    if op in ("ADD", "SUB"):
        return _ADDED * (_scales(node, 0)[0] + _scales(node, 1)[0]) / step
    factor = _scales(node, 0)[0] / step
    if op in ("QUANTIZE", "LEAKY_RELU", "PRELU", "RELU", "RELU6", "RELU_N1_TO_1"):
        slope = _scales(node, 1)[0] if op == "PRELU" else abs(float(node.options.get("alpha", 0.0)))
        return max(rounded_twice(factor), rounded_twice(factor * slope) if slope else 0.0)
    if op == "MEAN":
        given = node.tensor(0)
        zero = factor * (given.steps.zero[0] if given is not None and given.steps is not None else 0)
        return abs(zero - round(zero)) + 2 * factor / max(_merged(node), 1)
    return 0.0 if factor == 1 else _OTHERS  # values that are only moved, or averaged in the steps they have


def _scales(node: Node, place: int) -> Sequence[float]:
    """The steps of an operand; of one that is not in integers, none that matters."""
    tensor = node.tensor(place)
    return (0.0,) if tensor is None or tensor.steps is None else tensor.steps.scale


def _merged(node: Node) -> int:
    """How many numbers one of the results is the mean of."""
    given, made = node.tensor(0), node.made()
    if given is None or given.shape is None or made.shape is None:
        return 1
    sizes = [math.prod(int(n) for n in t if isinstance(n, int)) for t in (given.shape, made.shape)]
    return sizes[0] // max(sizes[1], 1)
