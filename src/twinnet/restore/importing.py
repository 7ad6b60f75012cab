"""`import_source`: any published file or folder of this family as one of our files."""

from __future__ import annotations

from pathlib import Path

from twinnet.lut.file import LutFile
from twinnet.lut.grid import Grid
from twinnet.lut.published import Options, read_published

__all__ = ["import_source"]


def import_source(
    source: str | Path,
    *,
    last: int | None = None,
    compat: str = "",
    scale: int | None = None,
    lut: str | None = None,
    progress: bool = False,
) -> LutFile:
    """Tables are read as they are; checkpoints (`.pth`, `.npz`) are read as networks and tabulated.

    `last` states the value of the last node; for a checkpoint it chooses it (256 unless stated).
    """
    path = Path(source)
    if path.suffix not in (".pth", ".pt", ".npz"):
        return read_published(path, Options(last, compat, scale, lut))
    from twinnet.errors import UsageError
    from twinnet.lut.exporter import export, units
    from twinnet.restore.published_weights import from_checkpoint

    net = from_checkpoint(path)
    if scale is not None and net.scale != scale:
        raise UsageError(f"{path}: this is a network for x{net.scale}, not x{scale}")
    for _, unit in units(net):
        unit.compat = compat
    chosen = 256 if last is None else last
    export(net, grid=Grid.bits(4, chosen), progress=progress)
    how = "chosen" if last is None else "stated"
    return LutFile.of(net, (f"tabulated from checkpoint {path.name}", f"last node {how} as {chosen}"))
