"""Floor by experiment, for layers whose rounding has no closed form: they are run again with inputs moved by rounding.

Three runs with every float operand moved by +-(u|x| + e); the largest deviation, over the runs and over the
last axis, times sqrt(width), plus 4u. The width is the number of terms that meet in one step of the layer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from twinnet.layers.kinds._base import Attrs, Error

__all__ = ["fourier_error", "jitter_error"]

RUNS = 3


def jitter_error(
    run: Callable[..., tuple[Any, ...]],
    inputs: Sequence[Any],
    errors: Sequence[Error],
    outputs: Sequence[Any],
    u: float,
    width: int,
) -> tuple[Error, ...]:
    """A bound for each float or complex output; integers and bool get None where no run changed them, else `inf`."""
    if u == 0 and all(e is None for e in errors):
        return (None,) * len(outputs)
    worst: list[torch.Tensor | None] = [None] * len(outputs)
    for seed in range(RUNS):
        generator = torch.Generator().manual_seed(seed)
        again = run(*[_moved(x, e, u, generator) for x, e in zip(inputs, errors)])
        for i, (y, z) in enumerate(zip(outputs, again)):
            if not isinstance(y, torch.Tensor) or not isinstance(z, torch.Tensor):
                continue
            if y.shape != z.shape:
                worst[i] = torch.full(y.shape, math.inf)
                continue
            if _real(y):
                gap = (y - z).abs()
                gap = torch.where(gap.isnan(), 0.0, gap).to(torch.float32)
            else:
                gap = torch.where(y != z, math.inf, 0.0).to(torch.float32)
            before = worst[i]
            worst[i] = gap if before is None else torch.maximum(before, gap)
    result: list[Error] = []
    for y, gap in zip(outputs, worst):
        if gap is None:
            result.append(None)
        elif _real(y):
            if gap.dim() and gap.numel():
                gap = gap.amax(-1, keepdim=True).expand(gap.shape)
            result.append(gap * math.sqrt(max(width, 1)) + 4 * u)
        else:
            result.append(gap if bool((gap > 0).any()) else None)
    return tuple(result)


def fourier_error(
    attrs: Attrs,
    run: Callable[..., tuple[Any, ...]],
    inputs: Sequence[Any],
    errors: Sequence[Error],
    outputs: Sequence[Any],
    u: float,
) -> tuple[Error, ...]:
    """A bound for a Fourier transform along `axes` of `lengths`: each result rounds at the size of all of them.

    4 units for each of the log2 n stages. Another length than a power of 2 goes by Bluestein's algorithm, whose angles
    of up to pi n are rounded three times; an engine that lets them cost more than 64 units has lost digits.
    """
    y, axes = outputs[0], attrs["axes"]
    units = 4.0
    for n in attrs["lengths"]:
        units += 4 * math.log2(max(n, 2)) + (min(3 * math.pi * n, 64.0) if n & (n - 1) else 0.0)
    own = (y.abs() ** 2).mean(axes, keepdim=True).sqrt().to(torch.float32).mul_(units * u).expand(y.shape)
    moved = jitter_error(run, inputs, errors, outputs, 0.0, max(attrs["lengths"]))[0]
    return (own if moved is None else own + moved,)


def _real(x: torch.Tensor) -> bool:
    """Whether a tensor is rounded; a bound of complex numbers is one of their modulus."""
    return x.is_floating_point() or x.is_complex()


def _moved(x: Any, e: Error, u: float, generator: torch.Generator) -> Any:
    if not isinstance(x, torch.Tensor) or not _real(x):
        return x
    parts = (*x.shape, 2) if x.is_complex() else x.shape
    sign = torch.randint(0, 2, parts, generator=generator, dtype=torch.int8).mul_(2).sub_(1)
    if x.is_complex():
        sign = torch.view_as_complex(sign.to(torch.float64))
    amount = x.abs() * u
    if e is not None:
        amount = amount + e
    return x + amount * sign
