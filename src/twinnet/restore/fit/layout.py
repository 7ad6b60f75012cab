"""Tables to be fitted: taps, grid and band as data, and what follows from them (rows, mirror, linear start)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from twinnet.errors import UsageError
from twinnet.lut.band import band_cells, band_index
from twinnet.lut.grid import Grid
from twinnet.lut.patterns import Offsets
from twinnet.lut.plan import Table

__all__ = ["TableLayout"]


@dataclass(frozen=True)
class TableLayout:
    """One table of a stage: what it looks at and how its nodes lie. Its entries are elsewhere.

    `planes` numbers the source plane of every tap. `width` > 0 makes it a banded table: nodes within `width`
    of the first tap's are kept as they are, the rest has every second node only.

    >>> TableLayout(((0, 0), (0, 1), (1, 0), (1, 1)), Grid.bits(5), upscale=4).rows
    6561
    """

    offsets: Offsets
    grid: Grid = field(default_factory=Grid)
    upscale: int = 1
    cell: int = 1
    planes: tuple[int, ...] = ()
    width: int = 0

    def __post_init__(self) -> None:
        if not 1 <= len(self.offsets) <= 4:
            raise UsageError(f"tables with 1 to 4 taps can be fitted, not {len(self.offsets)}")
        if self.planes and len(self.planes) != len(self.offsets):
            raise UsageError(f"{len(self.offsets)} taps need as many planes, not {len(self.planes)}")
        if not 1 <= self.upscale <= 4:
            raise UsageError(f"stages with blocks of 1 to 4 pixels a side can be fitted, not {self.upscale}")
        if self.width and (len(self.offsets) < 2 or self.grid.nodes % 2 == 0):
            raise UsageError("a band needs at least two taps and an odd number of nodes")

    @property
    def axes(self) -> int:
        """Taps."""
        return len(self.offsets)

    @property
    def outputs(self) -> int:
        """Values per row."""
        return self.upscale**2

    @property
    def near(self) -> int:
        """Taps that must be near the first one in a band; 0 for a dense table."""
        return self.axes - 1 if self.width else 0

    @property
    def thin(self) -> int:
        """Steps of the grid per step of the off-band rows."""
        return 2 if self.width else 1

    @property
    def dense_rows(self) -> int:
        """Rows of the full grid."""
        return self.grid.rows(self.axes)

    @property
    def few(self) -> int:
        """Nodes per axis of the off-band rows."""
        return (self.grid.nodes - 1) // self.thin + 1

    @cached_property
    def cells(self) -> np.ndarray:
        """Dense cell numbers of the band rows, in order."""
        inside = band_cells(self.grid.nodes, self.near, self.width)
        return np.asarray(np.ravel_multi_index(tuple(inside.T), (self.grid.nodes,) * self.axes))

    @cached_property
    def map(self) -> np.ndarray:
        """Dense cell to band row; 0 where there is none (such vertices never carry weight)."""
        found = np.zeros(self.dense_rows, np.int32)
        found[self.cells] = np.arange(len(self.cells), dtype=np.int32)
        return found

    @property
    def rows(self) -> int:
        """Rows in all."""
        return len(self.cells) + self.few**self.axes if self.width else self.dense_rows

    @property
    def nbytes(self) -> int:
        """Bytes of the int8 table."""
        return self.rows * self.outputs

    def points(self) -> np.ndarray:
        """Pixel values the rows stand for: [rows, axes]."""
        nodes = np.arange(self.grid.nodes) * self.grid.step
        full = np.stack(np.meshgrid(*[nodes] * self.axes, indexing="ij"), -1).reshape(-1, self.axes)
        if not self.width:
            return full
        off = np.stack(np.meshgrid(*[nodes[:: self.thin]] * self.axes, indexing="ij"), -1)
        return np.concatenate([full[self.cells], off.reshape(-1, self.axes)])

    def linear(self, gain: float) -> np.ndarray:
        """A start that repeats the pixel itself (the mean of the taps where none lies on the site), times
        `gain`: float32 [rows, outputs]."""
        points = self.points().astype(np.float32)
        on_site = self.cell == 1 and (0, 0) in self.offsets
        level = points[:, self.offsets.index((0, 0))] if on_site else points.mean(1)
        return np.repeat(level[:, None] * np.float32(gain), self.outputs, axis=1)

    def mirror(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The reflection that maps the taps to themselves, as a permutation of rows and one of outputs.

        A table whose taps have such a reflection is fitted as if all images came mirrored, too.

        >>> rows, outputs = TableLayout(((0, 0), (0, 1), (1, 0), (1, 1)), Grid.bits(5), upscale=2).mirror()
        >>> outputs.tolist()
        [0, 2, 1, 3]
        """
        e, n = self.cell - 1, self.upscale
        planes = self.planes or (0,) * self.axes
        block = np.arange(n * n).reshape(n, n)
        candidates = (
            (lambda y, x: (x, y), block.T),
            (lambda y, x: (y, e - x), block[:, ::-1]),
            (lambda y, x: (e - y, x), block[::-1]),
            (lambda y, x: (e - x, e - y), block[::-1, ::-1].T),
        )
        taps = list(zip(self.offsets, planes))
        for reflect, outputs in candidates:
            image = [(reflect(*offset), plane) for offset, plane in taps]
            if len(set(taps)) != len(taps) or set(image) != set(taps):
                continue
            order = [taps.index(tap) for tap in image]
            if self.width and order[0] != 0:
                continue
            return self._permuted_rows(order), np.ascontiguousarray(outputs).reshape(-1)
        return None

    def _permuted_rows(self, order: list[int]) -> np.ndarray:
        def dense(nodes: int) -> np.ndarray:
            cube = np.arange(nodes**self.axes).reshape((nodes,) * self.axes)
            return np.ascontiguousarray(cube.transpose(order)).reshape(-1)

        rows = dense(self.grid.nodes)
        if not self.width:
            return rows
        return np.concatenate([self.map[rows[self.cells]], dense(self.few) + len(self.cells)])

    def table(self, entries: np.ndarray) -> Table:
        """The int8 table that deploys: rounded, clipped to -127..127."""
        values = np.rint(entries).clip(-127, 127).astype(np.int8)
        grid = self.grid
        if not self.width:
            return Table(values, self.axes, grid.nodes, grid.step, grid.last)
        band = len(self.cells)
        index = band_index(grid.nodes, self.near, self.width)
        return Table(
            values[:band], self.axes, grid.nodes, grid.step, grid.last, self.near, self.width, self.thin,
            index, values[band:],
        )  # fmt: skip

    def on(self, grid: Grid, width: int = 0) -> TableLayout:
        """The same table on another grid."""
        return replace(self, grid=grid, width=width)

    def carry(self, entries: np.ndarray, old: TableLayout) -> np.ndarray:
        """Entries of `old`, a dense table on a coarser or equal grid, at this table's rows: the same function.

        Halving the step is exact for simplex interpolation: every cell of the finer grid lies in one
        simplex of the coarser one.
        """
        from twinnet.restore.fit.numpy_path import walk

        points = np.minimum(self.points(), (old.grid.nodes - 1) * old.grid.step)
        rows, weights = walk(points.T, old.grid.nodes, old.grid.step)
        out = np.zeros((self.rows, self.outputs), np.float32)
        for row, weight in zip(rows, weights):
            out += entries[row] * (weight[:, None] / np.float32(old.grid.step))
        return out
