"""Delta debugging: the smallest part of a list that still shows something."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

__all__ = ["ddmin"]

Item = TypeVar("Item")


def ddmin(items: Sequence[Item], shows: Callable[[tuple[Item, ...]], bool]) -> tuple[Item, ...]:
    """A part of `items`, in order, for which `shows` holds and from which no single item can be removed.

    `shows` must hold for `items` as a whole. Any subset may be tried, not only prefixes; the cost is about the square
    of the size of the answer times the logarithm of the list's length.

    >>> ddmin(range(20), lambda part: {3, 17} <= set(part))
    (3, 17)
    """
    current = tuple(items)
    pieces = 2
    while len(current) > 1:
        size = -(-len(current) // pieces)
        parts = [current[i : i + size] for i in range(0, len(current), size)]
        smaller = next((p for p in parts if len(p) < len(current) and shows(p)), None)
        if smaller is not None:
            current, pieces = smaller, 2
            continue
        if len(parts) > 2:
            rests = (tuple(x for q in parts if q is not p for x in q) for p in parts)
            smaller = next((r for r in rests if shows(r)), None)
            if smaller is not None:
                current, pieces = smaller, max(pieces - 1, 2)
                continue
        if size == 1:
            break
        pieces = min(2 * pieces, len(current))
    return current
