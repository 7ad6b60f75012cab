"""Removing the artefacts of JPEG compression, on luma."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from twinnet.errors import EngineError
from twinnet.extras import optional_packages
from twinnet.restore.metrics import luma_8bit, psnr, psnr_b, ssim
from twinnet.restore.tasks.base import Image, Metric, Random, Task

if TYPE_CHECKING:
    from twinnet.restore.config import Config

__all__ = ["Deblock"]


@dataclass(frozen=True)
class Deblock(Task):
    """The luma of an image, compressed as a gray JPEG by OpenCV."""

    quality: int = 20
    name: ClassVar[str] = "deblock"
    low_is_given: ClassVar[bool] = False
    plain_name: ClassVar[str] = "JPEG"
    benchmarks: tuple[str, ...] = ("classic5", "LIVE1")

    @classmethod
    def of(cls, config: Config) -> Deblock:
        return cls(config.data.quality)

    def describe(self) -> str:
        return f"deblock JPEG quality {self.quality}"

    def trained(self, image: Image) -> Image:
        return image if image.ndim == 2 else luma_8bit(image)

    def low(self, good: Image, random: Random) -> Image:
        with optional_packages():
            import cv2
        done, data = cv2.imencode(".jpg", good, [cv2.IMWRITE_JPEG_QUALITY, self.quality])
        if not done:
            raise EngineError(f"OpenCV cannot compress an image of {good.shape[0]} x {good.shape[1]}")
        return np.asarray(cv2.imdecode(data, cv2.IMREAD_GRAYSCALE))

    @property
    def metrics(self) -> Mapping[str, Metric]:
        return {"PSNR": psnr, "SSIM": ssim, "PSNR-B": psnr_b}
