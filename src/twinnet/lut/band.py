"""The band of a diagonal-first compressed table: which cells it keeps, and in which order."""

from __future__ import annotations

import numpy as np

__all__ = ["band_cells", "band_index"]


def band_cells(nodes: int, near: int, width: int) -> np.ndarray:
    """Cells (x, y, ...) with every compressed axis within `width` nodes of x, in row order.

    >>> len(band_cells(17, 3, 2)), len(band_cells(17, 1, 2)) * 17**2
    (1807, 22831)
    """
    grids = np.meshgrid(*[np.arange(nodes)] * (near + 1), indexing="ij")
    cells = np.stack([g.ravel() for g in grids], axis=1)
    return cells[(np.abs(cells[:, 1:] - cells[:, :1]) <= width).all(axis=1)]


def band_index(nodes: int, near: int, width: int) -> np.ndarray:
    """index[x, (y - x) mod D, ...] -> number of the cell, -1 where there is none; D = 2 width + 1."""
    diameter = 2 * width + 1
    cells = band_cells(nodes, near, width)
    index = np.full((nodes, *[diameter] * near), -1, np.int32)
    index[(cells[:, 0], *((cells[:, 1:] - cells[:, :1]) % diameter).T)] = np.arange(len(cells))
    return index
