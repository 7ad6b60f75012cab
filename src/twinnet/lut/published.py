"""Readers for the published table layouts: SR-LUT, MuLUT, DFC, SPF-LUT and AutoLUT.

These files carry no description. Their names are used where they are unambiguous, their shapes where names
contradict them, and the conventions of the publishers' code for the rest. Every assumption is listed in the
notes of the result.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from twinnet.errors import UsageError
from twinnet.lut.band import band_index
from twinnet.lut.dfc import infer_band
from twinnet.lut.families import recognise
from twinnet.lut.file import LutFile
from twinnet.lut.grid import Grid, infer_nodes
from twinnet.lut.npy import read_array, read_int8
from twinnet.lut.plan import Table

__all__ = ["Options", "Parts", "Piece", "dense_grid", "read_published"]

_NAME = re.compile(
    r"^(?P<lut>.*?)(?:^|_)s(?P<stage>\d+)(?:_?c(?P<channel>\d+))?_(?P<mode>[A-Za-z]+\d*|\d+)"
    r"(?:_(?P<part>compress1|compress2|sampler|residual))?$"
)
_SRLUT = re.compile(r"^Model_(?P<kind>[SFV])_x(?P<scale>\d+)_(?P<bits>\d+)bit_int8")


@dataclass(frozen=True)
class Options:
    """What the caller states; None means infer or assume it, and note so."""

    last: int | None = None
    compat: str = ""
    scale: int | None = None
    lut: str | None = None
    """Which tables of a folder that holds several sets, e.g. `LUT_ft`."""


@dataclass
class Piece:
    """The files of one table."""

    mode: str
    dense: Path | None = None
    compress1: Path | None = None
    compress2: Path | None = None
    sampler: Path | None = None
    residual: Path | None = None

    @property
    def where(self) -> Path:
        """One of its files, for messages."""
        return next(p for p in (self.dense, self.compress1, self.compress2, self.sampler, self.residual) if p)


@dataclass
class Parts:
    """A folder's tables by (stage, input channel), in mode order, with notes on conventions."""

    lut: str
    pieces: dict[tuple[int, int], list[Piece]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    grid_last: int = 255
    index: np.ndarray | None = None

    def table(self, piece: Piece) -> Table:
        """Read one table, dense or compressed."""
        if piece.dense is not None:
            values = read_int8(piece.dense)
            axes, grid = dense_grid(values, piece.dense, 4)
            return Table(values, axes, grid.nodes, grid.step, self.grid_last)
        if piece.compress1 is None or piece.compress2 is None:
            raise UsageError(f"{piece.where}: compressed tables come in pairs, compress1 and compress2")
        return self._banded(piece.compress1, piece.compress2)

    def _banded(self, first: Path, second: Path) -> Table:
        values, coarse = read_int8(first), read_int8(second)
        near, width = infer_band(len(values))
        _, thin_grid = dense_grid(coarse, second, 4)
        index = band_index(17, near, width)
        if self.index is not None and not np.array_equal(self.index, index):
            raise UsageError(f"{first}: the ref2index file beside it does not fit its {len(values)} rows")
        return Table(values, 4, 17, 16, self.grid_last, near, width, thin_grid.step // 16, index, coarse)


def dense_grid(values: np.ndarray, path: Path, axes: int | None) -> tuple[int, Grid]:
    """Axes and grid of a dense table from its row count."""
    try:
        return infer_nodes(len(values), axes)
    except UsageError as error:
        raise UsageError(f"{path}: {error.what}", hint=error.hint) from error


def read_published(source: str | Path, options: Options | None = None) -> LutFile:
    """Published tables: one SR-LUT `.npy` file, or a folder of any of the other layouts."""
    path, chosen = Path(source), options if options is not None else Options()
    from twinnet.lut.layouts import folder_network, srlut_network

    other = recognise(path)
    if other is not None:
        raise UsageError(
            f"{path} holds tables of {other.family.name}, which cannot be run yet",
            hint=f"that would take {other.family.needs}; SR-LUT, MuLUT, DFC, SPF-LUT and AutoLUT can be run",
        )
    if path.is_dir():
        found, kind = folder_network(_scan(path, chosen), chosen), "folder"
    elif path.is_file() and path.suffix == ".npy":
        named = _SRLUT.match(path.name)
        found, kind = srlut_network(path, named.groupdict() if named else {}, chosen), "file"
    elif path.exists():
        raise UsageError(f"{path} is not a file of tables", hint=_KNOWN)
    else:
        raise UsageError(f"no such file or folder: {path}")
    scale = found.plan.scale
    if chosen.scale is not None and scale != chosen.scale:
        raise UsageError(f"{path}: these are tables for x{scale}, not x{chosen.scale}")
    notes = (f"read from {kind} {path.name}", *found.notes)
    return LutFile(found.plan, found.name, "sr" if scale > 1 else "restoration", "", notes, found.floats)


_KNOWN = "tables are a .lut.safetensors file, a published .npy file or a folder of them"


def _scan(folder: Path, options: Options) -> Parts:
    sets: dict[str, dict[tuple[int, int, str], Piece]] = defaultdict(dict)
    loose: list[tuple[str, tuple[int, int, str], Path]] = []
    index = None
    for path in sorted(folder.glob("*.npy")):
        if path.stem.startswith("ref2index"):
            index = read_array(path)
            continue
        found = _NAME.match(path.stem)
        if found is None:
            continue
        key = (int(found["stage"]), int(found["channel"] or 0), found["mode"])
        lut, part = found["lut"], found["part"] or "dense"
        if lut in ("sampler", "residual"):
            loose.append((lut, key, path))
            continue
        piece = sets[lut].setdefault(key, Piece(found["mode"]))
        setattr(piece, part, path)
    if not sets:
        raise UsageError(
            f"{folder} holds no tables", hint=f"{_KNOWN}; names look like LUT_ft_x4_4bit_int8_s1_s.npy"
        )
    parts = Parts(_choose(folder, sorted(sets), options))
    parts.index = index
    for lut, key, path in loose:
        if key in sets[parts.lut]:
            setattr(sets[parts.lut][key], lut, path)
    if len(sets) > 1:
        parts.notes.append(f"tables {parts.lut!r} chosen among {', '.join(sorted(sets))}")
    for (stage, channel, mode), piece in _ordered(sets[parts.lut]):
        if mode == "sampler" or (piece.dense is None and piece.compress1 is None):
            raise UsageError(f"{piece.where}: there is no table that goes with this file")
        parts.pieces.setdefault((stage, channel), []).append(piece)
    return parts


def _ordered(pieces: dict[tuple[int, int, str], Piece]) -> list[tuple[tuple[int, int, str], Piece]]:
    order = "sdyeho"
    rank = {mode: k for k, mode in enumerate(order)}
    return sorted(
        pieces.items(), key=lambda item: (item[0][0], item[0][1], rank.get(item[0][2], 9), item[0][2])
    )


def _choose(folder: Path, names: list[str], options: Options) -> str:
    if options.lut is not None:
        match = [n for n in names if n == options.lut or n.startswith(options.lut + "_x")]
        if len(match) != 1:
            raise UsageError(f"{folder} has no tables {options.lut!r}", hint=f"it has: {', '.join(names)}")
        return match[0]
    if len(names) == 1:
        return names[0]
    tuned = [n for n in names if "_ft" in n or n == "weight"]
    if len(tuned) == 1:
        return tuned[0]
    raise UsageError(
        f"{folder} holds several sets of tables: {', '.join(names)}", hint="say which with --lut NAME"
    )
