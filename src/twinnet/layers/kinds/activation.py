"""Activation functions."""

from __future__ import annotations

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
    growth,
    mag,
    operand,
    register,
    scaled,
)
from twinnet.layers.kinds.elementwise import largest_error

# ---- exact: selection only. Their slope is at most 1, so errors go through as they are. ----------


def _passes(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    return (errors[0],)


def _whole(fn: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    return fn(x) if x.is_floating_point() else fn(x.to(torch.int64)).to(x.dtype)


register(Kind("relu", lambda attrs, x: (_whole(torch.relu, x),), _passes, exact=True, elementwise=True))


def _clip(attrs: Attrs, x: torch.Tensor, *bounds: Any) -> tuple[torch.Tensor]:
    inputs = (x, *bounds)
    low, high = operand(attrs, "min", inputs, 1), operand(attrs, "max", inputs, 2)
    for side, bound in ((torch.maximum, low), (torch.minimum, high)):
        if bound is not None:
            limit = bound if isinstance(bound, torch.Tensor) else torch.tensor(bound)
            if limit.numel() == 1 and x.is_floating_point():
                x = x.clamp(min=float(limit)) if side is torch.maximum else x.clamp(max=float(limit))
            else:
                wide = torch.float64 if x.is_floating_point() else torch.int64
                x = side(x.to(wide), limit.to(wide)).to(x.dtype)
    return (x,)


# a bound that is computed brings its own error
register(Kind("clip", _clip, largest_error, exact=True, elementwise=True))


def _thresholded(attrs: Attrs, x: torch.Tensor) -> tuple[torch.Tensor]:
    return (torch.where(x > attrs.get("alpha", 1.0), x, torch.zeros_like(x)),)


def _thresholded_error(
    attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float
) -> tuple[Error]:
    x, e = inputs[0], errors[0]
    if e is None:
        return (None,)
    alpha = attrs.get("alpha", 1.0)  # the function jumps by alpha at alpha
    return (torch.where(mag(x - alpha) <= e, e + abs(alpha), e),)


register(Kind("thresholded_relu", _thresholded, _thresholded_error, exact=True, elementwise=True))


def _shrink(attrs: Attrs, x: torch.Tensor) -> tuple[torch.Tensor]:
    bias, lambd = attrs.get("bias", 0.0), attrs.get("lambd", 0.5)
    f = x.to(torch.float64)
    y = torch.where(f < -lambd, f + bias, torch.where(f > lambd, f - bias, torch.zeros_like(f)))
    return (y if x.is_floating_point() else y.to(x.dtype),)


def _shrink_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    bias, lambd = attrs.get("bias", 0.0), attrs.get("lambd", 0.5)
    x, e = inputs[0], errors[0]
    own = mag(x).add_(abs(bias)).mul_(u) if u and bias else None
    if e is None:
        return (own,)
    near = ((mag(x) - lambd).abs() <= e) & (e > 0)  # the function jumps by lambd - bias at lambd
    return (add_up(outputs[0], own, torch.where(near, e + abs(lambd - bias), e)),)


register(Kind("shrink", _shrink, _shrink_error, elementwise=True))


# ---- piecewise linear: u|y| where it scales, HardSigmoid u(alpha|x| + beta) on the ramp ----------


def _leaky(attrs: Attrs, x: torch.Tensor) -> tuple[torch.Tensor]:
    return (F.leaky_relu(x, attrs.get("alpha", 0.01)),)


def _leaky_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    slope = max(abs(attrs.get("alpha", 0.01)), 1.0)
    e = errors[0]
    own = scaled(inputs[0].clamp(max=0), u * abs(attrs.get("alpha", 0.01)))
    return (add_up(outputs[0], own, e if e is None or slope == 1.0 else e * slope),)


register(Kind("leaky_relu", _leaky, _leaky_error, elementwise=True))


def _prelu(attrs: Attrs, x: torch.Tensor, slope: torch.Tensor) -> tuple[torch.Tensor]:
    return (torch.where(x < 0, x * slope, x),)


def _prelu_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    (x, slope), (e, es), y = inputs, errors, outputs[0]
    negative = mag(x.clamp(max=0)) if x.is_floating_point() else mag(x)
    own = negative * mag(slope) * u if u and y.is_floating_point() else None
    moved = None if e is None else e * mag(slope).clamp_(min=1.0)
    return (add_up(y, own, moved, None if es is None else negative * es),)


register(Kind("prelu", _prelu, _prelu_error, elementwise=True))


def _hard_sigmoid(attrs: Attrs, x: torch.Tensor) -> tuple[torch.Tensor]:
    return (torch.mul(x, attrs.get("alpha", 0.2)).add_(attrs.get("beta", 0.5)).clamp_(0, 1),)


def _hard_sigmoid_error(
    attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float
) -> tuple[Error]:
    alpha, beta = abs(attrs.get("alpha", 0.2)), abs(attrs.get("beta", 0.5))
    x, y, e = inputs[0], outputs[0], errors[0]
    own = None
    if u:  # off the ramp nothing rounds; on it |alpha x| is below 1 + beta
        own = mag(x).mul_(alpha).clamp_(max=1 + beta).add_(beta).mul_(u)
        own.masked_fill_((y == 0) & (alpha * x.abs() > 1.01 * (1 + beta)), 0.0)
    return (add_up(y, own, None if e is None else e * alpha),)


register(Kind("hard_sigmoid", _hard_sigmoid, _hard_sigmoid_error, elementwise=True))


def _hard_swish(attrs: Attrs, x: torch.Tensor) -> tuple[torch.Tensor]:
    return (torch.add(x, 3.0).clamp_(0, 6).mul_(x).div_(6),)


def _hard_swish_error(
    attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float
) -> tuple[Error]:
    # |x| times the error of the ramp, u(|x|/6 + 1/2), and 2u|y|
    x, y, e = inputs[0], outputs[0], errors[0]
    own = None
    if u:
        size = mag(x)
        own = size.clamp(max=3).mul_(1 / 6).add_(0.5).mul_(size).mul_(u).add_(mag(y).mul_(2 * u))
        own.masked_fill_(x <= -3.001, 0.0)
    return (add_up(y, own, None if e is None else e * 1.5),)


register(Kind("hard_swish", _hard_swish, _hard_swish_error, elementwise=True))


# ---- smooth: absolute 8u for bounded ones, x-scaled for gates, and a Lipschitz constant for inherited
# errors -------


def smooth(
    name: str,
    fn: Callable[[Attrs, torch.Tensor], torch.Tensor],
    slope: float | Callable[[Attrs, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor],
    absolute: float = 0.0,
    by_x: float = 0.0,
    by_y: float = 0.0,
) -> None:
    """Register f with own error u (absolute + by_x |x| + by_y |y|)."""

    def evaluate(attrs: Attrs, x: torch.Tensor) -> tuple[torch.Tensor]:
        return (fn(attrs, x.to(torch.float64)),)

    def error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
        x, y, e = inputs[0], outputs[0], errors[0]
        own = add_up(y, scaled(x, by_x * u), scaled(y, by_y * u))
        if absolute and u:
            own = torch.full(y.shape, absolute * u) if own is None else own.add_(absolute * u)
        if e is None:
            return (own,)
        moved = slope(attrs, x, y, e) if callable(slope) else e * slope if slope != 1 else e
        return (add_up(y, own, moved),)

    register(Kind(name, evaluate, error, elementwise=True))


def _swish(attrs: Attrs, x: torch.Tensor) -> torch.Tensor:
    alpha = attrs.get("alpha", 1.0)
    return F.silu(x) if alpha == 1.0 else torch.sigmoid(x * alpha).mul_(x)


def _softplus(attrs: Attrs, x: torch.Tensor) -> torch.Tensor:
    beta = attrs.get("beta", 1.0)
    return torch.logaddexp(x * beta, torch.zeros((), dtype=x.dtype)) / beta


def _selu(attrs: Attrs, x: torch.Tensor) -> torch.Tensor:
    alpha, gamma = attrs.get("alpha", 1.6732632423543772), attrs.get("gamma", 1.0507009873554805)
    return gamma * torch.where(x > 0, x, alpha * torch.expm1(x.clamp(max=0)))


def _elu(attrs: Attrs, x: torch.Tensor) -> torch.Tensor:
    return torch.where(x > 0, x, attrs.get("alpha", 1.0) * torch.expm1(x.clamp(max=0)))


def _celu(attrs: Attrs, x: torch.Tensor) -> torch.Tensor:
    alpha = attrs.get("alpha", 1.0)
    return x.clamp(min=0) + (alpha * torch.expm1(x / alpha)).clamp(max=0)


def _steepest(key: str, default: float) -> Any:
    def slope(attrs: Attrs, x: torch.Tensor, y: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
        return e * max(1.0, abs(attrs.get(key, default)))

    return slope


def _bell(attrs: Attrs, x: torch.Tensor, y: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
    y32 = y.to(torch.float32)
    return (y32 * (1 - y32) + 0.1 * e).clamp_(max=0.25).mul_(e)  # |sigmoid''| < 0.1


def _flat(attrs: Attrs, x: torch.Tensor, y: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
    y32 = y.to(torch.float32)
    return (1 - y32 * y32 + 0.77 * e).clamp_(max=1.0).mul_(e)  # |tanh''| < 0.77


smooth("sigmoid", lambda a, x: torch.sigmoid(x), _bell, absolute=8)
smooth("tanh", lambda a, x: torch.tanh(x), _flat, absolute=8)
smooth("softsign", lambda a, x: F.softsign(x), 1.0, by_y=4)
smooth("log_sigmoid", lambda a, x: F.logsigmoid(x), 1.0, absolute=32, by_y=4)
smooth("softplus", _softplus, 1.0, absolute=32, by_y=4)
smooth("swish", _swish, _steepest("alpha", 1.1), by_x=8)
smooth("gelu", lambda a, x: F.gelu(x, approximate=a.get("approximate", "none")), 1.13, by_x=8)
smooth("mish", lambda a, x: F.mish(x), 1.09, by_x=8)
smooth("elu", _elu, _steepest("alpha", 1.0), absolute=4, by_y=4)
smooth("celu", _celu, 1.0, absolute=4, by_y=4)
smooth("selu", _selu, 1.76, absolute=8, by_y=4)


def _glu(attrs: Attrs, x: torch.Tensor) -> tuple[torch.Tensor]:
    a, b = x.chunk(2, attrs.get("axis", -1))
    return (a * torch.sigmoid(b),)


def _glu_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    axis = attrs.get("axis", -1)
    a = inputs[0].chunk(2, axis)[0]
    if errors[0] is None:
        return (scaled(a, 8 * u),)
    ea, eb = errors[0].chunk(2, axis)
    return (add_up(outputs[0], scaled(a, 8 * u), ea, mag(a) * eb * 0.25),)


register(Kind("glu", _glu, _glu_error))


# ---- softmax: y u (|x - max| + 4 + growth(n)); inherited y_i (e_i + sum_j y_j e_j) ---------------


def _softmax(attrs: Attrs, x: torch.Tensor) -> tuple[torch.Tensor]:
    return (torch.softmax(x, attrs.get("axis", -1)),)


def softmax_error(x: torch.Tensor, e: Error, y: torch.Tensor, axis: int, u: float) -> Error:
    """Bound of softmax(x) = y along an axis."""
    size = y.to(torch.float32)
    own = None
    if u:
        below = (x - x.amax(axis, keepdim=True)).to(torch.float32).abs_()
        below.masked_fill_(~torch.isfinite(below), 0.0)  # a masked position has y = 0 and does not round
        own = below.add_(4 + growth(x.shape[axis])).mul_(size).mul_(u)
    if e is None:
        return own
    moved = (e + (size * e).sum(axis, keepdim=True)).mul_(size)
    return moved if own is None else own.add_(moved)


def _softmax_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    return (softmax_error(inputs[0], errors[0], outputs[0], attrs.get("axis", -1), u),)


register(Kind("softmax", _softmax, _softmax_error))


def _log_softmax(attrs: Attrs, x: torch.Tensor) -> tuple[torch.Tensor]:
    return (torch.log_softmax(x, attrs.get("axis", -1)),)


def _log_softmax_error(
    attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float
) -> tuple[Error]:
    # u(|x| + |max| + |y|) for the subtractions, 4 + growth(n) units for the logarithm of the sum
    axis, x, y, e = attrs.get("axis", -1), inputs[0], outputs[0], errors[0]
    own = None
    if u:
        top = mag(x.amax(axis, keepdim=True))
        own = mag(x).add_(top).add_(mag(y)).add_(4 + growth(x.shape[axis])).mul_(u)
    if e is None:
        return (own,)
    shift = (y.exp().to(torch.float32) * e).sum(axis, keepdim=True)
    return (add_up(y, own, e, shift),)


register(Kind("log_softmax", _log_softmax, _log_softmax_error))


def _hardmax(attrs: Attrs, x: torch.Tensor) -> tuple[torch.Tensor]:
    axis = attrs.get("axis", -1)
    return (torch.zeros_like(x).scatter_(axis, x.argmax(axis, keepdim=True), 1.0),)


def _hardmax_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    x, e, axis = inputs[0], errors[0], attrs.get("axis", -1)
    best = x.amax(axis, keepdim=True)
    slack = torch.zeros((), dtype=torch.float32) if e is None else e + e.amax(axis, keepdim=True)
    close = (best - x).to(torch.float32) <= slack
    tied = close.sum(axis, keepdim=True) > 1
    return ((close & tied).to(torch.float32),)


register(Kind("hardmax", _hardmax, _hardmax_error, discrete=True))
