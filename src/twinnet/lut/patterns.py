"""Sampling patterns: which neighbours a table looks at. A pattern is data: (dy, dx) offsets in axis order.

The first six are published ones, in the order a, b, c, d of their tables. `V` and `F` are the 2-D and 3-D
patterns of SR-LUT. The `P` patterns suit a first stage. `Q` and `R` are for a stage with one site per 2x2
cell of an x2 image (`cell=2`), counted from the top left pixel of the cell.
"""

from __future__ import annotations

from collections.abc import Iterable

from twinnet.errors import UsageError

__all__ = ["PATTERNS", "Offsets", "pattern", "patterns"]

Offsets = tuple[tuple[int, int], ...]

PATTERNS: dict[str, Offsets] = {
    "s": ((0, 0), (0, 1), (1, 0), (1, 1)),
    "d": ((0, 0), (0, 2), (2, 0), (2, 2)),
    "y": ((0, 0), (1, 1), (1, 2), (2, 1)),
    "e": ((0, 0), (0, 3), (3, 0), (3, 3)),
    "h": ((0, 0), (2, 2), (2, 3), (3, 2)),
    "o": ((0, 0), (2, 2), (1, 3), (3, 1)),
    "V": ((0, 0), (0, 1)),
    "F": ((0, 0), (0, 1), (0, 2)),
    "P1": ((0, 0), (0, 1), (1, 0), (1, 1)),
    "P2": ((0, 0), (-2, 0), (-1, 0), (1, 0)),
    "P3": ((0, 0), (-3, 0), (-2, 0), (-1, 0)),
    "P4": ((0, 0), (-2, -1), (-2, 1), (-1, 0)),
    "P5": ((0, 0), (-2, 0), (-1, -1), (0, -2)),
    "P6": ((0, 0), (-2, 0), (-1, 0), (2, 0)),
    "Q1": ((-1, 0), (0, -1), (0, 1), (1, 0)),
    "Q2": ((-2, -2), (0, 0), (1, 1), (2, 2)),
    "Q3": ((-2, 0), (-2, 1), (-1, 0), (-1, 1)),
    "R1": ((-1, 0), (0, -1), (0, 1), (1, 0)),
    "R2": ((-2, -2), (-1, 1), (0, 0), (1, -1)),
    "R3": ((-1, 0), (0, 0), (1, 0), (2, 0)),
    "R4": ((-1, 0), (-1, 1), (0, 0), (0, 1)),
    "R5": ((-2, -2), (0, 1), (1, 0), (1, 1)),
}


def pattern(spec: str | Iterable[Iterable[int]]) -> Offsets:
    """A pattern by name, or offsets given outright.

    >>> pattern("y")
    ((0, 0), (1, 1), (1, 2), (2, 1))
    >>> pattern([(0, -1), (0, 1)])
    ((0, -1), (0, 1))
    """
    if isinstance(spec, str):
        if spec not in PATTERNS:
            raise UsageError(
                f"no pattern named {spec!r}", hint=f"known: {' '.join(PATTERNS)}, or give offsets"
            )
        return PATTERNS[spec]
    try:
        offsets = tuple((int(dy), int(dx)) for dy, dx in spec)
    except (TypeError, ValueError) as error:
        raise UsageError(f"a pattern is a list of (dy, dx) offsets, not {spec!r}") from error
    if not offsets:
        raise UsageError("a pattern needs at least one offset")
    if max(max(abs(dy), abs(dx)) for dy, dx in offsets) > 64:
        raise UsageError(f"the pattern {offsets} looks further than 64 pixels away")
    return offsets


def patterns(spec: str | Iterable[str | Iterable[Iterable[int]]]) -> tuple[Offsets, ...]:
    """Several patterns: a word of one-letter names, names joined by `+`, or a list.

    >>> len(patterns("sdy")), len(patterns("P1+P2")), len(patterns(["s", [(0, 0), (0, 2)]]))
    (3, 2, 2)
    """
    if isinstance(spec, str):
        parts: list[str] = spec.split("+") if "+" in spec or spec in PATTERNS else list(spec)
        return tuple(pattern(part) for part in parts)
    return tuple(pattern(part) for part in spec)
