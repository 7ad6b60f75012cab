"""A file of lookup tables as a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from twinnet.lut.file import LutFile, read
from twinnet.lut.plan import Plan
from twinnet.network.base import Network
from twinnet.signature import Signature, TensorSpec

if TYPE_CHECKING:
    from twinnet.structure.change import StructureDiff

__all__ = ["HoldsTables", "TableNetwork"]


class HoldsTables:
    """A network whose tables were made before; `tables` is their file, if there is one."""

    tables: Path | None = None


class TableNetwork(Network):
    """Tables made earlier: images in [0, 1] in, larger ones out. Parameters are table entries."""

    format = "lookup tables"
    shapes_are_free = True

    def __init__(self, file: LutFile, *, name: str = "tables", path: Path | None = None) -> None:
        self.file = file
        entries = sum(t.nbytes for t in file.plan.tables.values())
        image = TensorSpec("image", "float32", ("batch", "colours", "rows", "columns"))
        output = TensorSpec("output", "float32", ("batch", "colours", "rows", "columns"))
        super().__init__(name, Signature((image,), (output,)), parameters=entries, path=path)

    @property
    def plan(self) -> Plan:
        """What the tables compute."""
        return self.file.plan

    @classmethod
    def load(cls, path: Path, *, name: str = "") -> TableNetwork:
        """Read a `.lut.safetensors` file."""
        return cls(read(path), name=name or path.name.removesuffix(".lut.safetensors"), path=path)

    def compared(self, a: Network, b: Network) -> StructureDiff:
        """Plan beside plan; a LUT network beside a file is tabulated."""
        from twinnet.tables.compare import compare_tables

        return compare_tables(a, b)
