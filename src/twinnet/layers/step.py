"""The step of quantised values: what whole numbers stand for, and how far apart two of them are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["Step"]


@dataclass(frozen=True, eq=False)
class Step:
    """Whole numbers q that stand for (q - zero) * scale, from `low` to `high`; several scales lie along `axis`.

    >>> step = Step(np.float64(0.5), np.float64(10), 0, 255)
    >>> step.to_real(np.array([9, 12], np.uint8)), step.range
    (array([-0.5,  1. ], dtype=float32), (-5.0, 122.5))
    """

    scale: np.ndarray
    zero: np.ndarray
    low: float
    high: float
    axis: int = 1
    dtype: str = "uint8"

    def _along(self, values: np.ndarray, rank: int) -> np.ndarray:
        values = np.asarray(values, np.float64)
        if values.size == 1:
            return values.reshape(())
        shape = [1] * rank
        shape[self.axis] = -1
        return values.reshape(shape)

    def half(self, rank: int) -> np.ndarray:
        """Half a step, in a shape that broadcasts over a tensor of that rank."""
        return np.abs(self._along(self.scale, rank)) / 2

    def ends(self, rank: int) -> tuple[np.ndarray, np.ndarray]:
        """The smallest and the largest number that can be told, in a shape that broadcasts."""
        zero, scale = self._along(self.zero, rank), self._along(self.scale, rank)
        return (self.low - zero) * scale, (self.high - zero) * scale

    @property
    def range(self) -> tuple[float, float]:
        """The same over all channels."""
        low, high = self.ends(1)
        return float(np.min(low)), float(np.max(high))

    def to_real(self, array: np.ndarray) -> np.ndarray:
        """Whole numbers as what they stand for; other numbers as they are."""
        if not np.issubdtype(array.dtype, np.integer):
            return array
        zero, scale = self._along(self.zero, array.ndim), self._along(self.scale, array.ndim)
        return ((array.astype(np.float64) - zero) * scale).astype(np.float32)

    def to_whole(self, array: np.ndarray) -> np.ndarray:
        """Real numbers as the whole numbers nearest to them."""
        zero, scale = self._along(self.zero, array.ndim), self._along(self.scale, array.ndim)
        return np.clip(np.round(array / scale) + zero, self.low, self.high).astype(self.dtype)

    def same(self, other: Step) -> bool:
        """Whether the two read a number alike."""
        return (
            self.scale.size == other.scale.size
            and np.array_equal(self.scale.reshape(-1), other.scale.reshape(-1))
            and np.array_equal(np.broadcast_to(self.zero, self.scale.shape), _fit(other.zero, self.scale))
        )

    def __str__(self) -> str:
        if self.scale.size > 1:
            return (
                f"{self.scale.size} steps of {float(self.scale.min()):.3g} to {float(self.scale.max()):.3g}"
            )
        return f"steps of {float(self.scale.reshape(-1)[0]):.3g} from {float(self.zero.reshape(-1)[0]):.0f}"


def _fit(values: np.ndarray, like: np.ndarray) -> np.ndarray:
    return np.broadcast_to(values.reshape(-1) if values.size > 1 else values.reshape(()), like.shape)
