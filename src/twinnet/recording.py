"""Recordings: run a side here, compare it somewhere else.

A recording is a folder: `recording.json` (what ran, its sites and outputs), and for each sample a folder with
`inputs.safetensors` and the traced tensors. Folders of `.npy` or `.npz` files are accepted in its place, with a map
of names where they differ.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from twinnet.errors import UsageError
from twinnet.result import InputsInfo, SideInfo
from twinnet.site import Site
from twinnet.store import TensorFile
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
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
        if index["schema"] > SCHEMA:
            raise UsageError(f"{path} was written by a newer twinnet (schema {index['schema']})")
        sites = tuple(
            _fill(Site, {**s, "shape": tuple(s["shape"]) if s.get("shape") else None}) for s in index["sites"]
        )
        found = Recording(
            folder=folder,
            side=_fill(SideInfo, index["side"]),
            sites=sites,
            inputs=dict(index["inputs"]),
            outputs=tuple(index["outputs"]),
            level=str(index["level"]),
            info=_fill(InputsInfo, index["info"]),
            samples=tuple(folder / f"{i:04d}" for i in range(int(index["samples"]))),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} is not a readable recording: {error}") from None
    for sample in found.samples:
        if not sample.is_dir():
            raise UsageError(f"the recording {folder} is incomplete: {sample.name} is missing")
    return found


def _fill(kind: Any, values: Mapping[str, Any]) -> Any:
    known = {f.name for f in fields(kind)}
    return kind(**{k: v for k, v in values.items() if k in known})


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
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, KeyError) as error:
        raise UsageError(f"{path} is not a readable array file: {error}") from None
    return {}


def read_name_map(path: str | Path) -> dict[str, str]:
    """Read a map of tensor names, first side to second: a JSON object, a TOML table, or lines `ours = theirs`."""
    import tomllib

    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
        table = (
            json.loads(text)
            if path.suffix == ".json"
            else tomllib.loads(text)
            if path.suffix == ".toml"
            else None
        )
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is not a readable name map: {error}") from None
    if table is None:
        pairs = [
            line.partition("=") for line in text.splitlines() if line.strip() and not line.startswith("#")
        ]
        table = {a.strip(): b.strip() for a, equals, b in pairs if equals}
    if not isinstance(table, dict) or not table or not all(isinstance(v, str) for v in table.values()):
        raise UsageError(
            f"{path}: a name map must map names to names", hint='{"network tensor": "twin tensor"}'
        )
    return table
