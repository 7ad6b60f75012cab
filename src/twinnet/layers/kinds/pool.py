"""Pooling. Maximum: exact. Averages: max(sqrt n, n/100) * u * (average of |x|)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from twinnet.layers.kinds import ints
from twinnet.layers.kinds._base import (
    Attrs,
    Error,
    Errors,
    Flips,
    Kind,
    Tensors,
    add_up,
    growth,
    mag,
    operand,
    register,
    scaled,
)
from twinnet.layers.kinds._conv64 import pad_data
from twinnet.layers.kinds.structural import moving

_SUM = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
_MAX: dict[int, Callable[..., Any]] = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}


class Window:
    """Kernel, strides, dilations, pads and output sizes of one pooling call."""

    def __init__(self, attrs: Attrs, sizes: Sequence[int]) -> None:
        k = len(sizes)
        self.kernel = tuple(attrs["kernel"])
        self.strides = tuple(attrs.get("strides") or (1,) * k)
        self.dilations = tuple(attrs.get("dilations") or (1,) * k)
        span = [d * (n - 1) + 1 for d, n in zip(self.dilations, self.kernel)]
        auto = attrs.get("auto_pad")
        pads: list[int] = list(attrs.get("pads") or (0,) * (2 * k))
        if auto:
            for i in range(k):
                total = max(
                    (math.ceil(sizes[i] / self.strides[i]) - 1) * self.strides[i] + span[i] - sizes[i], 0
                )
                small, large = total // 2, total - total // 2
                pads[i], pads[k + i] = (small, large) if auto == "same_upper" else (large, small)
        self.pads = pads
        out, extra = [], []
        for i in range(k):
            room = sizes[i] + pads[i] + pads[k + i] - span[i]
            count = room // self.strides[i] + 1
            if attrs.get("ceil_mode"):
                count = -(-room // self.strides[i]) + 1
                if (count - 1) * self.strides[i] >= sizes[i] + pads[
                    i
                ]:  # no window may start in the end padding
                    count -= 1
            out.append(count)
            extra.append(max((count - 1) * self.strides[i] - room, 0))
        self.out = tuple(out)
        self.extra = [0] * k + extra

    def fill(self, x: torch.Tensor, value: float) -> torch.Tensor:
        """The data with its padding, and with what the last rounded-up window needs."""
        return pad_data(pad_data(x, self.pads, value), self.extra, value)

    def total(self, padded: torch.Tensor) -> torch.Tensor:
        """Sum over each window of data that is padded with zeros."""
        k = len(self.kernel)
        if all(d == 1 for d in self.dilations):
            mean = _SUM[k](padded, self.kernel, self.strides)
            return self._crop(mean * math.prod(self.kernel))
        parts = []
        for tap in itertools.product(*[range(n) for n in self.kernel]):
            where = [
                slice(t * d, t * d + (o - 1) * s + 1, s)
                for t, d, o, s in zip(tap, self.dilations, self.out, self.strides)
            ]
            parts.append(padded[(slice(None), slice(None), *where)])
        return torch.stack(parts).sum(0)

    def _crop(self, y: torch.Tensor) -> torch.Tensor:
        for i, size in enumerate(self.out):
            y = y.narrow(2 + i, 0, size)
        return y


# ---- maximum -------------------------------------------------------------------------------------


def _max_pool(attrs: Attrs, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    k = x.dim() - 2
    window = Window(attrs, x.shape[2:])
    padded = window.fill(x.to(torch.float64), -math.inf)
    y, index = _MAX[k](padded, window.kernel, window.strides, 0, window.dilations, return_indices=True)
    y, index = window._crop(y), window._crop(index)
    return y.to(x.dtype), _original_index(attrs, index, padded.shape, x.shape, window.pads)


def _original_index(
    attrs: Attrs, index: torch.Tensor, padded: Any, shape: Any, pads: list[int]
) -> torch.Tensor:
    """Flat positions in a padded plane -> flat positions in the tensor (or in its plane, as torch has it)."""
    k = len(shape) - 2
    coordinates = []
    for i in reversed(range(k)):
        coordinates.append(index % padded[2 + i] - pads[i])
        index = index // padded[2 + i]
    coordinates.reverse()
    order = list(range(k)) if not attrs.get("storage_order") else list(reversed(range(k)))
    flat = torch.zeros_like(index)
    for i in order:
        flat = flat * shape[2 + i] + coordinates[i]
    if attrs.get("index_base") == "plane":
        return flat
    plane = math.prod(shape[2:])
    first = torch.arange(shape[0] * shape[1]).reshape(shape[0], shape[1], *[1] * k)
    return flat + first * plane


def _max_pool_error(
    attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float
) -> tuple[Error, ...]:
    e = errors[0]
    if e is None:
        return (None,) * len(outputs)
    window = Window(attrs, inputs[0].shape[2:])
    pooled = window._crop(
        _MAX[e.dim() - 2](window.fill(e, 0.0), window.kernel, window.strides, 0, window.dilations)
    )
    return (pooled, torch.full_like(pooled, math.inf))[: len(outputs)]


def _max_pool_ties(
    attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors
) -> tuple[Flips | None, ...]:
    x, e = inputs[0], errors[0]
    (slack, *_) = _max_pool_error(attrs, inputs, errors, outputs, 0.0)

    def ties(got: torch.Tensor) -> torch.Tensor:
        if attrs.get("index_base") == "plane" or attrs.get("storage_order"):
            return torch.zeros(got.shape, dtype=torch.bool)
        inside = (got >= 0) & (got < x.numel())
        place = torch.where(inside, got, 0)
        below = outputs[0] - x.reshape(-1)[place]
        room = 0.0 if slack is None or e is None else slack + e.reshape(-1)[place]
        return inside & (below.abs() <= room)

    return (None, Flips(None, ties))[: len(outputs)]


register(Kind("max_pool", _max_pool, _max_pool_error, exact=True, tie_rules=_max_pool_ties))


# ---- averages ------------------------------------------------------------------------------------


def averaging(
    name: str,
    average: Callable[[Attrs, torch.Tensor], torch.Tensor],
    count: Callable[[Attrs, torch.Tensor, torch.Tensor], int],
) -> None:
    """Register an average; `count(attrs, x, y)` says how many elements meet in one output."""

    def error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
        x, e, y = inputs[0], errors[0], outputs[0]
        own = average(attrs, mag(x)).mul_(growth(count(attrs, x, y)) * u) if u else None
        return (add_up(y, own, scaled(y, u), None if e is None else average(attrs, e)),)

    register(Kind(name, lambda attrs, x: (average(attrs, x),), error))


def norming(
    name: str,
    norm: Callable[[Attrs, torch.Tensor], torch.Tensor],
    count: Callable[[Attrs, torch.Tensor], int],
) -> None:
    """Register an Lp norm over windows of `count(attrs, x)` elements."""

    def error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
        # relative: 8u for the powers, growth(n) u / p for the sum; a norm moves by at most the norm of the error
        p, n = attrs.get("p", 2), count(attrs, inputs[0])
        moved = None if errors[0] is None else norm(attrs, errors[0])
        return (add_up(outputs[0], scaled(outputs[0], u * (8 + growth(n) / p)), moved),)

    register(Kind(name, lambda attrs, x: (norm(attrs, x),), error))


def _average(attrs: Attrs, x: torch.Tensor) -> torch.Tensor:
    window = Window(attrs, x.shape[2:])
    total = window.total(window.fill(x, 0.0))
    ones = torch.ones((1, 1, *x.shape[2:]), dtype=x.dtype)
    if attrs.get("count_include_pad"):
        counted = pad_data(pad_data(ones, window.pads, 1.0), window.extra, 0.0)
    else:
        counted = window.fill(ones, 0.0)
    return total / window.total(counted)


def _lp_pool(attrs: Attrs, x: torch.Tensor) -> torch.Tensor:
    p = attrs.get("p", 2)
    window = Window(attrs, x.shape[2:])
    return window.total(window.fill(x.abs() ** p, 0.0)).pow(1 / p)


averaging("average_pool", _average, lambda attrs, x, y: math.prod(attrs["kernel"]))
norming("lp_pool", _lp_pool, lambda attrs, x: math.prod(attrs["kernel"]))


# ---- global and adaptive -------------------------------------------------------------------------


def _spatial(x: torch.Tensor) -> tuple[int, ...]:
    return tuple(range(2, x.dim()))


def _global_lp(attrs: Attrs, x: torch.Tensor) -> torch.Tensor:
    p = attrs.get("p", 2)
    return (x.abs() ** p).sum(_spatial(x), keepdim=True).pow(1 / p)


averaging(
    "global_average_pool",
    lambda attrs, x: x.mean(_spatial(x), keepdim=True),
    lambda attrs, x, y: math.prod(x.shape[2:]),
)
norming("global_lp_pool", _global_lp, lambda attrs, x: math.prod(x.shape[2:]))
moving("global_max_pool", lambda attrs, x: x.amax(_spatial(x), keepdim=True))

_ADAPTIVE_MEAN = {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}
_ADAPTIVE_MAX: dict[int, Any] = {1: F.adaptive_max_pool1d, 2: F.adaptive_max_pool2d, 3: F.adaptive_max_pool3d}


def _adaptive(table: dict[int, Any]) -> Callable[[Attrs, torch.Tensor], torch.Tensor]:
    def run(attrs: Attrs, x: torch.Tensor) -> torch.Tensor:
        wanted = attrs["output_size"]
        sizes = (wanted,) if isinstance(wanted, int) else tuple(wanted)
        k = len(sizes)
        return table[k](x, tuple(x.shape[x.dim() - k + i] if s is None else s for i, s in enumerate(sizes)))

    return run


averaging(
    "adaptive_average_pool",
    _adaptive(_ADAPTIVE_MEAN),
    lambda attrs, x, y: math.prod(-(-a // b) + 1 for a, b in zip(x.shape[2:], y.shape[2:])),
)
moving("adaptive_max_pool", _adaptive(_ADAPTIVE_MAX))


# ---- unpooling -----------------------------------------------------------------------------------


def _unpool(attrs: Attrs, x: torch.Tensor, index: torch.Tensor, shape: Any = None) -> torch.Tensor:
    k = x.dim() - 2
    strides, pads = tuple(attrs.get("strides") or (1,) * k), tuple(attrs.get("pads") or (0,) * 2 * k)
    natural = [
        (x.shape[2 + i] - 1) * strides[i] + attrs["kernel"][i] - pads[i] - pads[k + i] for i in range(k)
    ]
    wanted = ints(operand(attrs, "shape", (x, index, shape), 2))
    sizes = list(wanted)[-k:] if wanted else natural
    y = torch.zeros((*x.shape[:2], *sizes), dtype=x.dtype)
    # the indices are flat positions in a tensor of the natural size
    full = (*x.shape[:2], *natural)
    position = index.reshape(-1).to(torch.int64)
    coordinates = []
    for size in reversed(full):
        coordinates.append(position % size)
        position = position // size
    y[tuple(reversed(coordinates))] = x.reshape(-1)
    return y


moving("max_unpool", _unpool)
