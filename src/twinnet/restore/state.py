"""Checkpoints: everything needed to resume a run exactly, written atomically."""

from __future__ import annotations

import inspect
import io
import random
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from twinnet.errors import UsageError, foreign_as
from twinnet.files import atomic_write

__all__ = ["Checkpoint", "checkpoints", "newest", "prune", "random_state", "read", "restore_random", "write"]

_FORMAT, _VERSION = "twinnet.restore.checkpoint", 1
_NAME = re.compile(r"^iter_(\d+)\.pt$")


@dataclass
class Checkpoint:
    """The state after `iteration` steps. The position in the data is the iteration (see `data.crops`)."""

    iteration: int
    config: str
    """Text of the config that made it."""
    net: dict[str, torch.Tensor]
    optimiser: dict[str, Any]
    schedule: dict[str, float]
    """The learning rate of the last step, and the length it was computed for."""
    data: dict[str, int]
    """Seed and next iteration of the crops."""
    randoms: list[dict[str, Any]]
    """Random states of every process."""
    scores: list[dict[str, float]] = field(default_factory=list)
    """Validations so far, each with its iteration."""
    pending: list[float] = field(default_factory=list)
    """Losses since the last line of the log."""
    scaler: dict[str, Any] = field(default_factory=dict)
    """Of the loss, with mixed precision."""
    source: str = ""
    """Hash of what was fine-tuned."""

    @property
    def best(self) -> int | None:
        """The iteration with the best validation so far."""
        return best_of(self.scores)


def best_of(scores: Iterable[dict[str, float]]) -> int | None:
    """The iteration of the best score; of equal ones the first."""
    ranked = [s for s in scores if not np.isnan(s["score"])]
    return int(max(ranked, key=lambda s: s["score"])["iteration"]) if ranked else None


def write(folder: Path, checkpoint: Checkpoint) -> Path:
    """Write `iter_NNNNNNNN.pt`; no failure, not even a full disk, leaves a partial file of that name."""
    path = folder / f"iter_{checkpoint.iteration:08d}.pt"
    buffer = io.BytesIO()
    torch.save({"format": _FORMAT, "version": _VERSION, **vars(checkpoint)}, buffer)
    atomic_write(path, buffer.getvalue(), durable=True)
    return path


def read(path: Path) -> Checkpoint:
    """Read a checkpoint; only tensors and plain data are ever unpickled."""

    def refused(error: BaseException) -> UsageError:
        first = str(error).partition("\n")[0] or type(error).__name__
        return UsageError(f"{path} is not a readable checkpoint: {first}")

    if not path.is_file():
        raise UsageError(f"no such checkpoint: {path}")
    with foreign_as(refused):
        content = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(content, dict) or content.pop("format", None) != _FORMAT:
        raise UsageError(f"{path} is not a checkpoint of an experiment")
    if (version := content.pop("version", None)) != _VERSION:
        raise UsageError(f"{path} has version {version}; this twinnet reads {_VERSION}")
    try:
        inspect.signature(Checkpoint).bind(**content)
    except TypeError as error:
        raise UsageError(f"{path} is damaged: {error}") from error
    return Checkpoint(**content)


def checkpoints(folder: Path) -> dict[int, Path]:
    """All checkpoints in a folder by iteration, in order."""
    if not folder.is_dir():
        return {}
    found = {int(m[1]): p for p in folder.iterdir() if (m := _NAME.match(p.name))}
    return dict(sorted(found.items()))


def newest(folder: Path) -> Checkpoint | None:
    """The latest checkpoint, or None."""
    found = checkpoints(folder)
    return read(found[max(found)]) if found else None


def prune(folder: Path, keep: int, best: int | None) -> None:
    """Delete all but the latest `keep` and the best (0 keeps all), and what a killed writer left behind."""
    for left in folder.glob(".iter_*"):
        left.unlink(missing_ok=True)
    if keep == 0:
        return
    found = checkpoints(folder)
    for iteration in list(found)[:-keep]:
        if iteration != best:
            found[iteration].unlink(missing_ok=True)


def random_state() -> dict[str, Any]:
    """The state of all generators of this process, as plain data."""
    name, keys, *rest = np.random.get_state()
    version, internal, gauss = random.getstate()
    state: dict[str, Any] = {
        "torch": torch.get_rng_state(),
        "numpy": [str(name), torch.from_numpy(np.asarray(keys).astype(np.int64)), *rest],
        "python": [version, list(internal), gauss],
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def restore_random(state: dict[str, Any]) -> None:
    """Put all generators back."""
    torch.set_rng_state(state["torch"])
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), *rest))
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])
