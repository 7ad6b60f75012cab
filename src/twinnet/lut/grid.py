"""The grid of a table: which pixel values its nodes stand for."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from twinnet.errors import UsageError

__all__ = ["Grid", "default_value_bits", "infer_nodes"]


@dataclass(frozen=True)
class Grid:
    """`nodes` nodes per axis, `step` pixel values apart, the last one *evaluated* at `last`.

    With interval bits the last node lies at 256, beyond any pixel. `last=256` evaluates the network there,
    so that the interpolation is right up to 255; `last=255` evaluates it at 255, as most published tables do.

    >>> Grid.bits(4)
    Grid(step=16, nodes=17, last=256)
    >>> Grid.even(17).values()[-2:].tolist()
    [238, 255]
    """

    step: int = 16
    nodes: int = 17
    last: int = 256

    def __post_init__(self) -> None:
        end = (self.nodes - 1) * self.step
        if self.nodes < 2 or self.step < 1 or not 255 <= end <= 256:
            raise UsageError(
                f"a grid of {self.nodes} nodes, {self.step} apart, does not span 0..255",
                hint="use interval bits 0..8 (Grid.bits) or a step that divides 255 (Grid.even)",
            )
        if self.last not in (255, end):
            raise UsageError(f"the last node of this grid is 255 or {end}, not {self.last}")

    @classmethod
    def bits(cls, interval: int = 4, last: int = 256) -> Grid:
        """Nodes every 2^interval values, the last at 256."""
        if not 0 <= interval <= 8:
            raise UsageError(f"interval bits must be 0..8, not {interval}")
        return cls(1 << interval, (256 >> interval) + 1, last)

    @classmethod
    def even(cls, step: int = 17) -> Grid:
        """Nodes 0, step, ..., 255, for a step that divides 255."""
        if step < 1 or 255 % step:
            raise UsageError(f"step {step} does not divide 255", hint="use 1, 3, 5, 15, 17, 51, 85 or 255")
        return cls(step, 255 // step + 1, 255)

    def values(self) -> np.ndarray:
        """Pixel values at which the nodes are evaluated."""
        values = np.arange(self.nodes, dtype=np.int64) * self.step
        values[-1] = self.last
        return values

    def rows(self, axes: int) -> int:
        """Rows of a dense table on `axes` axes."""
        return self.nodes**axes

    def points(self, axes: int, start: int, stop: int) -> np.ndarray:
        """Pixel values of rows `start` to `stop` of a dense table: [rows, axes].

        >>> Grid.even(85).points(2, 3, 6).tolist()
        [[0, 255], [85, 0], [85, 85]]
        """
        index = np.unravel_index(np.arange(start, stop), (self.nodes,) * axes)
        return self.values()[np.stack(index, axis=1)]


def default_value_bits(grid: Grid, axes: int, interpolation: str) -> int:
    """Fraction bits for values that are not whole pixels, such that exact sums stay within a double.

    >>> default_value_bits(Grid(), 4, "simplex"), default_value_bits(Grid(), 4, "multilinear")
    (8, 6)
    """
    if interpolation == "simplex":
        return 8
    # Denominators are (step << bits)^axes; 40 bits of them leave room for entries, rotations and branches.
    return max(0, min(8, int(40 / axes - math.log2(grid.step))))


def infer_nodes(rows: int, axes: int | None = None) -> tuple[int, Grid]:
    """Axes and grid of a dense table of `rows` rows with a power-of-two interval.

    Published names give the interval in two contradictory ways, so the row count decides. More axes win,
    as no two published layouts share a count. The convention of the last node cannot be seen and is taken
    as 255.

    >>> infer_nodes(83521)
    (4, Grid(step=16, nodes=17, last=255))
    >>> infer_nodes(66049)[0]
    2
    """
    for k in (4, 3, 2, 1) if axes is None else (axes,):
        nodes = round(rows ** (1 / k))
        if nodes**k == rows and nodes >= 2 and 256 % (nodes - 1) == 0:
            return k, Grid(256 // (nodes - 1), nodes, 255)
    raise UsageError(
        f"{rows} rows are not a table with 2^k + 1 nodes per axis" + (f" on {axes} axes" if axes else ""),
        hint="the file may be truncated, or be a compressed table without its index",
    )
