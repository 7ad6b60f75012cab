"""How the settings of the classical filters were chosen: the best mean PSNR on held-out images, out of a grid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from twinnet.restore.filters import FILTERS
from twinnet.restore.metrics import psnr
from twinnet.restore.tasks import Task, pixels

__all__ = ["GRIDS", "tune"]

GRIDS: dict[str, dict[str, tuple[float, ...]]] = {
    "Gaussian": {"sigma": (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.4, 1.6, 1.8, 2.0)},
    "bilateral": {
        "range": (5, 8, 12, 18, 25, 35, 50, 65, 80, 100, 130, 160, 200, 250),
        "space": (0.7, 1.0, 1.4, 1.8, 2.4, 3.0),
    },
    "non-local means": {"h": (2, 3, 4, 6, 8, 10, 13, 16, 20, 25, 30, 36, 42, 50)},
}
"""What `tune` tries."""


def tune(
    task: Task, images: Sequence[np.ndarray], watch: Callable[[str, float], None] | None = None
) -> dict[str, dict[str, float]]:
    """The settings of every filter with the best mean PSNR on gray images, out of `GRIDS`.

    >>> from twinnet.restore.tasks.denoise import Denoise
    >>> noisy = tune(Denoise(25), [np.tile(np.uint8([90, 110]).repeat(16), (32, 1))])
    >>> sorted(noisy)
    ['Gaussian', 'bilateral', 'non-local means']
    """
    pairs = [(pixels(low), good) for low, good in map(task.degrade, images)]
    found: dict[str, dict[str, float]] = {}
    for name, run in FILTERS.items():
        grid: dict[str, Any] = GRIDS[name]
        tried = [dict(zip(grid, values)) for values in product(*grid.values())]
        scores = []
        for number, settings in enumerate(tried, start=1):
            scores.append(float(np.mean([psnr(run(low, **settings), good) for low, good in pairs])))
            if watch is not None:
                watch(f"{task.describe()}: {name}", number / len(tried))
        found[name] = tried[int(np.argmax(scores))]
    return found
