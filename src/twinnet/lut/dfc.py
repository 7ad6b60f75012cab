"""Diagonal-first compression: keep the cells near the diagonal, thin out the rest.

Neighbouring pixels are mostly alike, so most lookups fall near the diagonal of the table. Those rows are
kept as they are (the band); all others are replaced by a table with fewer nodes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from twinnet.errors import UsageError
from twinnet.lut.band import band_cells, band_index
from twinnet.lut.file import LutFile
from twinnet.lut.plan import Plan, Table

if TYPE_CHECKING:
    from twinnet.lut.net import LutNet

__all__ = ["AXES", "compress", "compress_file", "compress_table", "infer_band"]

AXES = {"xy": 1, "xyz": 2, "xyzt": 3}
"""How many taps must be near the first one."""


def infer_band(rows: int) -> tuple[int, int]:
    """`near` and `width` of a published band of `rows` rows.

    >>> infer_band(1807), infer_band(11781)
    ((3, 2), (2, 3))
    """
    nodes, axes = 17, 4
    for near in range(axes - 1, 0, -1):
        for width in range(1, nodes - 1):
            if len(band_cells(nodes, near, width)) * nodes ** (axes - 1 - near) == rows:
                return near, width
    raise UsageError(f"{rows} rows are not a diagonal band of a table with {nodes} nodes on {axes} axes")


def compress_table(
    table: Table, axes: str = "xyzt", width: int = 2, interval: int = 5, thin: int | None = None
) -> Table:
    """A dense table compressed; `interval` are the interval bits of the thinned-out rest.

    `thin` says instead how many steps of the table one off-band step has, for other grids.

    >>> dense = Table(np.zeros((17**4, 1), np.int8), 4, 17, 16)
    >>> small = compress_table(dense)
    >>> small.nbytes, dense.nbytes
    (8368, 83521)
    """
    if axes not in AXES:
        raise UsageError(f"unknown compression {axes!r}", hint=f"use {', '.join(AXES)}")
    if table.banded:
        raise UsageError("this table is compressed already")
    if not 1 <= width <= table.nodes - 2:
        raise UsageError(f"a band of half-width {width} is not between 1 and {table.nodes - 2} nodes")
    rest = 0
    if thin is None:
        thin, rest = divmod(1 << interval, table.step)
    if rest or thin < 2 or (table.nodes - 1) % thin:
        fitting = [
            str(bits)
            for bits in range(1, 9)
            if (1 << bits) % table.step == 0
            and (1 << bits) // table.step >= 2
            and (table.nodes - 1) % ((1 << bits) // table.step) == 0
        ]
        raise UsageError(
            f"an off-band step of {(1 << interval) if rest or thin < 1 else thin * table.step} does not thin "
            f"out a table of {table.nodes} nodes, {table.step} apart",
            hint=f"use interval {' or '.join(fitting)} (--interval)"
            if fitting
            else "this table is too coarse to be thinned out",
        )
    near = min(AXES[axes], table.axes - 1)
    if near < 1:
        raise UsageError("a table of one axis has no diagonal")
    grid = table.values.reshape(*[table.nodes] * table.axes, table.payload)
    cells = band_cells(table.nodes, near, width)
    band = grid[tuple(cells.T)].reshape(-1, table.payload)
    coarse = grid[tuple([slice(None, None, thin)] * table.axes)].reshape(-1, table.payload)
    index = band_index(table.nodes, near, width)
    return replace(
        table, values=np.ascontiguousarray(band), near=near, width=width, thin=thin, index=index,
        coarse=np.ascontiguousarray(coarse),
    )  # fmt: skip


Compressible = TypeVar("Compressible", Plan, "LutNet")


def compress(
    thing: Compressible, axes: str = "xyzt", width: int = 2, interval: int = 5, thin: int | None = None
) -> Compressible:
    """Compress every table of a plan, or of a network (exported first if needed).

    Tables across channels stay as they are: their axes are not neighbouring pixels, so lookups do not gather near
    the diagonal.
    """
    if isinstance(thing, Plan):
        across = {t.table for s in thing.stages for t in s.terms if len(set(t.sample.planes)) > 1}
        tables = {
            name: table if name in across else compress_table(table, axes, width, interval, thin)
            for name, table in thing.tables.items()
        }
        return Plan.build(thing.stages, tables)
    from twinnet.lut.exporter import export
    from twinnet.lut.nodes import Branch

    if thing.mode == "network":
        export(thing)
    for module in thing.modules():
        if isinstance(module, Branch) and len(set(module.planes)) == 1:
            module.unit.set_table(compress_table(module.unit.as_table(), axes, width, interval, thin))
    return thing


def compress_file(
    content: LutFile, axes: str = "xyzt", width: int = 2, interval: int = 5, thin: int | None = None
) -> LutFile:
    """A file with compressed tables; the notes say so."""
    plan = compress(content.plan, axes, width, interval, thin)
    step = f"{thin} steps" if thin is not None else f"interval {interval}"
    note = f"compressed diagonal first: {axes}, half-width {width}, off band {step}"
    return replace(content, plan=plan, notes=(*content.notes, note))
