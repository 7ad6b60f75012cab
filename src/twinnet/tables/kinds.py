"""The steps of lookup-table networks: planes, lookups, the shuffle of their blocks, exact sums, requantisation.

What each computes is said by `attrs["step"]` (`twinnet.lut.variants`); values are in pixel units. Arithmetic is in
whole numbers, so nothing rounds; only an entry of a table may be off, by the `slack` its step states.

| kind | inputs | attributes |
|---|---|---|
| planes | image | the 8-bit planes of an image: [planes, 1, rows, columns] |
| stack_planes | registers... | planes=((operand, channel), ...) |
| lookup | registers... | step: Lookup |
| place | x | step: Place, denominator: what its numerators are over |
| sum_lookups | x... | step: Sum |
| requant | x | step: Requantise |
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from twinnet.layers.kinds import Attrs, Error, Errors, Kind, Tensors, register

_NOTHING = 2.0**-20
"""Far below one numerator, far above what a division in float32 leaves."""


def _whole(x: torch.Tensor) -> np.ndarray:
    return np.rint(x.numpy()).astype(np.int64)


def _off(like: torch.Tensor, by: float = _NOTHING) -> torch.Tensor:
    return torch.full(like.shape, by, dtype=torch.float32)


# ---- planes: the 8-bit planes of an image ----------------------------------------------------------


def _planes(attrs: Attrs, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
    # uint8 images are pixels already; floats are in [0, 1].
    pixels = image if not image.is_floating_point() else (image.clamp(0, 1) * 255).round()
    return (pixels.to(torch.float64).reshape(-1, 1, *image.shape[-2:]),)


def _stack(attrs: Attrs, *registers: torch.Tensor) -> tuple[torch.Tensor, ...]:
    taken = [registers[number][:, channel] for number, channel in attrs["planes"]]
    return (torch.stack(taken, 1),)


def _exact(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error, ...]:
    inherited = any(e is not None and bool((e > 0.5).any()) for e in errors)
    return (_off(outputs[0], float("inf") if inherited else _NOTHING),)


register(Kind("planes", _planes, _exact))
register(Kind("stack_planes", _stack, _exact))


# ---- lookup ----------------------------------------------------------------------------------------


def _lookup(attrs: Attrs, *registers: torch.Tensor) -> tuple[torch.Tensor, ...]:
    step = attrs["step"]
    known = {name: _whole(value) for name, value in zip(step.registers, registers)}
    return (torch.from_numpy(step(known)),)


def _lookup_error(
    attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float
) -> tuple[Error, ...]:
    if any(e is not None and bool((e > 0.5).any()) for e in errors):
        return (_off(outputs[0], float("inf")),)  # another pixel may mean any other row
    return (_off(outputs[0], attrs["step"].slack + _NOTHING),)


register(Kind("lookup", _lookup, _lookup_error))


# ---- place, sum, requant ---------------------------------------------------------------------------


def _place(attrs: Attrs, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (torch.from_numpy(np.ascontiguousarray(attrs["step"](x.numpy()))),)


def _place_error(
    attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float
) -> tuple[Error, ...]:
    (error,) = errors
    return (_off(outputs[0]) if error is None else _place(attrs, error.expand(inputs[0].shape))[0],)


def _sum(attrs: Attrs, *values: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (torch.from_numpy(attrs["step"](*(v.numpy() for v in values))),)


def _sum_error(
    attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float
) -> tuple[Error, ...]:
    total = _off(outputs[0])
    for error in errors:
        total = total if error is None else total + error
    return (total,)


def _requant(attrs: Attrs, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (torch.from_numpy(np.asarray(attrs["step"](x.numpy()))),)


def _requant_error(
    attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float
) -> tuple[Error, ...]:
    error: Any = errors[0]
    if error is None:
        return (_off(outputs[0]),)
    if not bool(torch.isfinite(error).all()):
        return (_off(outputs[0], float("inf")),)
    # Less than a numerator is nothing: a sum that lies half way between two results stays there, however it is rounded.
    over = attrs["step"].denominator
    error = (error.double() * over + 0.25).floor() / over
    ends = [_requant(attrs, inputs[0] + sign * error)[0] for sign in (-1, 1)]
    reach = torch.maximum((ends[0] - outputs[0]).abs(), (ends[1] - outputs[0]).abs())
    return (reach.to(torch.float32) + _NOTHING,)


register(Kind("place", _place, _place_error))
register(Kind("sum_lookups", _sum, _sum_error))
register(Kind("requant", _requant, _requant_error))
