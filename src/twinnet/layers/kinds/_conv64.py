"""Convolution in float64 at the speed of float64 matrix products.

torch has no fast float64 convolution for kernels larger than 1. A dense k x k convolution of stride 1 is the
sum of k*k matrix products over shifted views of the padded input with its rows laid end to end: no patches
are copied, and the columns where a row runs into the next one are dropped at the end. Depthwise kernels are
k*k multiply-adds over shifted views. Everything else goes to torch. All ways agree up to the order of
summation.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F

__all__ = ["convolve", "pad_data"]

_CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}

_STRIP = 8192
"""Columns that are summed over all k*k views before the next ones: their sums stay in the cache."""


def pad_data(x: torch.Tensor, pads: Sequence[int], value: float = 0.0) -> torch.Tensor:
    """Pad (or crop, for negative numbers) the trailing axes; `pads` are all begins, then all ends."""
    if not any(pads):
        return x
    k = len(pads) // 2
    flat: list[int] = []
    for i in reversed(range(k)):
        flat += [pads[i], pads[k + i]]
    return F.pad(x, flat, value=value)


def convolve(
    x: torch.Tensor,
    w: torch.Tensor,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    group: int,
) -> torch.Tensor:
    """Convolution without bias in the dtype of `x`."""
    spatial = w.dim() - 2
    if spatial not in _CONV:
        raise ValueError(f"convolution over {spatial} axes is not supported")
    if x.dtype == torch.float64 and x.numel() and w.numel() and spatial <= 2:
        if spatial == 1:
            lifted = _fast(
                x.unsqueeze(2),
                w.unsqueeze(2),
                (1, strides[0]),
                (0, pads[0], 0, pads[1]),
                (1, dilations[0]),
                group,
            )
            if lifted is not None:
                return lifted.squeeze(2)
        else:
            fast = _fast(x, w, tuple(strides), tuple(pads), tuple(dilations), group)
            if fast is not None:
                return fast
    begin, end = tuple(pads[:spatial]), tuple(pads[spatial:])
    if begin == end and min(begin, default=0) >= 0:
        return _CONV[spatial](x, w, None, tuple(strides), begin, tuple(dilations), group)
    return _CONV[spatial](pad_data(x, pads), w, None, tuple(strides), 0, tuple(dilations), group)


def _fast(
    x: torch.Tensor,
    w: torch.Tensor,
    strides: tuple[int, ...],
    pads: tuple[int, ...],
    dilations: tuple[int, ...],
    group: int,
) -> torch.Tensor | None:
    n, channels, _, _ = x.shape
    out_channels, per_group, kh, kw = w.shape
    if kh == kw == 1:
        xp = pad_data(x, pads)
        if strides != (1, 1):
            xp = xp[:, :, :: strides[0], :: strides[1]]
        ho, wo = xp.shape[2:]
        return _products(xp.reshape(n, channels, -1), w, group).view(n, out_channels, ho, wo)
    if strides != (1, 1):
        return None
    xp = pad_data(x, pads)
    hp, wp = xp.shape[2:]
    ho, wo = hp - dilations[0] * (kh - 1), wp - dilations[1] * (kw - 1)
    if ho <= 0 or wo <= 0:
        return None
    if per_group == 1 and group == channels == out_channels:
        return _depthwise(xp, w, ho, wo, dilations)
    if per_group < 8:
        return None
    flat = xp.reshape(n * group, per_group, hp * wp)
    weights = w.reshape(group, out_channels // group, per_group, kh, kw)
    length = (ho - 1) * wp + wo
    rows = out_channels // group
    out = torch.empty(n * group, rows, ho * wp, dtype=x.dtype)
    taps = [
        (i * dilations[0] * wp + j * dilations[1], weights[:, :, :, i, j].contiguous())
        for i in range(kh)
        for j in range(kw)
    ]
    for b in range(n * group):
        for begin in range(0, length, _STRIP):
            end = min(begin + _STRIP, length)
            sums, beta = out[b, :, begin:end], 0.0
            for start, tap in taps:
                sums.addmm_(tap[b % group], flat[b, :, start + begin : start + end], beta=beta)
                beta = 1.0
    return out.view(n, out_channels, ho, wp)[:, :, :, :wo].contiguous()


def _products(flat: torch.Tensor, w: torch.Tensor, group: int) -> torch.Tensor:
    """The 1x1 case: [n, channels, length] -> [n, out channels, length]."""
    n, channels, length = flat.shape
    weights = w.reshape(group, w.shape[0] // group, channels // group)
    if group == 1:
        return torch.matmul(weights[0], flat)
    return torch.matmul(weights, flat.reshape(n, group, channels // group, length)).reshape(
        n, w.shape[0], length
    )


def _depthwise(xp: torch.Tensor, w: torch.Tensor, ho: int, wo: int, dilations: Sequence[int]) -> torch.Tensor:
    _, channels = xp.shape[:2]
    kh, kw = w.shape[2:]
    out: torch.Tensor | None = None
    for i in range(kh):
        for j in range(kw):
            top, left = i * dilations[0], j * dilations[1]
            view = xp[:, :, top : top + ho, left : left + wo]
            tap = w[:, 0, i, j].reshape(1, channels, 1, 1)
            out = view * tap if out is None else out.addcmul_(view, tap)
    assert out is not None
    return out
