"""How far a twin's tensor is from its expected value, in units of its noise floor."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch

from twinnet.network.arrays import to_tensor
from twinnet.pairing import Pair
from twinnet.precision import TINY
from twinnet.result import Fact, fact

__all__ = ["TINY_HALF", "Sizes", "as_real", "class_of", "nonfinite"]

TINY_HALF = 2.0**-24
"""The smallest number of float16, which ends much earlier than float32."""

_LARGEST = {torch.float32: 3.4028235e38, torch.float16: 65504.0, torch.bfloat16: 3.3895314e38}


class Sizes:
    """Born error, floor and their ratio at the worst element, in blocks that stay in the cache.

    `level` is the largest value in floor units: how large an error the data could show. Places where a side is not
    finite are left out; `finite` is False if there are any.
    """

    _BLOCK = 1 << 15

    def __init__(
        self,
        got: torch.Tensor,
        expected: torch.Tensor,
        error: torch.Tensor | None,
        unit: float,
        spread: float = 0.0,
    ) -> None:
        self._least = (TINY_HALF if got.dtype == torch.float16 else TINY) + spread
        self.ratio = -1.0
        self.born = self.floor = self.level = 0.0
        self.finite = True
        # numpy, not torch: blocks this small are not worth waking a second thread for.
        y = expected.contiguous().numpy().reshape(-1)
        t = got.to(torch.float32) if got.dtype == torch.bfloat16 else got
        t = t.contiguous().numpy().reshape(-1)
        e = None if error is None else error.expand(expected.shape).contiguous().numpy().reshape(-1)
        room = np.empty((3, min(self._BLOCK, y.size)))
        with np.errstate(all="ignore"):
            for start in range(0, y.size, self._BLOCK):
                part = slice(start, min(start + self._BLOCK, y.size))
                error_here = None if e is None else e[part]
                self._block(t[part], y[part], error_here, unit, room[:, : part.stop - part.start])
        self.ratio = max(self.ratio, 0.0)

    def _block(
        self, t: np.ndarray, y: np.ndarray, e: np.ndarray | None, unit: float, room: np.ndarray
    ) -> None:
        off, size, floor = room
        np.subtract(t, y, out=off)
        np.abs(off, out=off)
        np.abs(y, out=size)
        np.multiply(size, unit, out=floor)
        floor += self._least
        if e is not None:
            floor += e
        np.divide(size, floor, out=size)
        ratios = np.divide(off, floor)
        at = int(ratios.argmax())  # finds a NaN if there is one
        ratio, level = float(ratios[at]), float(size.max())
        if not (math.isfinite(ratio) and math.isfinite(level)):
            # NaN or Inf somewhere: they are compared as masks, numbers over the places finite on both sides.
            self.finite = False
            good = np.isfinite(t) & np.isfinite(y) & np.isfinite(ratios)
            if not good.any():
                return
            at = int(np.where(good, ratios, -1.0).argmax())
            ratio, level = float(ratios[at]), float(size[good].max())
        self.level = max(self.level, level)
        if ratio > self.ratio:
            self.ratio, self.born, self.floor = ratio, float(off[at]), float(floor[at])


def nonfinite(
    expected: torch.Tensor, got: torch.Tensor, pair: Pair, network: Mapping[str, np.ndarray]
) -> Fact | None:
    """How the places of NaN and Inf differ; None if they agree."""
    top = _LARGEST.get(got.dtype, math.inf)
    # What float64 still holds may have overflowed in the twin's own format.
    reference = torch.where(expected.abs() > top, expected.sign() * math.inf, expected)
    theirs = got.to(torch.float64)
    settled = (reference.isnan() & theirs.isnan()) | (reference == theirs)
    wrong = ~(reference.isfinite() & theirs.isfinite()) & ~settled
    if bool(wrong.any()) and pair.site.tensor in network:
        # The network in its own precision may overflow just as the twin does.
        own = as_real(to_tensor(network[pair.site.tensor])).to(torch.float64)
        if own.shape == theirs.shape:
            wrong &= ~((own.isnan() & theirs.isnan()) | (own == theirs))
    count = int(wrong.sum())
    if not count:
        return None
    twins, ours = int(theirs.isnan().sum()), int(reference.isnan().sum())
    if twins != ours:
        return fact("nonfinite.nan", network=ours, twin=twins)
    return fact("nonfinite.places", count=count)


def as_real(tensor: torch.Tensor) -> torch.Tensor:
    """Split complex numbers into two parts along a new last axis; other tensors are unchanged.

    >>> as_real(torch.tensor([1 + 2j])).tolist()
    [[1.0, 2.0]]
    """
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def class_of(tensor: torch.Tensor) -> str:
    """The dtype class, which must be the same on both sides: float, integer, bool or complex."""
    if tensor.dtype == torch.bool:
        return "bool"
    return "float" if tensor.is_floating_point() else "complex" if tensor.is_complex() else "integer"
