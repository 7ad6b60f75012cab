"""Shifts between tables that change no output, chosen so that the entries stay within int8.

Tables that share the tap on the site itself can trade any function of that pixel. A fit leaves such shifts
wherever its path took them, and tables then run out of int8 although their sum does not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twinnet.restore.fit.layout import TableLayout

__all__ = ["level"]


def level(layouts: Sequence[TableLayout], tables: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Tables with the same sum whose diagonals (all taps equal) agree, where a tap is shared.

    >>> from twinnet.lut.grid import Grid
    >>> two = [TableLayout(((0, 0), (0, 1)), Grid.bits(7)), TableLayout(((0, 0), (1, 1)), Grid.bits(7))]
    >>> a, b = level(two, [np.full((9, 1), 200.0), np.full((9, 1), -100.0)])
    >>> float(a.max()), float(b.max())
    (50.0, 50.0)
    """
    moved = [np.array(table, copy=True) for table in tables]
    together: dict[object, list[int]] = {}
    for number, layout in enumerate(layouts):
        if layout.cell == 1 and (0, 0) in layout.offsets:
            plane = layout.planes[layout.offsets.index((0, 0))] if layout.planes else 0
            together.setdefault((layout.grid, plane, layout.width), []).append(number)
    for numbers in together.values():
        if len(numbers) < 2:
            continue
        diagonals = []
        for i in numbers:
            points = layouts[i].points() // layouts[i].grid.step
            equal = np.flatnonzero((points == points[:, :1]).all(1))
            found = np.zeros((layouts[i].grid.nodes, layouts[i].outputs), np.float32)
            # Band rows come first, so that the first row found for a node is the one of the fine grid.
            found[points[equal[::-1], 0]] = moved[i][equal[::-1]]
            diagonals.append(found)
        mean = np.mean(diagonals, axis=0)
        for i, diagonal in zip(numbers, diagonals):
            nodes = layouts[i].points()[:, layouts[i].offsets.index((0, 0))] // layouts[i].grid.step
            moved[i] += (mean - diagonal)[nodes]
    return moved
