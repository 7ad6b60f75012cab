"""Sums of products: convolution, matrix products, attention.

Floor of all of them: max(sqrt n, n/100) * u * sum|terms| with n terms (bias included in the sum), 2^-126 for each term,
which engines may flush to zero, and for weights that are denormal in float32, the same per unit of input they multiply.
Inherited errors go through the same operator with |weights|.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from twinnet.layers.kinds._base import (
    Attrs,
    Error,
    Errors,
    Kind,
    Tensors,
    add_up,
    along,
    growth,
    mag,
    per_channel,
    register,
)
from twinnet.layers.kinds._conv64 import convolve, pad_data
from twinnet.precision import TINY

Op = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def bilinear_error(op: Op, operands: Tensors, errors: Errors, n: int, u: float) -> Error:
    """Bound for op(a, b), linear in both: op(c*u*|a| + ea, |b|) + op(|a|+ea, eb), c the growth of n terms."""
    (a, b), (ea, eb) = operands[:2], errors[:2]
    size_b = mag(b)
    left: Error = mag(a).mul_(growth(n) * u) if u else None
    if ea is not None:
        left = ea if left is None else left.add_(ea)
    total = None if left is None else op(left, size_b)
    if total is not None and u and 0 < b.numel() <= 1 << 24:
        denormal = (size_b < TINY) & (b != 0)
        if bool(denormal.any()):
            total = total.add_(op(mag(a), denormal.to(torch.float32).mul_(TINY)))
        total = total.add_(n * TINY)
    if eb is not None:
        wide = mag(a) if ea is None else mag(a).add_(ea)
        extra = op(wide, eb)
        total = extra if total is None else total.add_(extra)
    return total


# ---- convolution ---------------------------------------------------------------------------------


def conv_window(attrs: Attrs, x: torch.Tensor, kernel: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """Strides, pads (all beginnings, then all ends) and dilations of a convolution."""
    k = len(kernel)
    strides = tuple(attrs.get("strides") or (1,) * k)
    dilations = tuple(attrs.get("dilations") or (1,) * k)
    auto = attrs.get("auto_pad")
    if not auto:
        return strides, tuple(attrs.get("pads") or (0,) * (2 * k)), dilations
    begin, end = [], []
    for size, kern, stride, dil in zip(x.shape[2:], kernel, strides, dilations):
        total = max((math.ceil(size / stride) - 1) * stride + dil * (kern - 1) + 1 - size, 0)
        small, large = total // 2, total - total // 2
        begin.append(small if auto == "same_upper" else large)
        end.append(large if auto == "same_upper" else small)
    return strides, tuple(begin + end), dilations


def _conv(attrs: Attrs, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    strides, pads, dilations = conv_window(attrs, x, tuple(w.shape[2:]))
    return convolve(x, w, strides, pads, dilations, int(attrs.get("group", 1)))


def _conv_evaluate(attrs: Attrs, x: torch.Tensor, w: torch.Tensor, b: Any = None) -> tuple[torch.Tensor]:
    y = _conv(attrs, x, w)
    return (y if b is None else y.add_(per_channel(b, y)),)


def _bias(inputs: Tensors, errors: Errors, y: torch.Tensor, n: int, u: float) -> Error:
    if len(inputs) < 3 or inputs[2] is None:
        return None
    own = mag(per_channel(inputs[2], y)).mul_(growth(n) * u) if u else None
    inherited = None if errors[2] is None else per_channel(errors[2], y)
    return inherited if own is None else own if inherited is None else own + inherited


def _conv_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    w = inputs[1]
    n = w[0].numel() + (len(inputs) > 2 and inputs[2] is not None) if len(w) else 1
    total = bilinear_error(lambda a, b: _conv(attrs, a, b), inputs, errors, n, u)
    bias = _bias(inputs, errors, outputs[0], n, u)
    if total is not None and bias is not None:
        return (total.add_(bias),)
    return (add_up(outputs[0], total, bias),)


register(Kind("conv", _conv_evaluate, _conv_error))


def _transposed(attrs: Attrs, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    k = w.dim() - 2
    strides = tuple(attrs.get("strides") or (1,) * k)
    dilations = tuple(attrs.get("dilations") or (1,) * k)
    extra: list[int] = list(attrs.get("output_padding") or (0,) * k)
    pads: list[int] = list(attrs.get("pads") or (0,) * (2 * k))
    wanted, auto = attrs.get("output_shape"), attrs.get("auto_pad")
    if wanted or auto:
        sizes = list(wanted)[-k:] if wanted else [s * t for s, t in zip(x.shape[2:], strides)]
        for i in range(k):
            full = strides[i] * (x.shape[2 + i] - 1) + extra[i] + (w.shape[2 + i] - 1) * dilations[i] + 1
            total = full - sizes[i]
            small, large = total // 2, total - total // 2
            pads[i], pads[k + i] = (small, large) if auto == "same_upper" else (large, small)
    group = int(attrs.get("group", 1))
    op = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}[k]
    if k == 2 and tuple(w.shape[2:]) == strides and dilations == (1, 1) and group == 1:
        full = _disjoint(x, w)
        if any(extra):
            full = F.pad(full, (0, extra[1], 0, extra[0]))
    elif any(e >= max(s, d) for e, s, d in zip(extra, strides, dilations)):
        full = pad_data(op(x, w, None, strides, 0, 0, group, dilations), (0,) * k + tuple(extra))
    else:
        full = op(x, w, None, strides, 0, tuple(extra), group, dilations)
    return pad_data(full, [-p for p in pads])


def _disjoint(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Kernel as large as the stride: every output is one dot product, so one matrix product does it."""
    n, _, h, width = x.shape
    _, out, kh, kw = w.shape
    y = torch.matmul(w.permute(1, 2, 3, 0).reshape(out * kh * kw, -1), x.reshape(n, x.shape[1], -1))
    y = y.view(n, out, kh, kw, h, width).permute(0, 1, 4, 2, 5, 3)
    return y.reshape(n, out, h * kh, width * kw)


def _transposed_evaluate(
    attrs: Attrs, x: torch.Tensor, w: torch.Tensor, b: Any = None
) -> tuple[torch.Tensor]:
    y = _transposed(attrs, x, w)
    return (y if b is None else y + per_channel(b, y),)


def _transposed_error(
    attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float
) -> tuple[Error]:
    w = inputs[1]
    strides = tuple(attrs.get("strides") or (1,) * (w.dim() - 2))
    taps = math.prod(
        math.ceil(k / s) for k, s in zip(w.shape[2:], strides)
    )  # kernel taps that meet in one output
    n = (w.shape[0] // int(attrs.get("group", 1))) * taps + 1
    total = bilinear_error(lambda a, b: _transposed(attrs, a, b), inputs, errors, n, u)
    return (add_up(outputs[0], total, _bias(inputs, errors, outputs[0], n, u)),)


register(Kind("conv_transpose", _transposed_evaluate, _transposed_error))


# ---- matrix products -----------------------------------------------------------------------------


def _turn(t: torch.Tensor, flag: Any) -> torch.Tensor:
    return t.transpose(-1, -2) if flag and t.dim() > 1 else t


def _matmul(attrs: Attrs, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    y = torch.matmul(_turn(a, attrs.get("trans_a")), _turn(b, attrs.get("trans_b")))
    alpha = attrs.get("alpha", 1.0)
    return y if alpha == 1.0 else y * abs(alpha) if a.dtype == torch.float32 else y * alpha


def _whole(op: Op, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if a.is_floating_point() or b.is_floating_point():
        return op(a.to(torch.float64), b.to(torch.float64))
    return op(a.to(torch.int64), b.to(torch.int64)).to(a.dtype)


def _matmul_evaluate(attrs: Attrs, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor]:
    return (_whole(lambda p, q: _matmul(attrs, p, q), a, b),)


def _matmul_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    a = inputs[0]
    n = a.shape[-2 if attrs.get("trans_a") and a.dim() > 1 else -1]
    own = u if outputs[0].is_floating_point() else 0.0
    return (bilinear_error(lambda p, q: _matmul(attrs, p, q), inputs, errors, n, own),)


register(Kind("matmul", _matmul_evaluate, _matmul_error))


def _gemm_evaluate(attrs: Attrs, a: torch.Tensor, b: torch.Tensor, c: Any = None) -> tuple[torch.Tensor]:
    y = _whole(lambda p, q: _matmul(attrs, p, q), a, b)
    if c is None:
        return (y,)
    beta = attrs.get("beta", 1.0)
    return (y + (c if beta == 1.0 else (c * beta).to(y.dtype)),)


def _gemm_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    n = inputs[0].shape[0 if attrs.get("trans_a") else -1] + 1
    own = u if outputs[0].is_floating_point() else 0.0
    total = bilinear_error(lambda p, q: _matmul(attrs, p, q), inputs, errors, n, own)
    beta = abs(attrs.get("beta", 1.0))
    if len(inputs) > 2 and inputs[2] is not None:
        bias = mag(inputs[2]).mul_(growth(n) * own * beta) if own else None
        inherited = None if errors[2] is None else errors[2] * beta
        return (add_up(outputs[0], total, bias, inherited),)
    return (total,)


register(Kind("gemm", _gemm_evaluate, _gemm_error))


def _linear_evaluate(attrs: Attrs, x: torch.Tensor, w: torch.Tensor, b: Any = None) -> tuple[torch.Tensor]:
    return _gemm_evaluate({"trans_b": True}, x, w, b)


def _linear_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    return _gemm_error({"trans_b": True}, inputs, errors, outputs, u)


register(Kind("linear", _linear_evaluate, _linear_error))


def _einsum_evaluate(attrs: Attrs, *inputs: torch.Tensor) -> tuple[torch.Tensor]:
    y = torch.einsum(attrs["equation"], *[t.to(torch.float64) for t in inputs])
    return (y if any(t.is_floating_point() for t in inputs) else y.to(inputs[0].dtype),)


def _einsum_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    sizes = [mag(t) for t in inputs]
    total: Error = None
    if u and outputs[0].is_floating_point():
        terms = sum(t.numel() for t in inputs) and _summed(attrs["equation"], inputs)
        total = torch.einsum(attrs["equation"], *sizes).mul_(u * (growth(terms) + len(inputs)))
    for i, e in enumerate(errors):
        if e is not None:
            swapped = [e if j == i else s for j, s in enumerate(sizes)]
            total = add_up(outputs[0], total, torch.einsum(attrs["equation"], *swapped))
            sizes[i] = sizes[i] + e
    return (total,)


def _summed(equation: str, inputs: Tensors) -> int:
    """How many products meet in one output of an einsum."""
    left, _, right = equation.replace(" ", "").partition("->")
    sizes: dict[str, int] = {}
    for term, tensor in zip(left.split(","), inputs):
        letters = term.replace("...", "")
        shape = list(tensor.shape)
        if "..." in term:
            head = term.index("...")
            tail = len(letters) - head
            shape = shape[:head] + (shape[len(shape) - tail :] if tail else [])
        sizes.update(zip(letters, shape))
    if "->" not in equation:
        right = "".join(c for c in sizes if left.count(c) == 1)
    return math.prod(size for letter, size in sizes.items() if letter not in right) or 1


register(Kind("einsum", _einsum_evaluate, _einsum_error))


# ---- integers ------------------------------------------------------------------------------------


def _centred(x: torch.Tensor, zero: Any, channel_axis: int | None) -> torch.Tensor:
    x = x.to(torch.float64)  # integers of 32 bits and their products' sums are exact in float64
    if zero is None:
        return x
    zero = zero.to(torch.float64)
    if zero.dim() == 1 and zero.numel() > 1 and channel_axis is not None:
        zero = along(zero, channel_axis, x.dim())
    return x - zero


def _conv_integer(
    attrs: Attrs, x: Any, w: Any, x_zero: Any = None, w_zero: Any = None
) -> tuple[torch.Tensor]:
    return (_conv(attrs, _centred(x, x_zero, None), _centred(w, w_zero, 0)).to(torch.int32),)


def _matmul_integer(
    attrs: Attrs, a: Any, b: Any, a_zero: Any = None, b_zero: Any = None
) -> tuple[torch.Tensor]:
    return (_matmul(attrs, _centred(a, a_zero, -2), _centred(b, b_zero, -1)).to(torch.int32),)


def _integer_error(op: Callable[..., torch.Tensor], axis_a: int | None, axis_b: int) -> Any:
    def error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
        a = _centred(inputs[0], inputs[2] if len(inputs) > 2 else None, axis_a)
        b = _centred(inputs[1], inputs[3] if len(inputs) > 3 else None, axis_b)
        return (bilinear_error(lambda p, q: op(attrs, p, q), (a, b), errors, 1, 0.0),)

    return error


register(Kind("conv_integer", _conv_integer, _integer_error(_conv, None, 0)))
register(Kind("matmul_integer", _matmul_integer, _integer_error(_matmul, -2, -1)))
