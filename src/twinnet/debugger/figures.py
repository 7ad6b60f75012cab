"""Small tables of numbers in plain text."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

__all__ = ["grid", "number", "table"]


def number(value: float | int | None) -> str:
    """Format a value briefly; whole numbers exactly.

    >>> [number(v) for v in (3.0, 0.125, 1.23456789e-7, float("nan"), -12345.678, None)]
    ['3', '0.125', '1.235e-07', 'NaN', '-1.235e+04', '-']
    """
    if value is None:
        return "-"
    value = float(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Inf" if value > 0 else "-Inf"
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    return f"{value:.4g}"


def grid(values: np.ndarray, indent: str = "  ") -> list[str]:
    """Format a matrix in columns; zeros are dots, so that differences stand out.

    >>> grid(np.array([[0, 0.5], [-2, 0]]))
    ['     .  0.5', '    -2    .']
    """
    flat = np.atleast_2d(np.asarray(values))
    cells = [["." if v == 0 else number(v) for v in row] for row in flat.tolist()]
    width = max((len(c) for row in cells for c in row), default=1)
    return [indent + " ".join(f"{c:>{width + 1}}" for c in row) for row in cells]


def table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Format rows under a head; the first `left` columns are left-aligned, the others right-aligned.

    >>> table(["site", "max"], [["conv", "0.5"], ["a", "12"]])
    ['site  max', 'conv  0.5', 'a      12']
    """
    widths = [max(len(r[i]) for r in (head, *rows)) for i in range(len(head))]
    lines = []
    for row in (head, *rows):
        cells = [f"{c:<{w}}" if i < left else f"{c:>{w}}" for i, (c, w) in enumerate(zip(row, widths))]
        lines.append("  ".join(cells).rstrip())
    return lines
