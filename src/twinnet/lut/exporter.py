"""From networks to tables: walk a module tree and tabulate every Unit."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TypeVar

import numpy as np
import torch
from torch import nn

from twinnet.errors import EngineError, UsageError
from twinnet.lut.grid import Grid
from twinnet.lut.plan import Interpolation, Table
from twinnet.lut.unit import Unit
from twinnet.progress import progress as line

__all__ = ["export", "network_hash", "tabulate", "units", "use"]

AnyModule = TypeVar("AnyModule", bound=nn.Module)
_CHUNK = 1 << 15
"""Rows evaluated at once."""


def units(net: nn.Module) -> Iterator[tuple[str, Unit]]:
    """All Units of a module tree with their dotted paths, each once.

    >>> from twinnet.restore.nets import srlut
    >>> [path for path, _ in units(srlut.build())]
    ['stage1.in_c0.b0.unit']
    """
    for path, module in net.named_modules():
        if isinstance(module, Unit):
            yield path, module


def use(net: AnyModule, mode: str) -> AnyModule:
    """Put all Units into `network` or `table` mode; both must exist."""
    for _, unit in units(net):
        unit.mode = mode
    return net


@torch.no_grad()
def tabulate(unit: Unit, grid: Grid | None = None) -> Table:
    """The table of a Unit's network: the network at every node of the grid, times 127, rounded to int8."""
    if unit.body is None:
        raise UsageError("this Unit has no network to tabulate")
    grid = unit.grid if grid is None else grid
    rows = grid.rows(unit.axes)
    if rows * unit.outputs > 1 << 31:
        raise UsageError(
            f"a table of {rows} rows and {unit.outputs} columns is over 2 GiB: use a coarser grid"
        )
    parameter = next(unit.body.parameters(), torch.empty(0))
    was_training = unit.body.training
    unit.body.eval()
    values = np.empty((rows, unit.outputs), np.int8)
    try:
        for start in range(0, rows, _CHUNK):
            stop = min(start + _CHUNK, rows)
            points = torch.from_numpy(
                grid.points(unit.axes, start, stop).astype(np.float32) / np.float32(255)
            )
            out = unit.body(points.to(parameter))
            if not torch.isfinite(out).all():
                raise EngineError("the network gives NaN or infinity on its grid", stage="export")
            values[start:stop] = torch.round(out.float().clamp(-1, 1) * 127).to(torch.int8).cpu().numpy()
    finally:
        unit.body.train(was_training)
    return Table(values, unit.axes, grid.nodes, grid.step, grid.last)


def export(
    net: AnyModule,
    *,
    grid: Grid | None = None,
    interpolation: Interpolation | None = None,
    progress: bool = False,
) -> AnyModule:
    """Tabulate every Unit of `net`, which goes into table mode and is returned.

    Samplers, residual weights and ordinary layers stay as they are. `grid` and `interpolation` override
    those of the Units. `twinnet.lut.use(net, "network")` goes back.

    >>> from twinnet.restore.nets import srlut
    >>> export(srlut.build("V", scale=2, width=4)).mode
    'table'
    """
    found = list(units(net))
    if not found:
        raise UsageError("this network has no lut.Unit, so there is nothing to tabulate")
    for _, unit in _watched(found, progress):
        if interpolation is not None:
            unit.interpolation = interpolation
        if unit.body is not None:
            unit.set_table(tabulate(unit, grid))
    return net


def _watched(found: list[tuple[str, Unit]], progress: bool) -> Iterator[tuple[str, Unit]]:
    with line(quiet=not progress) as report:
        for done, (path, unit) in enumerate(found):
            report(f"table {path}", done / len(found))
            yield path, unit


def network_hash(net: nn.Module) -> str:
    """SHA-256 of the parameters the tables were made from (Units' networks, samplers, residuals)."""
    digest = hashlib.sha256()
    for name, tensor in sorted(net.state_dict().items()):
        if name.rpartition(".")[2] in ("table", "coarse", "index"):
            continue
        digest.update(name.encode())
        digest.update(str(tuple(tensor.shape)).encode())
        digest.update(tensor.detach().cpu().contiguous().to(torch.float32).numpy().tobytes())
    return digest.hexdigest()
