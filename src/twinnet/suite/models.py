"""The models of a suite: files in its folders."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from twinnet.engines.spec import file_name

__all__ = ["Model", "file_hash", "find_models", "is_model", "model_at"]

_SUFFIXES = (".onnx", ".tflite", ".pt2")
_PYTHON = "_model.py"


@dataclass(frozen=True, slots=True)
class Model:
    """One file, and its name in the names of cases."""

    name: str
    path: Path

    @property
    def kind(self) -> str:
        """How its layers are listed and cut: "onnx", "tflite" or "program"."""
        return {".onnx": "onnx", ".tflite": "tflite"}.get(self.path.suffix.lower(), "program")

    @property
    def is_code(self) -> bool:
        """Whether it is Python code, which may read more than this file."""
        return self.path.suffix == ".py"


def is_model(path: Path) -> bool:
    """Whether the name of a file is that of a model.

    >>> is_model(Path("models/net.onnx")), is_model(Path("models/net_model.py")), is_model(Path("models/net.py"))
    (True, True, False)
    """
    return path.suffix.lower() in _SUFFIXES or path.name.endswith(_PYTHON)


def model_at(path: Path) -> Model:
    """A model outside the folders of the suite, under the name of its file."""
    return Model(_stem(path), path)


def find_models(folders: Iterable[Path]) -> tuple[Model, ...]:
    """The models in these folders, by path. Those that share a name get the rest of their path into it."""
    found: dict[Path, Path] = {}
    for folder in folders:
        for place, inner, files in os.walk(folder):
            inner[:] = sorted(d for d in inner if not d.startswith((".", "__pycache__")))
            for name in sorted(files):
                path = Path(place, name)
                if not name.startswith(".") and is_model(path):
                    found.setdefault(path, folder)
    stems = Counter(_stem(path) for path in found)
    models: dict[str, Model] = {}
    for path, folder in found.items():
        name = _stem(path)
        if stems[name] > 1:
            name = file_name(path.relative_to(folder).as_posix())
        while name in models:
            name += "-2"
        models[name] = Model(name, path)
    return tuple(models.values())


def _stem(path: Path) -> str:
    return file_name(path.name.removesuffix(".py") if path.name.endswith(_PYTHON) else path.stem)


def file_hash(path: Path) -> str:
    """A hash of a file's bytes, or of all files of a folder with their names."""
    if path.is_dir():
        inner = sorted(p for p in path.rglob("*") if p.is_file())
        words = [f"{p.relative_to(path)}:{file_hash(p)}" for p in inner]
        return hashlib.sha256("\n".join(words).encode()).hexdigest()
    state = path.stat()
    # The time of the last change of anything about it cannot be set back, as the other one can.
    return _hashed(str(path.resolve()), state.st_size, state.st_mtime_ns, state.st_ctime_ns)


@lru_cache(maxsize=4096)
def _hashed(path: str, size: int, written: int, changed: int) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
