"""Published table networks of other families: recognised by the names of their files, but not run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["FAMILIES", "Family", "Found", "recognise"]


@dataclass(frozen=True)
class Family:
    """A kind of published tables that cannot be run yet."""

    name: str
    names: str
    """A regular expression of its files' names."""
    what: str
    """What its tables hold, in words."""
    needs: str
    """What a plan would need to run it."""


@dataclass(frozen=True)
class Found:
    """Tables of a family in a folder."""

    family: Family
    files: int
    bytes: int

    def describe(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "name": self.family.name, "runs": False, "files": self.files, "bytes": self.bytes,
            "what": self.family.what, "needs": self.family.needs,
        }  # fmt: skip

    def lines(self) -> list[str]:
        """For people."""
        return [
            f"tables    {self.family.name}: {self.files} files, {self.bytes:,} bytes",
            f"what      {self.family.what}",
            f"run       not yet: {self.family.needs}",
        ]


FAMILIES = (
    Family(
        "HKLUT",
        r"S\d+_(MSB|LSB)_[A-Z]+_LUT_[A-Z]_x\d+_\d+bit_int8\.npy",
        "super-resolution in stages; tables of two or three pixels, some for the high four bits of a pixel (MSB) and "
        "some for the low four (LSB)",
        "tables that are indexed by half of a pixel's bits, and added",
    ),
    Family(
        "ShiftLUT",
        r"((DW|PW)\d+|UP)_(MSB|LSB)\.(npz|json)",
        "restoration with several channels: depthwise (DW), pointwise (PW) and upscaling (UP) tables for the high and "
        "the low bits, and learned shifts (offset.npy)",
        "channels that are shifted by learned offsets between stages",
    ),
    Family(
        "TinyLUT",
        r"Model_[A-Z]_(L\d+_(Depth|Point)|UP)_x\d+_[HL]\d\.npy",
        "restoration with several channels: depthwise, pointwise and upscaling tables of one input each, for the high "
        "six and the low two bits",
        "tables of single values, added over a window and over channels",
    ),
    Family(
        "LeRF",
        r"LUT\w*?_s\d+_[a-z]r\d\.npy",
        "resampling to any size: a first stage of tables restores, a second one gives the shape of a kernel at "
        "every pixel",
        "resampling with a kernel of its own for every pixel",
    ),
)
"""In the order in which they are tried."""


def recognise(folder: Path) -> Found | None:
    """The family whose tables a folder holds, alone; None for all others."""
    if not folder.is_dir():
        return None
    files = [p for p in folder.iterdir() if p.suffix in (".npy", ".npz", ".json")]
    for family in FAMILIES:
        own = [p for p in files if re.fullmatch(family.names, p.name)]
        if own:
            return Found(family, len(own), sum(p.stat().st_size for p in own))
    return None
