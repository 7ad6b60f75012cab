"""Cuts elementwise work into blocks that fit the processor's cache.

An elementwise layer with its bound takes some twenty passes over a large tensor; block by block, these are passes over
the cache and several times faster.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["BLOCK", "Block", "blocks", "part"]

BLOCK = 1 << 15  # also the largest piece that torch does not split over its threads, whose waiting costs more

Block = tuple[int, int, tuple[slice, ...]]


def blocks(shape: Sequence[int], limit: int = BLOCK) -> Iterator[Block]:
    """Contiguous pieces of a tensor of this shape: flat start, flat stop, and one slice per axis.

    >>> [(a, b) for a, b, _ in blocks((2, 3, 4), limit=8)]
    [(0, 8), (8, 12), (12, 20), (20, 24)]
    """
    shape = tuple(shape)
    if math.prod(shape) <= limit:
        yield 0, math.prod(shape), tuple(slice(0, n) for n in shape)
        return
    axis = 0
    while math.prod(shape[axis + 1 :]) > limit:
        axis += 1
    inner = math.prod(shape[axis + 1 :])
    rows = max(limit // max(inner, 1), 1)
    tail = tuple(slice(0, n) for n in shape[axis + 1 :])
    start = 0
    for outer in itertools.product(*[range(n) for n in shape[:axis]]):
        head = tuple(slice(i, i + 1) for i in outer)
        for first in range(0, shape[axis], rows):
            last = min(first + rows, shape[axis])
            stop = start + (last - first) * inner
            yield start, stop, (*head, slice(first, last), *tail)
            start = stop


def part(t: Any, where: tuple[slice, ...]) -> Any:
    """The piece of an operand that broadcasts to a block; axes of size 1 stay."""
    if t is None or not hasattr(t, "shape"):
        return t
    own = where[len(where) - t.dim() :]
    return t[tuple(slice(None) if n == 1 else s for n, s in zip(t.shape, own))]
