"""Removing Gaussian noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from twinnet.restore.metrics import luma_full, psnr, ssim_y
from twinnet.restore.tasks.base import Image, Metric, Random, Task

if TYPE_CHECKING:
    from twinnet.restore.config import Config

__all__ = ["Denoise"]

GRAY = ("Set12", "BSD68")
COLOUR = ("CBSD68", "Kodak24", "McMaster")


@dataclass(frozen=True)
class Denoise(Task):
    """Noise of standard deviation `sigma`, neither clipped nor rounded; networks clip it, tables also round it.

    >>> low, good = Denoise(25).degrade(np.full((64, 64), 128, np.uint8))
    >>> low.dtype, round(float((low - good).std()))
    (dtype('float32'), 25)
    """

    sigma: float = 25.0
    colour: bool = False
    name: ClassVar[str] = "denoise"
    low_is_given: ClassVar[bool] = False
    at_crop: bool = True

    @classmethod
    def of(cls, config: Config) -> Denoise:
        return cls(config.data.sigma, config.data.colour)

    @property
    def benchmarks(self) -> tuple[str, ...]:  # type: ignore[override]
        """Gray or colour test sets."""
        return COLOUR if self.colour else GRAY

    def describe(self) -> str:
        return f"denoise sigma {self.sigma:g}, {'colour' if self.colour else 'gray'}"

    def target(self, image: Image) -> Image:
        if self.colour:
            return image if image.ndim == 3 else np.repeat(image[..., None], 3, axis=2)
        if image.ndim == 2:
            return image
        return luma_full(image)

    def low(self, good: Image, random: Random) -> Image:
        return (good + random.normal(0, self.sigma, good.shape)).astype(np.float32)

    @property
    def metrics(self) -> Mapping[str, Metric]:
        return {"PSNR": psnr, "SSIM": ssim_y}
