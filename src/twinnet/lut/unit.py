"""`Unit`: a small network of a few bounded values that can be replaced by its table."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from twinnet.errors import UsageError
from twinnet.lut.grid import Grid, default_value_bits
from twinnet.lut.interpolate import Rows, dense_rows, interpolate
from twinnet.lut.plan import Interpolation, Table
from twinnet.lut.rounding import ste_round

__all__ = ["Unit"]


class Unit(nn.Module):
    """A function of `axes` values in [0, 1] with `outputs` results in [-1, 1]; a network, or its table.

    `body` maps [..., axes] to [..., outputs]; what leaves [-1, 1] is clamped. `twinnet.lut.export`
    replaces the function by its table; the Unit stays where it is and everything around it keeps working.

    >>> from twinnet.lut.bodies import DenseBody
    >>> unit = Unit(DenseBody(2, 3), axes=2, outputs=3)
    >>> unit(torch.rand(5, 2)).shape, unit.mode
    (torch.Size([5, 3]), 'network')
    """

    index: Tensor | None

    def __init__(
        self,
        body: nn.Module | None,
        axes: int,
        outputs: int,
        grid: Grid | None = None,
        interpolation: Interpolation = "simplex",
        compat: str = "",
    ) -> None:
        super().__init__()
        if not 1 <= axes <= 6:
            raise UsageError(f"a Unit has 1 to 6 inputs, not {axes}", hint="a table grows with nodes^inputs")
        self.body = body
        self.axes, self.outputs = axes, outputs
        self.grid = grid if grid is not None else Grid()
        self.interpolation: Interpolation = interpolation
        self.value_bits = default_value_bits(self.grid, axes, interpolation)
        self.compat = compat
        self.near = self.width = 0
        self.thin = 1
        self._network = True
        self.register_parameter("table", None)
        self.register_parameter("coarse", None)
        self.register_buffer("index", None)

    @property
    def mode(self) -> str:
        """`network` or `table`; assign to go back and forth once a table exists."""
        return "network" if self._network else "table"

    @mode.setter
    def mode(self, mode: str) -> None:
        if mode not in ("network", "table"):
            raise UsageError(f"a Unit has no mode {mode!r}", hint="use network or table")
        if (self.body if mode == "network" else self.table) is None:
            raise UsageError(f"this Unit has no {mode}", hint="export it first" if mode == "table" else None)
        self._network = mode == "network"

    def set_table(self, table: Table) -> None:
        """Become a table. Its entries are parameters (entry / 127), so they can be fine-tuned."""
        table.check("of a Unit")
        if (table.axes, table.payload) != (self.axes, self.outputs):
            raise UsageError(
                f"a table of {table.axes} axes and {table.payload} values per row does not fit a Unit of "
                f"{self.axes} inputs and {self.outputs} outputs"
            )
        if table.banded and self.interpolation != "simplex":
            raise UsageError("diagonal-first compressed tables need simplex interpolation")
        self.grid = Grid(table.step, table.nodes, table.last)
        self.near, self.width, self.thin = table.near, table.width, table.thin
        self.table = nn.Parameter(torch.from_numpy(table.values.astype(np.float32)) / 127)
        if table.banded:
            assert table.coarse is not None and table.index is not None
            self.coarse = nn.Parameter(torch.from_numpy(table.coarse.astype(np.float32)) / 127)
            self.index = torch.from_numpy(table.index.astype(np.int64))
        else:
            self.coarse, self.index = None, None
        self._network = False

    def as_table(self) -> Table:
        """The table in int8, as it deploys. A Unit still in network mode has none: see `export`."""
        if self.table is None:
            raise UsageError("this Unit has no table yet", hint="call twinnet.lut.export(net) first")
        return Table(
            values=_int8(self.table),
            axes=self.axes,
            nodes=self.grid.nodes,
            step=self.grid.step,
            last=self.grid.last,
            near=self.near,
            width=self.width,
            thin=self.thin,
            index=None if self.index is None else self.index.numpy().astype(np.int32),
            coarse=None if self.coarse is None else _int8(self.coarse),
        )

    def denominator(self, value_bits: int) -> int:
        """The denominator of what `numerators` returns."""
        units = (self.grid.step << value_bits) * self.thin
        return units if self.interpolation == "simplex" else units**self.axes

    def numerators(self, values: Tensor, value_bits: int) -> Tensor:
        """Table mode: exact numerators [..., outputs] for fixed-point values [..., axes] (pixel <<
        value_bits)."""
        assert self.table is not None
        units, nodes = self.grid.step << value_bits, self.grid.nodes
        fine = _entries(self.table, values.dtype)
        if not self.near:
            rows = dense_rows(fine, nodes)
            return interpolate(values, units, nodes, rows, self.interpolation, self.compat)
        assert self.coarse is not None
        away = (values[..., 1 : self.near + 1] - values[..., :1]).abs()
        in_band = (away <= self.width * units).all(-1, keepdim=True)
        near = interpolate(values, units, nodes, self._band_rows(fine), self.interpolation) * self.thin
        few = (nodes - 1) // self.thin + 1
        rows = dense_rows(_entries(self.coarse, values.dtype), few)
        far = interpolate(values, units * self.thin, few, rows, self.interpolation)
        return torch.where(in_band, near, far)

    def _band_rows(self, table: Tensor) -> Rows:
        index, diameter, nodes, near = self.index, 2 * self.width + 1, self.grid.nodes, self.near
        assert index is not None

        def rows(vertex: Tensor) -> Tensor:
            away = (vertex[..., 1 : near + 1] - vertex[..., :1]).remainder(diameter)
            flat = vertex[..., 0]
            for k in range(near):
                flat = flat * diameter + away[..., k]
            row = index.reshape(-1)[flat]
            for k in range(near + 1, vertex.shape[-1]):
                row = row * nodes + vertex[..., k]
            # Vertices outside the band never carry weight; any row will do for them.
            row = row.clamp(0, len(table) - 1)
            return table.index_select(0, row.reshape(-1)).reshape(*row.shape, -1)

        return rows

    def forward(self, x: Tensor) -> Tensor:
        """[..., axes] in [0, 1] to [..., outputs] in [-1, 1]."""
        if self._network:
            if self.body is None:
                raise UsageError("this Unit has neither a network nor a table")
            out = self.body(x)
            # Mixed precision is for the body: sums of several lookups need all digits.
            return (out if out.dtype == x.dtype else out.to(x.dtype)).clamp(-1, 1)
        one = 1 << self.value_bits
        values = ste_round((x.to(torch.float64) * 255).clamp(0, 255) * one)
        exact = self.numerators(values, self.value_bits)
        return (exact / (127 * self.denominator(self.value_bits))).to(x.dtype)

    def extra_repr(self) -> str:
        band = f", band {self.near}/{self.width}/{self.thin}" if self.near else ""
        return f"{self.axes} -> {self.outputs}, {self.mode}, {self.grid}, {self.interpolation}{band}"


def _entries(table: Tensor, dtype: torch.dtype) -> Tensor:
    """Entries as integers in -127..127, the gradient passing straight through the rounding."""
    return ste_round(table.to(dtype) * 127).clamp(-127, 127)


def _int8(table: Tensor) -> np.ndarray:
    return torch.round(table.detach().to(torch.float64) * 127).clamp(-127, 127).to(torch.int8).cpu().numpy()
