"""Quantisation: one step, and only where the scaled value lies within its error of a rounding tie."""

from __future__ import annotations

from typing import Any

import torch

from twinnet.layers.kinds._base import (
    Attrs,
    Error,
    Errors,
    Kind,
    Tensors,
    add_up,
    along,
    mag,
    operand,
    register,
    scaled,
)
from twinnet.layers.kinds.discrete import steps_across


def _along(t: Any, x: torch.Tensor, attrs: Attrs) -> torch.Tensor:
    """Scale or zero point in a shape that broadcasts: per tensor, per channel, or per block of an axis."""
    t = t if isinstance(t, torch.Tensor) else torch.tensor(t)
    if t.numel() == 1:
        return t.reshape(())
    axis = attrs.get("axis", 1) % x.dim()
    block = attrs.get("block", 0)
    if t.dim() > 1:
        block = block or -(-x.shape[axis] // t.shape[axis])
        return t.repeat_interleave(block, axis).narrow(axis, 0, x.shape[axis])
    return along(t, axis, x.dim())


def _target(attrs: Attrs, zero: Any) -> torch.dtype:
    if isinstance(zero, torch.Tensor):
        return attrs.get("to") or zero.dtype
    return attrs.get("to") or torch.uint8


def _range(attrs: Attrs, to: torch.dtype) -> tuple[float, float]:
    info = torch.iinfo(to) if not to.is_floating_point else torch.finfo(to)
    return attrs.get("qmin", info.min), attrs.get("qmax", info.max)


def _parts(attrs: Attrs, inputs: Tensors) -> tuple[torch.Tensor, torch.Tensor | float, torch.dtype]:
    x = inputs[0].to(torch.float64)
    scale = _along(operand(attrs, "scale", inputs, 1), x, attrs).to(torch.float64)
    zero = operand(attrs, "zero", inputs, 2)
    to = _target(attrs, zero)
    offset = 0.0 if zero is None else _along(zero, x, attrs).to(torch.float64)
    return x / scale, offset, to


def _rounded(v: torch.Tensor, to: torch.dtype) -> torch.Tensor:
    return v.to(to).to(torch.float64) if to.is_floating_point else v.round()


def _quantize(attrs: Attrs, *inputs: Any) -> tuple[torch.Tensor]:
    steps, offset, to = _parts(attrs, inputs)
    low, high = _range(attrs, to)
    if to.is_floating_point:
        return (steps.clamp(low, high).to(to).to(torch.float64),)
    return ((steps.round() + offset).clamp(low, high).to(to),)


def _quantize_error(
    attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float
) -> tuple[Error]:
    # margin in steps: e/s + 2u |x/s|
    steps, _, to = _parts(attrs, inputs)
    scale = _along(operand(attrs, "scale", inputs, 1), inputs[0], attrs)
    inherited = None if errors[0] is None else errors[0] / mag(scale)
    e_scale = errors[1] if len(errors) > 1 else None
    moved = None if e_scale is None else mag(steps) * (_along(e_scale, inputs[0], attrs) / mag(scale))
    margin = add_up(outputs[0], scaled(steps, 2 * u), inherited, moved)
    slack, share = (attrs.get("slack", 0.0), attrs.get("share", 0.0)) if u else (0.0, 0.0)
    if margin is None and not slack and not share:
        return (None,)
    fixed = mag(steps) * share + slack
    margin = fixed if margin is None else margin + fixed
    across = steps_across(steps, margin, lambda v: _rounded(v, to))
    if to.is_floating_point:
        return (across,)
    low, high = _range(attrs, to)
    inner = (outputs[0].to(torch.float64) > low) & (outputs[0].to(torch.float64) < high)
    assert across is not None
    return (torch.where(inner, across, across.clamp(max=1.0)),)


register(Kind("quantize_linear", _quantize, _quantize_error, discrete=True))


# dequantize: (q - z) s: u|y| + e s


def _dequantize(attrs: Attrs, *inputs: Any) -> tuple[torch.Tensor]:
    q = inputs[0].to(torch.float64)
    zero = operand(attrs, "zero", inputs, 2)
    centred = q if zero is None else q - _along(zero, q, attrs).to(torch.float64)
    return (centred * _along(operand(attrs, "scale", inputs, 1), q, attrs).to(torch.float64),)


def _dequantize_error(
    attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float
) -> tuple[Error]:
    y = outputs[0]
    scale = _along(operand(attrs, "scale", inputs, 1), inputs[0], attrs)
    moved = None if errors[0] is None else errors[0] * mag(scale)
    e_scale = errors[1] if len(errors) > 1 else None
    if e_scale is not None:
        moved = add_up(y, moved, mag(y) * (_along(e_scale, inputs[0], attrs) / mag(scale)))
    return (add_up(y, scaled(y, u), moved),)


register(Kind("dequantize_linear", _dequantize, _dequantize_error))


# dynamic_quantize_linear: range of the data -> uint8


def _dynamic(attrs: Attrs, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    low, high = x.min().clamp(max=0), x.max().clamp(min=0)
    scale = (high - low) / 255
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    zero = (-low / scale).clamp(0, 255).round()
    y = ((x / scale).round() + zero).clamp(0, 255).to(torch.uint8)
    return y, scale, zero.to(torch.uint8)


def _dynamic_error(
    attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float
) -> tuple[Error, ...]:
    x, e = inputs[0], errors[0]
    y, scale, _ = outputs
    spread = torch.zeros(()) if e is None else 2 * e.max()
    e_scale = spread / 255 + mag(scale) * (2 * u)
    low = x.min().clamp(max=0)
    e_zero = steps_across(
        -low / scale, spread / mag(scale) + mag(low / scale) * (4 * u + e_scale / mag(scale)), torch.round
    )
    steps = x / scale
    margin = mag(steps).mul_(2 * u + float(e_scale / mag(scale)))
    if e is not None:
        margin = margin + e / mag(scale)
    across = steps_across(steps, margin, torch.round)
    return (add_up(y, across, e_zero), e_scale, e_zero)


register(Kind("dynamic_quantize_linear", _dynamic, _dynamic_error, discrete=True))


# dynamic_step: real data that dynamic_quantize_linear would hold in 255 steps: off by half of one; scale 1, zero 0.
# Symmetric ones count to 127 on either side of zero.


def _dynamic_step(attrs: Attrs, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return x, torch.ones((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)


def _dynamic_step_error(
    attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float
) -> tuple[Error, ...]:
    x = inputs[0]
    high, low = mag(x.max().clamp(min=0)), mag(x.min().clamp(max=0))
    half = torch.maximum(high, low) / 254 if attrs.get("symmetric") else (high + low) / 510
    own = None if u == 0 else half.expand(x.shape)
    return (add_up(x, own, scaled(x, 2 * u), errors[0]), None, None)


register(Kind("dynamic_step", _dynamic_step, _dynamic_step_error))
