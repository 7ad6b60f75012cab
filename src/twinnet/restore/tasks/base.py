"""The interface of a task: how good images become bad ones, and how restored ones are scored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np

if TYPE_CHECKING:
    from twinnet.restore.config import Config

__all__ = ["Image", "Metric", "Random", "Task", "pixels"]

Image = np.ndarray
"""[rows, columns] or [rows, columns, 3], 0..255."""

Random = np.random.Generator | np.random.RandomState

Metric = Callable[[Image, Image], float]
"""From the restored image and the good one to a score."""


def pixels(image: Image) -> np.ndarray:
    """An image as table networks take it: rounded and clipped to uint8.

    >>> pixels(np.array([[-3.0, 1.5, 300.0]])).tolist()
    [[0, 2, 255]]
    """
    return image if image.dtype == np.uint8 else np.rint(image).clip(0, 255).astype(np.uint8)


class Task(ABC):
    """A degradation and its scores. Good images are uint8; bad ones are uint8 or float32, always 0..255."""

    name: ClassVar[str]
    benchmarks: tuple[str, ...] = ()
    """Published test sets."""
    scale: int = 1
    at_crop: bool = False
    """Whether the degradation is drawn anew for every training crop, rather than made once per image."""
    margin: int = 0
    """With `at_crop`: good pixels around a crop that its degradation looks at."""

    resizes: ClassVar[bool] = False
    """Whether `scale` is more than 1: the bad image is smaller than the good one."""
    any_tones: ClassVar[bool] = False
    """Whether its degradation is the same for an image of less contrast."""
    low_is_given: ClassVar[bool] = True
    """Whether test sets may bring its bad images; else they are always made."""
    only_cuts: ClassVar[bool] = False
    """Whether `trained` is a view of the image, which costs nothing to make again."""

    @classmethod
    @abstractmethod
    def of(cls, config: Config) -> Task:
        """The task as an experiment states it."""

    @abstractmethod
    def describe(self) -> str:
        """All parameters of the degradation in words; equal words mean equal images."""

    @abstractmethod
    def low(self, good: Image, random: Random) -> Image:
        """The bad image of a good one, `scale` times smaller."""

    def trained(self, image: Image) -> Image:
        """The good image as it is trained on."""
        return image

    def target(self, image: Image) -> Image:
        """The good image as it is evaluated."""
        return self.trained(image)

    def degrade(self, image: Image, random: Random | None = None) -> tuple[Image, Image]:
        """The bad and the good image for evaluation; the noise is the same for every image, as published."""
        good = self.target(image)
        return self.low(good, np.random.RandomState(0) if random is None else random), good

    def plain(self, low: Image) -> np.ndarray:
        """The answer without any network: the bad image itself."""
        return pixels(low)

    plain_name: ClassVar[str] = "input"

    @property
    @abstractmethod
    def metrics(self) -> Mapping[str, Metric]:
        """What is reported, by name; the first one is that of validation."""
