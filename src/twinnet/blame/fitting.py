"""Solving instead of searching: factors, offsets and single numbers that turn one tensor into another."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

__all__ = ["Affine", "fit_channels", "fit_number", "nice"]

_FLOORS = 4.0
"""A channel is off if an element of it is by more noise floors than this."""
_STEPS = 12
_ROUND = [n / d for d in (1, 2, 3, 4, 5, 8, 10, 100) for n in range(21)] + [
    127 / 128,
    255.0,
    256.0,
    1 / 255,
    1 / 256,
]


def nice(value: float, tolerance: float = 2e-4) -> float | None:
    """The round number that `value` is close to, or None.

    >>> nice(1.50004), nice(-0.33334), nice(1.2345)
    (1.5, -0.3333333333333333, None)
    """
    best = min(_ROUND, key=lambda r: abs(abs(value) - r))
    if abs(abs(value) - best) <= tolerance * max(abs(best), 1e-3):
        return math.copysign(best, value) if best else 0.0
    power = round(math.log10(abs(value))) if value and math.isfinite(value) else 0
    if value and abs(abs(value) / 10.0**power - 1) < tolerance:
        return math.copysign(10.0**power, value)
    return None


@dataclass(frozen=True)
class Affine:
    """Per channel: got = factor * value, and got = value + offset, each fitted alone; and which channels are off."""

    factor: torch.Tensor
    offset: torch.Tensor
    affected: torch.Tensor
    factor_all: float
    offset_all: float


def fit_channels(
    value: torch.Tensor,
    got: torch.Tensor,
    mask: torch.Tensor,
    axis: int,
    floor: torch.Tensor,
) -> Affine:
    """Least squares of a factor and of an offset per channel along `axis`, where `mask` holds."""
    axes = [a for a in range(value.dim()) if a != axis % value.dim()]
    v, t = torch.where(mask, value, 0.0), torch.where(mask, got, 0.0)

    def total(x: torch.Tensor) -> torch.Tensor:
        return x.sum(axes) if axes else x

    vv, vt, n, d = total(v * v), total(v * t), total(mask.double()), total(t - v)
    off = torch.where(mask, (got - value).abs() / floor, 0.0)
    worst = off.amax(axes) if axes else off
    return Affine(
        factor=vt / vv.clamp_min(1e-300),
        offset=d / n.clamp_min(1),
        affected=worst > _FLOORS,
        factor_all=float(vt.sum() / vv.sum().clamp_min(1e-300)),
        offset_all=float(d.sum() / n.sum().clamp_min(1)),
    )


def fit_number(
    run: Callable[[float], torch.Tensor | None], start: float, wanted: torch.Tensor
) -> float | None:
    """The number for which `run` comes closest to `wanted`, by Gauss-Newton with a numeric slope; else None."""
    at = start
    for _ in range(_STEPS):
        h = max(abs(at) * 1e-4, 1e-9)
        here, there = run(at), run(at + h)
        if here is None or there is None or here.shape != wanted.shape:
            return None
        good = here.isfinite() & there.isfinite() & wanted.isfinite()
        slope = torch.where(good, (there - here) / h, 0.0)
        rest = torch.where(good, wanted - here, 0.0)
        bend = float((slope * slope).sum())
        if bend == 0 or not math.isfinite(bend):
            return None
        move = float((slope * rest).sum()) / bend
        at += move
        if not math.isfinite(at):
            return None
        if abs(move) <= 1e-9 * max(abs(at), 1e-12):
            break
    return at
