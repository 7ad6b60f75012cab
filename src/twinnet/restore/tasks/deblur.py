"""Removing motion blur: of paired folders, or synthesised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from twinnet.restore.metrics import psnr, ssim_y
from twinnet.restore.tasks.base import Image, Metric, Random, Task

if TYPE_CHECKING:
    from twinnet.restore.config import Config

__all__ = ["Deblur", "blur", "motion"]


def motion(longest: int, random: Random) -> np.ndarray:
    """The path of a shaking camera as weights that add up to one: [side, side], side odd, at most `longest`.

    A walk with inertia, drawn with sub-pixel steps and centred.

    >>> kernel = motion(9, np.random.default_rng(0))
    >>> kernel.shape, float(kernel.sum().round(6))
    ((9, 9), 1.0)
    """
    side = longest - 1 + longest % 2
    if side < 3:
        return np.ones((1, 1))
    length = random.uniform(0.3, 1.0) * (side - 1)
    angle, turn = random.uniform(0, 2 * np.pi), random.normal(0, 0.6)
    steps = 8 * side
    bend = angle + np.cumsum(random.normal(turn, 1.0, steps)) / steps
    path = np.stack([np.sin(bend), np.cos(bend)]).cumsum(axis=1) * (length / steps)
    path -= (path.max(axis=1, keepdims=True) + path.min(axis=1, keepdims=True)) / 2
    path = path.clip(-(side - 1) / 2, (side - 1) / 2) + (side - 1) / 2
    kernel = np.zeros((side, side))
    corner = np.minimum(path.astype(np.int64), side - 2)
    part = path - corner
    for dy in (0, 1):
        for dx in (0, 1):
            weight = np.abs(1 - dy - part[0]) * np.abs(1 - dx - part[1])
            np.add.at(kernel, (corner[0] + dy, corner[1] + dx), weight)
    return kernel / kernel.sum()


def blur(image: Image, kernel: np.ndarray) -> np.ndarray:
    """An image averaged along a path; its edge is repeated outwards.

    >>> blur(np.full((4, 5), 9, np.uint8), np.full((3, 3), 1 / 9)).tolist()[0]
    [9, 9, 9, 9, 9]
    """
    reach = len(kernel) // 2
    rows, columns = image.shape[:2]
    padded = np.pad(image, [(reach, reach)] * 2 + [(0, 0)] * (image.ndim - 2), mode="edge").astype(np.float64)
    out = np.zeros(image.shape)
    for y, x in zip(*np.nonzero(kernel)):
        out += kernel[y, x] * padded[y : y + rows, x : x + columns]
    return np.rint(out).clip(0, 255).astype(np.uint8)


@dataclass(frozen=True)
class Deblur(Task):
    """Motion of at most `longest` pixels, where no blurred images are given."""

    longest: int = 9
    name: ClassVar[str] = "deblur"
    at_crop: bool = True
    benchmarks: tuple[str, ...] = ("GoPro",)

    @classmethod
    def of(cls, config: Config) -> Deblur:
        return cls(config.data.blur)

    @property
    def margin(self) -> int:  # type: ignore[override]
        """How far the motion reaches."""
        return self.longest // 2

    def describe(self) -> str:
        return f"deblur motion up to {self.longest}"

    def target(self, image: Image) -> Image:
        return image if image.ndim == 3 else np.repeat(image[..., None], 3, axis=2)

    def low(self, good: Image, random: Random) -> Image:
        return blur(good, motion(self.longest, random))

    @property
    def metrics(self) -> Mapping[str, Metric]:
        return {"PSNR": psnr, "SSIM": ssim_y}
