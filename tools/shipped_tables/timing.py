"""Running times as ratios: every candidate of a board on one image, round after round, each beside the same unit.

Clocks of shared machines change from second to second. So the unit (OpenCV's cubic resampling, or its bilateral
filter) is timed right before each candidate, in CPU time on one thread, and the median of the ratios counts.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from twinnet.errors import TwinnetError
from twinnet.restore.candidates import Candidate
from twinnet.restore.tasks import Task

__all__ = ["frame", "ratios"]

ROUNDS, PATIENCE = 9, 2.0
"""Rounds for each candidate, fewer for one that takes more seconds than `PATIENCE` in all."""


def frame(task: Task, data: Path) -> np.ndarray:
    """The bad image that is timed: a photograph of 768 x 512, degraded; a synthetic scene where there is none."""
    from PIL import Image

    from twinnet.restore.sample import scene

    path = next(iter(sorted((data / "images" / "bench" / "Kodak24" / "HR").glob("*"))), None)
    good = scene(3, 512, 768) if path is None else np.asarray(Image.open(path).convert("RGB"))
    low, _ = task.degrade(good)
    return np.ascontiguousarray(low)


def ratios(
    task: Task,
    models: Sequence[Candidate],
    data: Path,
    watch: Callable[[str, float], None] | None = None,
) -> dict[str, float]:
    """By name, running time over that of the candidate marked as the unit; nothing if there is none."""
    unit = next((model for model in models if model.unit and not model.why_not), None)
    if unit is None:
        return {}
    image = frame(task, data)
    found = {}
    for number, model in enumerate(models):
        if watch is not None:
            watch(f"speed: {model.name}", number / len(models))
        if model.why_not:
            continue
        try:
            model.restore(image)
            found[model.name] = round(_ratio(unit, model, image), 3)
        except TwinnetError:
            continue  # its row says why: it failed on the images, too
    found[unit.name] = 1.0
    return found


def _ratio(unit: Candidate, model: Candidate, image: np.ndarray) -> float:
    took: list[float] = []
    total = 0.0
    while len(took) < ROUNDS and (len(took) < 3 or total < PATIENCE):
        base = min(_seconds(unit, image) for _ in range(5))
        seconds = _seconds(model, image)
        total += seconds
        took.append(seconds / base)
    return statistics.median(took)


def _seconds(model: Candidate, image: np.ndarray) -> float:
    began = time.process_time()
    model.restore(image)
    return time.process_time() - began
