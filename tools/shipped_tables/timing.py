"""Running times as ratios: every candidate of a board makes one image, round after round, each beside the same unit.

Clocks of shared machines change from second to second, and OpenCV's filters change with them in another way than table
lookups do. So the unit is a table network that everybody has, MuLUT, run in the same engine right before each
candidate, in CPU time on one thread, and the median of the ratios counts.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from tools.shipped_tables.competitors import UNIT, competitors
from twinnet.errors import TwinnetError
from twinnet.restore.candidates import Candidate
from twinnet.restore.tasks import Task
from twinnet.restore.tasks.sr import SuperResolution

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
    """By name, the time to make one image over that of `UNIT` to make one of the same size; nothing without it."""
    found_unit = next(
        (c for other, _, c in competitors(SuperResolution(4), data) if other.name == UNIT), None
    )
    if found_unit is None or found_unit.why_not:
        return {}
    unit_image = frame(SuperResolution(4), data)
    unit = lambda: found_unit.restore(unit_image)  # noqa: E731
    image = frame(task, data)
    found = {}
    for number, model in enumerate(models):
        if watch is not None:
            watch(f"speed: {model.name}", number / len(models))
        if model.why_not:
            continue
        if model.name == UNIT:
            found[model.name] = 1.0
            continue
        try:
            model.restore(image)
            found[model.name] = round(_ratio(unit, lambda model=model: model.restore(image)), 3)
        except TwinnetError:
            continue  # its row says why: it failed on the images, too
    return found


def _ratio(unit: Callable[[], object], run: Callable[[], object]) -> float:
    took: list[float] = []
    total = 0.0
    while len(took) < ROUNDS and (len(took) < 3 or total < PATIENCE):
        base = min(_seconds(unit) for _ in range(3))
        seconds = _seconds(run)
        total += seconds
        took.append(seconds / base)
    return statistics.median(took)


def _seconds(run: Callable[[], object]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began
