"""Recordings: run a side here, compare it somewhere else.

A recording is a folder: `recording.json` (what ran, its sites and outputs), and for each sample a folder with
`inputs.safetensors` and the traced tensors. In its place a folder of `.npy`, `.npz` or `.safetensors` files is
accepted, one such folder for each sample, or a single file: a recording made *by hand*, whose names and layouts are
anybody's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twinnet.errors import UsageError
from twinnet.files import checked, read_json
from twinnet.result import InputsInfo, SideInfo
from twinnet.site import Site
from twinnet.store import TensorFile, read_npz
from twinnet.trace import Trace

__all__ = ["SCHEMA", "Recording", "Sample", "load_recording"]

SCHEMA = 1
"""Version of recording.json."""

_ARRAYS = (".npy", ".npz", ".safetensors")
_INPUTS = "inputs"
"""What the file or folder with the inputs of a sample is called."""


class Sample(dict[str, np.ndarray]):
    """The inputs of one sample, with its index."""

    def __init__(self, values: Mapping[str, np.ndarray], index: int) -> None:
        super().__init__(values)
        self.index = index


@dataclass(frozen=True)
class Recording:
    """A recording opened for reading; tensors are memory-mapped when asked for.

    `by_hand` marks files that somebody else wrote: they say neither which tensors are outputs, nor in which order axes
    are.
    """

    folder: Path
    side: SideInfo
    sites: tuple[Site, ...]
    inputs: Mapping[str, str]
    outputs: tuple[str, ...]
    level: str
    info: InputsInfo
    samples: tuple[Path, ...]
    by_hand: bool = False

    def sample(self, index: int) -> Sample:
        """The inputs of one sample."""
        found = self.samples[index] / _INPUTS
        files = [found.with_suffix(suffix) for suffix in _ARRAYS[1:]]
        if found.is_dir():
            files += _array_files(found)
        values: dict[str, np.ndarray] = {}
        for path in files:
            if path.exists():
                values.update(_read(path))
        return Sample(values, index)

    def trace(self, index: int) -> Trace:
        """The tensors of one sample."""
        files: dict[str, Path] = {}
        arrays: dict[str, np.ndarray] = {}
        for path in _array_files(self.samples[index]):
            if path.suffix == ".safetensors":
                files.update(dict.fromkeys(TensorFile(path).keys(), path))
            else:
                arrays.update(_read(path))
        return Trace(arrays, files=files)


def load_recording(folder: str | Path) -> Recording:
    """Open a recording, or arrays that somebody else wrote: a folder of files, one for each sample, or a file."""
    folder = Path(folder)
    if not folder.is_dir() and not (folder.is_file() and folder.suffix in _ARRAYS):
        kind = "not a recording" if folder.exists() else "no such recording"
        raise UsageError(
            f"{kind}: {folder}", hint="a folder by `twinnet record`, or .npy, .npz or .safetensors files"
        )
    path = folder / "recording.json"
    if not path.exists():
        return _from_arrays(folder)
    data = read_json(path, "recording")
    schema = data.get("schema") if isinstance(data, dict) else None
    if isinstance(schema, int) and schema > SCHEMA:
        raise UsageError(f"{path} was written by a newer twinnet (schema {schema})")
    index = checked(_Index, data, f"{path} is not a readable recording")
    for number in range(index.samples):
        if not (folder / f"{number:04d}").is_dir():
            raise UsageError(f"the recording {folder} is incomplete: {number:04d} is missing")
    return Recording(
        folder,
        index.side,
        index.sites,
        index.inputs,
        index.outputs,
        index.level,
        index.info,
        tuple(folder / f"{number:04d}" for number in range(index.samples)),
    )


@dataclass(frozen=True)
class _Index:
    """recording.json."""

    schema: int
    side: SideInfo
    sites: tuple[Site, ...]
    inputs: dict[str, str]
    outputs: tuple[str, ...]
    level: str
    info: InputsInfo
    samples: int


def _from_arrays(folder: Path) -> Recording:
    samples = _sample_folders(folder)
    names = _names(samples[0])
    if not names:
        raise UsageError(
            f"{folder} holds neither a recording nor .npy, .npz or .safetensors files", hint=_raw_hint(folder)
        )
    for sample in samples[1:]:
        if apart := sorted(set(names).symmetric_difference(_names(sample))):
            raise UsageError(
                f"{samples[0]} and {sample} are not samples of one recording: only one of them has {apart[0]}",
                hint="each sample is a folder with the same names of files",
            )
    # The files do not say which are outputs, so each of them is compared.
    sites = tuple(Site(name, name, role="output") for name in names)
    side = SideInfo(folder.name, "recording", f"recording:{folder}", format="tensor files", sites=len(sites))
    info = InputsInfo(len(samples), str(folder), False)
    return Recording(folder, side, sites, {}, (), "intermediates", info, samples, by_hand=True)


def _sample_folders(folder: Path) -> tuple[Path, ...]:
    """The folder itself if it holds arrays, else the folders in it that do, in the order of their numbers."""
    if folder.is_file() or _array_files(folder):
        return (folder,)
    inside = [p for p in folder.iterdir() if p.is_dir() and p.name != _INPUTS and _array_files(p)]
    return tuple(sorted(inside, key=lambda p: _by_number(p.name))) or (folder,)


def _by_number(name: str) -> list[tuple[int, str]]:
    """A key that puts sample 10 behind sample 9.

    >>> sorted(["s10", "s9"], key=_by_number)
    ['s9', 's10']
    """
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name) if part]


def _array_files(place: Path) -> list[Path]:
    """The files of tensors at a place, which may be a file itself; inputs are not among them."""
    if place.is_file():
        return [place]
    found = (p for p in place.iterdir() if p.suffix in _ARRAYS and (p.stem != _INPUTS or p.suffix == ".npy"))
    return sorted(found, key=lambda p: _by_number(p.name))


def _names(sample: Path) -> list[str]:
    """The names of all tensors of a sample."""
    names: list[str] = []
    for path in _array_files(sample):
        for name in TensorFile(path).keys() if path.suffix == ".safetensors" else _read(path):
            if name in names:
                raise UsageError(
                    f"{sample} holds two tensors called {name}", hint=f"one of them is in {path}"
                )
            names.append(name)
    return names


def _raw_hint(folder: Path) -> str | None:
    """What to do with files of bare numbers, which many devices write."""
    raw = next((p for p in _files_below(folder) if p.suffix in (".raw", ".bin", ".dat")), None)
    if raw is None:
        return None
    return f"{raw.name} does not say its shape: np.save(NAME, np.fromfile({raw.name!r}, np.float32).reshape(SHAPE))"


def _files_below(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        yield from sorted(path.iterdir()) if path.is_dir() else (path,)


def _read(path: Path) -> dict[str, np.ndarray]:
    """All tensors of one file, by name."""
    if path.suffix == ".safetensors":
        file = TensorFile(path)
        return {name: file[name] for name in file}
    try:
        if path.suffix == ".npy":
            return {path.stem: np.load(path, mmap_mode="c", allow_pickle=False)}
    except (OSError, ValueError, EOFError, OverflowError) as error:
        raise UsageError(f"{path} is not a readable array file: {error}") from None
    return read_npz(path)
