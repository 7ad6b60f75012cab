"""Random crops of pairs. Which crop comes when follows from the seed, the iteration and its place alone.

So there is no state to store: the position in the data *is* the iteration, whatever the number of workers or
processes, and a run that goes on after a crash sees what it would have seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from twinnet.errors import UsageError
from twinnet.restore.data.pairs import Pairs

if TYPE_CHECKING:
    import torch

__all__ = ["Crops", "batches"]


class Crops:
    """Crops of `size` x `size` bad pixels, one random colour plane each, from all images that are large enough.

    Every place of an image is equally likely. `weigh="images"` takes every image equally often,
    `"pixels"` every crop of the whole collection. A share `tones` of them has less contrast, and half of
    these are inverted: a table that is indexed by brightness then learns from other brightnesses too.
    """

    def __init__(
        self, pairs: Pairs, size: int, *, seed: int = 0, weigh: str = "images", augment: bool = True,
        tones: float = 0.0,
    ) -> None:  # fmt: skip
        self.pairs, self.size, self.seed, self.augment, self.tones = pairs, size, seed, augment, tones
        scale = pairs.task.scale
        self.sizes = [tuple(side // scale for side in pairs.good[k].shape[:2]) for k in range(len(pairs))]
        places = np.array([(rows - size + 1) * (columns - size + 1) for rows, columns in self.sizes])
        fits = np.array([min(rows, columns) >= size for rows, columns in self.sizes])
        self.small = tuple(name for name, ok in zip(pairs.names, fits) if not ok)
        """Images smaller than a crop, which are left out."""
        if not fits.any():
            rows, columns = max(self.sizes, key=min)
            raise UsageError(
                f"all {len(pairs)} images are smaller than a crop: the largest has {rows * scale} x "
                f"{columns * scale} pixels, a crop {size * scale} x {size * scale}",
                hint="use larger images or a smaller data.crop_size",
            )
        weights = np.where(fits, places if weigh == "pixels" else 1, 0).astype(np.float64)
        self._edges = np.cumsum(weights / weights.sum())
        self._edges[-1] = 1.0

    def crop(self, iteration: int, place: int) -> tuple[np.ndarray, np.ndarray]:
        """The bad and the good crop at one place of one batch, 0..255."""
        random = np.random.default_rng([self.seed, iteration, place])
        k = int(np.searchsorted(self._edges, random.random(), side="right"))
        rows, columns = self.sizes[k]
        y, x = (int(random.integers(side - self.size + 1)) for side in (rows, columns))
        task, good = self.pairs.task, self.pairs.good[k]
        if good.ndim == 3:
            good = good[..., int(random.integers(good.shape[2]))] if self.pairs.low is None else good
        n, side = task.scale, self.size * task.scale
        if self.pairs.low is None:
            m = task.margin
            ys = np.arange(y * n - m, y * n + side + m).clip(0, len(good) - 1)
            xs = np.arange(x * n - m, x * n + side + m).clip(0, good.shape[1] - 1)
            wide = good[np.ix_(ys, xs)] if m else good[y * n : y * n + side, x * n : x * n + side]
            low = task.low(wide, random)
            low = low[m // n : m // n + self.size, m // n : m // n + self.size]
            high = wide[m : m + side, m : m + side]
        else:
            low = self.pairs.low[k][y : y + self.size, x : x + self.size]
            high = good[y * n : y * n + side, x * n : x * n + side]
            if high.ndim == 3:
                colour = int(random.integers(high.shape[2]))
                low, high = low[..., colour], high[..., colour]
        if self.augment:
            low, high = self._turned(low, high, random)
        if self.tones and random.random() < self.tones:
            low, high = self._toned(low, high, random)
        return low, high

    @staticmethod
    def _turned(
        low: np.ndarray, high: np.ndarray, random: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        across, down, turns = random.integers(2), random.integers(2), int(random.integers(4))
        pair = []
        for image in (low, high):
            image = image[:, ::-1] if across else image
            image = image[::-1] if down else image
            pair.append(np.rot90(image, turns))
        return pair[0], pair[1]

    @staticmethod
    def _toned(
        low: np.ndarray, high: np.ndarray, random: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        contrast, inverted = random.uniform(0.5, 1), bool(random.integers(2))
        darkest = random.uniform(0, 255 * (1 - contrast))
        low, high = (np.rint(image * contrast + darkest) for image in (low, high))
        return (255 - low, 255 - high) if inverted else (low, high)

    def batch(self, iteration: int, first: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Crops `first` to `first + count` of a batch, float32 in 0..1: [count, 1, rows, columns]."""
        found = [self.crop(iteration, place) for place in range(first, first + count)]
        return tuple(  # type: ignore[return-value]
            np.stack([f[side] for f in found])[:, None].astype(np.float32) / np.float32(255)
            for side in (0, 1)
        )


class _Batches:
    """Batches by iteration, for torch's loader."""

    def __init__(self, crops: Crops, iterations: range, first: int, count: int) -> None:
        self._crops, self._iterations, self._first, self._count = crops, iterations, first, count

    def __len__(self) -> int:
        return len(self._iterations)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        import torch

        low, high = self._crops.batch(self._iterations[index], self._first, self._count)
        return torch.from_numpy(low), torch.from_numpy(high)


def batches(
    crops: Crops, iterations: range, size: int, *, rank: int = 0, ranks: int = 1, workers: int = 0
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """The batches of some iterations: this process's share of `size` crops each."""
    from torch.utils.data import DataLoader

    if size % ranks:
        raise UsageError(
            f"a batch of {size} crops cannot be shared by {ranks} processes",
            hint=f"make batch_size a multiple of {ranks}",
        )
    share = size // ranks
    found = _Batches(crops, iterations, rank * share, share)
    return iter(DataLoader(found, batch_size=None, num_workers=workers))  # type: ignore[arg-type]
