"""Scores on the held-out images during a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from twinnet.errors import UsageError
from twinnet.restore.data import Pairs
from twinnet.restore.data.split import SMALLEST

__all__ = ["Validation", "middle"]


def middle(low: np.ndarray, good: np.ndarray, scale: int, side: int) -> tuple[np.ndarray, np.ndarray]:
    """The middle part of a pair, at most `side` good pixels along each axis; 0 means all.

    >>> low, good = middle(np.zeros((10, 20)), np.zeros((40, 80)), 4, 32)
    >>> low.shape, good.shape
    ((8, 8), (32, 32))
    """
    if side == 0:
        return low, good
    cuts = [(max(0, (n - side // scale) // 2), min(n, side // scale)) for n in low.shape[:2]]
    (y, h), (x, w) = cuts
    return low[y : y + h, x : x + w], good[y * scale : (y + h) * scale, x * scale : (x + w) * scale]


@dataclass(frozen=True, eq=False)
class Validation:
    """Some held-out pairs; each process scores its share."""

    pairs: Pairs
    images: int
    side: int

    @classmethod
    def of(cls, pairs: Pairs, images: int, side: int) -> Validation:
        """Of the images that are large enough to be scored."""
        which = [k for k in range(len(pairs)) if min(pairs.good[k].shape[:2]) >= SMALLEST]
        if not which:
            raise UsageError(
                f"no validation image has {SMALLEST} x {SMALLEST} pixels, so none can be scored",
                hint="use larger images, or name other ones in [data] valid",
            )
        return cls(pairs.chosen(which), images, side)

    def count(self) -> int:
        """How many images are used."""
        return min(self.images, len(self.pairs))

    def scores(
        self, predict: Callable[[np.ndarray], np.ndarray], rank: int = 0, ranks: int = 1
    ) -> list[dict[str, float]]:
        """The scores of every image of this process's share."""
        task, found = self.pairs.task, []
        for k in range(rank, self.count(), ranks):
            low, good = middle(*self.pairs.pair(k), task.scale, self.side)
            restored = predict(low)
            found.append({name: metric(restored, good) for name, metric in task.metrics.items()})
        return found

    def sample(self, predict: Callable[[np.ndarray], np.ndarray]) -> dict[str, np.ndarray]:
        """The first image: without a network, restored, and as it should be."""
        task = self.pairs.task
        low, good = middle(*self.pairs.pair(0), task.scale, self.side)
        return {task.plain_name: task.plain(low), "restored": predict(low), "target": np.asarray(good)}
