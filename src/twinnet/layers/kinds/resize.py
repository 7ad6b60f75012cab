"""Resizing, one axis at a time: each output is a few weighted inputs, found from a coordinate.

Engines compute the coordinates in float32. Values are computed with such coordinates; where float64
coordinates would pick another pixel, the difference is part of the bound. Floor of the interpolating modes:
4u * size * max|x| (the rounding of a coordinate of that size, times the steepest possible slope), the maximum
taken per plane, and for twins finer than float32 what float64 coordinates change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from twinnet.layers.kinds import ints
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
    operand,
    register,
)

_COORDINATES = 2.0**-24
"""Unit roundoff of the coordinates."""


@dataclass(frozen=True)
class Taps:
    """For each output position of one axis: which inputs, with which weights, and whether it lies outside."""

    axis: int
    index: torch.Tensor
    weight: torch.Tensor | None
    outside: torch.Tensor | None


@dataclass(frozen=True)
class _Axis:
    axis: int
    size: int
    out: int
    scale: float
    roi: tuple[float, float]


def _axes(attrs: Attrs, inputs: Tensors) -> list[_Axis]:
    x = inputs[0]
    roi, scales, sizes = (operand(attrs, n, inputs, i + 1) for i, n in enumerate(("roi", "scales", "sizes")))
    along = [a % x.dim() for a in attrs.get("axes") or range(x.dim())]

    def floats(value: Any) -> list[float]:
        return [float(v) for v in (value.tolist() if isinstance(value, torch.Tensor) else value)]

    if sizes is not None and len(sizes):
        wanted = list(ints(sizes) or ())
        policy = attrs.get("policy", "stretch")
        if policy != "stretch":
            pick = min if policy == "not_larger" else max
            factor = pick(w / x.shape[a] for w, a in zip(wanted, along))
            wanted = [math.floor(factor * x.shape[a] + 0.5) for a in along]
            rates = [factor] * len(along)
        else:
            rates = [w / x.shape[a] for w, a in zip(wanted, along)]
        given = attrs.get("scales_used")  # torch may use the scale it was given although the size was rounded
        rates = [r if g is None else g for r, g in zip(rates, given)] if given else rates
    else:
        rates = floats(scales)
        wanted = [math.floor(x.shape[a] * r + 1e-9) for a, r in zip(along, rates)]
    box = floats(roi) if roi is not None and len(roi) else [0.0] * len(along) + [1.0] * len(along)
    half = len(along)
    return [
        _Axis(a, x.shape[a], m, r, (box[i], box[half + i]))
        for i, (a, m, r) in enumerate(zip(along, wanted, rates))
    ]


def _coordinates(how: str, axis: _Axis, dtype: torch.dtype) -> torch.Tensor:
    n, m = axis.size, axis.out
    i = torch.arange(m, dtype=dtype)
    scale = torch.tensor(axis.scale, dtype=dtype)
    if how == "half_pixel" or (how == "pytorch_half_pixel" and m > 1):
        return (i + 0.5) / scale - 0.5
    if how == "pytorch_half_pixel":
        return torch.zeros(m, dtype=dtype)
    if how == "half_pixel_symmetric":
        offset = n / 2 * (1 - m / (scale * n))
        return offset + (i + 0.5) / scale - 0.5
    if how == "align_corners":
        return i * torch.tensor((n - 1) / (m - 1), dtype=dtype) if m > 1 else torch.zeros(m, dtype=dtype)
    if how == "asymmetric":
        return i / scale
    if how == "tf_crop_and_resize":
        start, end = axis.roi
        if m > 1:
            return start * (n - 1) + i * torch.tensor((end - start) * (n - 1) / (m - 1), dtype=dtype)
        return torch.full((m,), 0.5 * (start + end) * (n - 1), dtype=dtype)
    raise ValueError(f"unknown coordinates {how!r} of a resize")


def _cubic(d: torch.Tensor, a: float) -> torch.Tensor:
    d = d.abs()
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = a * (((d - 5) * d + 8) * d - 4)
    return torch.where(d <= 1, near, torch.where(d < 2, far, torch.zeros_like(d)))


def _taps(attrs: Attrs, axis: _Axis, dtype: torch.dtype) -> Taps:
    how = attrs.get("coordinates", "half_pixel")
    place = _coordinates(how, axis, dtype)
    last = axis.size - 1
    outside = None
    if how == "tf_crop_and_resize":
        outside = (place < 0) | (place > last)
    mode = attrs.get("mode", "nearest")
    if mode == "nearest":
        rule = attrs.get("nearest", "round_prefer_floor")
        index = {
            "floor": lambda: place.floor(),
            "ceil": lambda: place.ceil(),
            "round_prefer_floor": lambda: (place - 0.5).ceil(),
            "round_prefer_ceil": lambda: (place + 0.5).floor(),
        }[rule]()
        return Taps(axis.axis, index.to(torch.int64).clamp(0, last).unsqueeze(1), None, outside)
    place = place.to(torch.float64)
    shrink = min(axis.scale, 1.0) if attrs.get("antialias") else 1.0
    reach = 1 if mode == "linear" else 2
    first = math.floor(-reach / shrink) + 1
    offsets = torch.arange(first, 1 - first + 1)
    base = place.floor()
    away = (offsets.to(torch.float64) - (place - base).unsqueeze(1)) * shrink
    if mode == "linear":
        weight = (1 - away.abs()).clamp(min=0)
    else:
        weight = _cubic(away, attrs.get("cubic_a", -0.75))
    index = base.to(torch.int64).unsqueeze(1) + offsets
    exclude = attrs.get("exclude_outside")
    if exclude:
        weight = torch.where((index >= 0) & (index <= last), weight, 0.0)
    if exclude or shrink != 1.0:
        weight = weight / weight.sum(1, keepdim=True)
    return Taps(axis.axis, index.clamp(0, last), weight, outside)


def _apply(x: torch.Tensor, taps: list[Taps], absolute: bool = False) -> torch.Tensor:
    for t in taps:
        size = x.shape[t.axis]
        if t.weight is None:
            x = _picked(x, t.axis, t.index[:, 0], size)
            continue
        total: torch.Tensor | None = None
        for k in range(t.index.shape[1]):
            weight = t.weight[:, k]
            if not bool(weight.any()):
                continue
            part = x.index_select(t.axis, t.index[:, k])
            scale = along((weight.abs() if absolute else weight).to(x.dtype), t.axis, x.dim())
            total = part.mul_(scale) if total is None else total.addcmul_(part, scale)
        assert total is not None
        x = total
    return x


def _picked(x: torch.Tensor, axis: int, index: torch.Tensor, size: int) -> torch.Tensor:
    """index_select, as a plain repetition where every input is taken the same number of times in order."""
    count = len(index)
    if count == size and bool((index == torch.arange(size)).all()):
        return x
    factor = count // size if size else 0
    if factor > 1 and factor * size == count and bool((index == torch.arange(count) // factor).all()):
        wide = x.unsqueeze(axis + 1)
        return wide.expand(*x.shape[: axis + 1], factor, *x.shape[axis + 1 :]).flatten(axis, axis + 1)
    return x.index_select(axis, index)


def _moved_axes(attrs: Attrs, inputs: Tensors) -> list[_Axis]:
    how = attrs.get("coordinates", "half_pixel")
    return [
        a for a in _axes(attrs, inputs) if a.out != a.size or a.scale != 1.0 or how == "tf_crop_and_resize"
    ]


def _outside(attrs: Attrs, y: torch.Tensor, taps: list[Taps], value: float) -> torch.Tensor:
    for t in taps:
        if t.outside is not None and bool(t.outside.any()):
            outside = along(t.outside, t.axis, y.dim())
            y = torch.where(outside, torch.tensor(value, dtype=y.dtype), y)
    return y


def _resize(attrs: Attrs, *inputs: Any) -> tuple[torch.Tensor]:
    x = inputs[0]
    taps = [_taps(attrs, a, torch.float32) for a in _moved_axes(attrs, inputs)]
    if not x.is_floating_point() and attrs.get("mode", "nearest") != "nearest":
        return (_apply(x.to(torch.float64), taps).round().to(x.dtype),)
    return (_outside(attrs, _apply(x, taps), taps, attrs.get("extrapolation", 0.0)),)


def _resize_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    x, e, y = inputs[0], errors[0], outputs[0]
    axes = _moved_axes(attrs, inputs)
    taps = [_taps(attrs, a, torch.float32) for a in axes]
    moved = None if e is None else _outside(attrs, _apply(e, taps, absolute=True), taps, 0.0)
    if u == 0 or not axes:
        return (moved,)
    if attrs.get("mode", "nearest") == "nearest":
        exact = [_taps(attrs, a, torch.float64) for a in axes]
        if all(torch.equal(s.index, t.index) for s, t in zip(taps, exact)):
            return (moved,)
        other = _outside(attrs, _apply(x, exact), exact, attrs.get("extrapolation", 0.0))
        return (add_up(y, moved, mag(other - y)),)
    spatial = tuple(sorted(a.axis for a in axes))
    peak = mag(x).amax(spatial, keepdim=True)
    size = sum(max(a.size, a.out / max(a.scale, 1e-30)) for a in axes)
    own = (peak * (4 * u * size)).expand(y.shape)
    if (
        u < _COORDINATES
    ):  # a twin this fine may compute its coordinates in float64, or in float32 as others do
        exact = [_taps(attrs, a, torch.float64) for a in axes]
        other = _outside(attrs, _apply(x, exact), exact, attrs.get("extrapolation", 0.0))
        own = own + mag(other - y)
    return (add_up(y, own, moved),)


register(Kind("resize", _resize, _resize_error))


# ---- sampling at given places ----------------------------------------------------------------------

_MODE = {"linear": "bilinear", "nearest": "nearest", "cubic": "bicubic"}


def _sample(attrs: Attrs, x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
    mode = _MODE[attrs.get("mode", "linear")]
    return F.grid_sample(x, grid, mode, attrs.get("padding", "zeros"), bool(attrs.get("align_corners")))


def _sample_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    # a coordinate is off by (4u + grid error/2) * size; the slope is at most twice the peak of the
    # plane (3x: cubic)
    x, grid = inputs
    e, e_grid = errors
    y, size = outputs[0], sum(x.shape[2:])
    peak = mag(x).amax(tuple(range(2, x.dim())), keepdim=True) * (3 if attrs.get("mode") == "cubic" else 2)
    off = None if u == 0 else torch.full((1,) * y.dim(), 4 * u * size)
    if e_grid is not None:
        shift = e_grid.amax(-1).unsqueeze(1) * (max(x.shape[2:]) / 2)
        off = shift if off is None else off + shift
    moved = None if off is None else off * peak
    if moved is not None and off is not None and attrs.get("mode") == "nearest":
        half = torch.tensor(list(reversed(x.shape[2:])), dtype=torch.float64)
        span = half - 1 if attrs.get("align_corners") else half
        place = (grid + 1) / 2 * span - (0 if attrs.get("align_corners") else 0.5)
        tie = (place - place.floor() - 0.5).abs().amin(-1).unsqueeze(1).to(torch.float32)
        moved = torch.where(tie <= off, peak, torch.zeros_like(peak))
    spread = None
    if e is not None:
        spread = _sample(
            {**attrs, "mode": "linear" if attrs.get("mode") == "cubic" else attrs.get("mode", "linear")},
            e.to(torch.float64),
            grid,
        ).to(torch.float32)
        if attrs.get("mode") == "cubic":
            spread = e.amax(tuple(range(2, e.dim())), keepdim=True) * 2.0
    return (add_up(y, moved, spread),)


register(Kind("grid_sample", lambda attrs, x, grid: (_sample(attrs, x, grid),), _sample_error))


def _affine_grid(attrs: Attrs, theta: torch.Tensor, size: Any = None) -> tuple[torch.Tensor]:
    wanted = list(ints(operand(attrs, "size", (theta, size), 1)) or ())
    return (F.affine_grid(theta, wanted, bool(attrs.get("align_corners"))),)


def _affine_grid_error(
    attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float
) -> tuple[Error]:
    # |base coordinates| <= 1, so each row of theta bounds its sum
    rows = mag(inputs[0]) * (growth(4) * u * 2)
    if errors[0] is not None:
        rows = rows + errors[0]
    y = outputs[0]
    total = rows.sum(-1)
    return (total.reshape((total.shape[0],) + (1,) * (y.dim() - 2) + (total.shape[1],)).expand(y.shape),)


register(Kind("affine_grid", _affine_grid, _affine_grid_error))
