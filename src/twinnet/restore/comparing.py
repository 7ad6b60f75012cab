"""Open the files and folders named with `--compare`. A model that cannot run becomes a row with the reason."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from twinnet.errors import TwinnetError, UsageError
from twinnet.restore.candidates import Candidate, compared, unable
from twinnet.restore.peers import colour_of
from twinnet.restore.tasks import Task

__all__ = ["comparisons", "models_in"]

_SCALE = re.compile(r"(?:^|[_-])x(\d)(?=[_.-]|$)")
_TABLES = re.compile(r".*\.lut\.safetensors|Model_[SFV]_x\d_\d+bit_int8\.npy")


def comparisons(specs: Sequence[str], task: Task) -> list[Candidate]:
    """Everything to compare with. A missing file is an error; a model that does not run is not."""
    found = []
    for spec in specs:
        path, _ = colour_of(spec)
        if not path.exists():
            raise UsageError(f"--compare: no such file or folder: {path}")
        inside = list(models_in(path, task.scale)) if path.is_dir() else [spec]
        if not inside:
            raise UsageError(
                f"--compare: {path} holds no models for x{task.scale}",
                hint="tables (.lut.safetensors, published .npy), .onnx or .pb, named like MODEL_x4.onnx",
            )
        found += [_opened(each, task) for each in inside]
    return found


def models_in(folder: Path, scale: int) -> Iterator[str]:
    """Models in a folder and below whose names state this scale or none."""
    if any(folder.glob("*_s[0-9]_*.npy")):  # published tables that make one network together
        yield str(folder)
        return
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            yield from models_in(path, scale)
        elif path.suffix in (".onnx", ".pb") or _TABLES.fullmatch(path.name):
            told = _SCALE.search(path.name)
            if told is None or int(told[1]) == scale:
                yield str(path)


def _opened(spec: str, task: Task) -> Candidate:
    path = Path(spec.partition("?")[0])
    try:
        return compared(spec, task)
    except TwinnetError as error:
        return unable(path.name, error.what)
