"""The rungs of a climb in a folder, so that an interrupted one can be resumed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from twinnet.cache import content_key
from twinnet.checking.options import Options
from twinnet.engines import Spec, find_engine
from twinnet.engines.spec import file_name
from twinnet.files import atomic_write, checked, read_json
from twinnet.job import Arrays
from twinnet.network import Network
from twinnet.result import Result, Rung

__all__ = ["FILE_NAME", "Journal", "key_of"]

FILE_NAME = "rungs.json"


class Journal:
    """The rungs that are done, by twin, kind of cut and name. Without a folder nothing is kept."""

    def __init__(self, folder: Path | None, key: str) -> None:
        self._folder = folder
        self._key = key
        self._known: dict[str, Rung] = {}
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            self._known = _read(folder / FILE_NAME, key)

    def place(self, twin: Spec, kind: str, name: str) -> Path | None:
        """The run folder of a rung."""
        if self._folder is None:
            return None
        digest = hashlib.sha256(f"{twin}\0{kind}\0{name}".encode()).hexdigest()[:6]
        return self._folder / "rungs" / file_name(f"{twin.slug}-{kind}-{name}-{digest}", 120)

    def find(self, twin: Spec, kind: str, name: str) -> tuple[Rung, Result] | None:
        """A rung that an earlier climb checked, with its result."""
        rung = self._known.get(_name(twin, kind, name))
        folder = self.place(twin, kind, name)
        if rung is None or folder is None or not (folder / "result.json").is_file():
            return None
        result = Result.load(folder)
        return (rung, result) if isinstance(result, Result) else None

    def note(self, twin: Spec, rung: Rung) -> None:
        """Keep a rung."""
        if self._folder is None:
            return
        self._known[_name(twin, rung.cut, rung.name)] = rung
        rungs = {name: dataclasses.asdict(known) for name, known in self._known.items()}
        text = json.dumps({"key": self._key, "rungs": rungs}, indent=1)
        atomic_write(self._folder / FILE_NAME, text.encode())


def _name(twin: Spec, kind: str, name: str) -> str:
    return f"{twin} ({find_engine(twin.engine).version()}) {kind} {name}"


def _read(path: Path, key: str) -> dict[str, Rung]:
    """The rungs of a file, if it is of the same climb."""
    if not path.is_file():
        return {}
    held = read_json(path, "a climb")
    if not isinstance(held, dict) or held.get("key") != key or not isinstance(held.get("rungs"), dict):
        return {}
    return {str(name): checked(Rung, rung, str(path)) for name, rung in held["rungs"].items()}


def key_of(network: Network, samples: Sequence[Arrays], options: Options) -> str:
    """What decides whether two climbs are the same: the network, its inputs, and how it is judged."""
    parts: list[str | bytes] = [network.format, network.name, str(options.level), repr(options.tolerance)]
    parts += [repr(options.limits), repr(options.watch), repr(options.skip), str(options.reference)]
    for sample in samples:
        for name, array in sample.items():
            parts += [name, str(array.dtype), str(array.shape), np.ascontiguousarray(array).tobytes()]
    return content_key(*parts, *_network_parts(network))


def _network_parts(network: Any) -> list[str | bytes]:
    if network.format == "TFLite":
        return [network.data]
    if network.format == "ONNX":
        return [network.model.SerializeToString(deterministic=True)]
    from twinnet.network.arrays import tensor_bytes

    found: list[str | bytes] = [str(network.module), *_sources(network.module)]
    for name, tensor in network.state().items():
        found += [name, f"{tensor.dtype} {tuple(tensor.shape)}", tensor_bytes(tensor)]
    return found


def _sources(module: Any) -> list[str]:
    """The code of the modules, as far as it can be found."""
    import inspect

    found = []
    for kind in dict.fromkeys(type(part) for part in module.modules()):
        try:
            found.append(inspect.getsource(kind))
        except (OSError, TypeError):  # made in a console, or built in
            found.append(kind.__qualname__)
    return found
