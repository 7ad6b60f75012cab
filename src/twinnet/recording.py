"""Recordings: run a side here, compare it somewhere else.

A recording is a folder: `recording.json` (what ran, its sites and outputs), and for each sample a folder with
`inputs.safetensors` and the traced tensors. Folders of `.npy` or `.npz` files are accepted in its place, with a map
of names where they differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twinnet.errors import UsageError
from twinnet.files import checked, read_json, read_toml
from twinnet.result import InputsInfo, SideInfo
from twinnet.site import Site
from twinnet.store import TensorFile, read_npz
from twinnet.trace import Trace

__all__ = ["SCHEMA", "Recording", "Sample", "load_recording", "read_name_map"]

SCHEMA = 1
"""Version of recording.json."""


class Sample(dict[str, np.ndarray]):
    """The inputs of one sample, with its index."""

    def __init__(self, values: Mapping[str, np.ndarray], index: int) -> None:
        super().__init__(values)
        self.index = index


@dataclass(frozen=True)
class Recording:
    """A recording opened for reading; tensors are memory-mapped when asked for."""

    folder: Path
    side: SideInfo
    sites: tuple[Site, ...]
    inputs: Mapping[str, str]
    outputs: tuple[str, ...]
    level: str
    info: InputsInfo
    samples: tuple[Path, ...]

    def sample(self, index: int) -> Sample:
        """The inputs of one sample."""
        path = self.samples[index] / "inputs.safetensors"
        file = TensorFile(path) if path.exists() else None
        return Sample({name: file[name] for name in file} if file else {}, index)

    def trace(self, index: int) -> Trace:
        """The tensors of one sample."""
        folder = self.samples[index]
        files: dict[str, Path] = {}
        arrays: dict[str, np.ndarray] = {}
        for path in sorted(folder.iterdir()):
            if path.name == "inputs.safetensors":
                continue
            if path.suffix == ".safetensors":
                files.update(dict.fromkeys(TensorFile(path).keys(), path))
            else:
                arrays.update(_numpy_file(path))
        return Trace(arrays, files=files)


def load_recording(folder: str | Path) -> Recording:
    """Open a recording, or a folder of `.npy`/`.npz` files as one sample."""
    folder = Path(folder)
    if not folder.is_dir():
        raise UsageError(f"no such recording: {folder}")
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
    names: list[str] = []
    for path in sorted(folder.iterdir()):
        if path.suffix in (".npy", ".npz"):
            names.extend(_numpy_file(path))
        elif path.suffix == ".safetensors" and path.name != "inputs.safetensors":
            names.extend(TensorFile(path).keys())
    if not names:
        raise UsageError(f"{folder} holds neither a recording nor .npy, .npz or .safetensors files")
    # The files do not say which are outputs, so each of them is compared.
    sites = tuple(Site(name, name, role="output") for name in names)
    side = SideInfo(folder.name, "recording", f"recording:{folder}", format="tensor files", sites=len(sites))
    return Recording(
        folder, side, sites, {}, (), "intermediates", InputsInfo(1, str(folder), False), (folder,)
    )


def _numpy_file(path: Path) -> dict[str, np.ndarray]:
    try:
        if path.suffix == ".npy":
            return {path.stem: np.load(path, mmap_mode="c", allow_pickle=False)}
    except (OSError, ValueError, EOFError, OverflowError) as error:
        raise UsageError(f"{path} is not a readable array file: {error}") from None
    return read_npz(path) if path.suffix == ".npz" else {}


def read_name_map(path: str | Path) -> dict[str, str]:
    """Read a map of tensor names, first side to second: a JSON object, a TOML table, or lines `ours = theirs`."""
    path = Path(path)
    parse = {".json": read_json, ".toml": read_toml}.get(path.suffix, _read_lines)
    table = parse(path, "name map")
    if not isinstance(table, dict) or not table or not all(isinstance(v, str) for v in table.values()):
        raise UsageError(
            f"{path}: a name map must map names to names", hint='{"network tensor": "twin tensor"}'
        )
    return table


def _read_lines(path: Path, what: str) -> dict[str, str]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is not a readable {what}: {error}") from None
    pairs = [line.partition("=") for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return {a.strip(): b.strip() for a, equals, b in pairs if equals}
