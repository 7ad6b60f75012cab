"""Super-resolution of images shrunk as MATLAB does it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from twinnet.restore.bicubic import Recipe, enlarge, modcrop, shrink
from twinnet.restore.metrics import psnr_y, ssim_y
from twinnet.restore.tasks.base import Image, Metric, Random, Task, pixels

if TYPE_CHECKING:
    from twinnet.restore.config import Config

__all__ = ["SuperResolution"]


@dataclass(frozen=True)
class SuperResolution(Task):
    """x2, x3 or x4. Colour images are judged on their luma in 16..235, gray ones as they are.

    >>> low, good = SuperResolution(3).degrade(np.zeros((10, 11), np.uint8))
    >>> low.shape, good.shape
    ((3, 3), (9, 9))
    """

    scale: int = 4
    recipe: Recipe = "matlab"
    name: ClassVar[str] = "sr"
    plain_name: ClassVar[str] = "bicubic"
    resizes: ClassVar[bool] = True
    any_tones: ClassVar[bool] = True
    only_cuts: ClassVar[bool] = True
    benchmarks: tuple[str, ...] = ("Set5", "Set14", "B100", "Kodak24", "Urban100", "Manga109")

    @classmethod
    def of(cls, config: Config) -> SuperResolution:
        return cls(config.model.scale, config.data.bicubic)

    def describe(self) -> str:
        return f"sr x{self.scale}, bicubic {self.recipe}"

    def trained(self, image: Image) -> Image:
        return modcrop(image, self.scale)

    def low(self, good: Image, random: Random) -> Image:
        return shrink(good, self.scale, self.recipe)

    def plain(self, low: Image) -> np.ndarray:
        return enlarge(pixels(low), self.scale)

    @property
    def metrics(self) -> Mapping[str, Metric]:
        return {"PSNR": lambda a, b: psnr_y(a, b, self.scale), "SSIM": ssim_y}
