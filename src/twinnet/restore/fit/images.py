"""The data of a fit: input planes, and the image each stage should give, at any scale on the way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from twinnet.errors import UsageError
from twinnet.restore.bicubic import modcrop, shrink
from twinnet.restore.tasks import Task, pixels

__all__ = ["FitImages", "planes_of"]


@dataclass(frozen=True, eq=False)
class FitImages:
    """Pairs of single planes: uint8 inputs and the good planes, `scale` times larger."""

    inputs: tuple[np.ndarray, ...]
    goods: tuple[np.ndarray, ...]
    scale: int

    def __post_init__(self) -> None:
        if not self.inputs:
            raise UsageError("there are no images to fit on")
        for low, good in zip(self.inputs, self.goods, strict=True):
            if good.shape != tuple(side * self.scale for side in low.shape):
                raise UsageError(
                    f"a plane of {low.shape} does not go with one of {good.shape} at x{self.scale}"
                )

    def targets(self, scale: int) -> list[np.ndarray]:
        """What a stage at `scale` should give: the good plane, shrunk to that size."""
        if scale < 1 or self.scale % scale:
            raise UsageError(f"a stage at x{scale} has no target on the way to x{self.scale}")
        step = self.scale // scale
        return [good if step == 1 else shrink(good, step) for good in self.goods]

    @property
    def sites(self) -> int:
        """Input pixels."""
        return sum(low.size for low in self.inputs)

    @classmethod
    def of_task(
        cls, task: Task, images: Iterable[np.ndarray], *, planes: str = "one", half: bool = False
    ) -> FitImages:
        """Pairs from good images.

        `planes`: `one` colour plane per image, in turn, or `all`. `half` adds every image once more at half its
        size, with the next plane in turn.

        >>> from twinnet.restore.tasks.sr import SuperResolution
        >>> made = FitImages.of_task(SuperResolution(4), [np.zeros((32, 48, 3), np.uint8)], half=True)
        >>> [plane.shape for plane in made.inputs]
        [(8, 12), (4, 6)]
        """
        inputs, goods = [], []
        for number, image in enumerate(images):
            for turn, version in enumerate((image, shrink(image, 2)) if half else (image,)):
                good = modcrop(task.trained(version), task.scale)
                if good.size == 0:
                    continue
                random = np.random.default_rng([number, turn, 5])
                for plane in planes_of(good, number + turn, planes):
                    inputs.append(pixels(task.low(plane, random)))
                    goods.append(plane)
        return cls(tuple(inputs), tuple(goods), task.scale)

    @classmethod
    def of_pairs(
        cls, scale: int, pairs: Iterable[tuple[np.ndarray, np.ndarray]], *, planes: str = "one"
    ) -> FitImages:
        """From bad images that are given rather than made, each with its good one."""
        inputs, goods = [], []
        for number, (low, good) in enumerate(pairs):
            inputs += planes_of(pixels(low), number, planes)
            goods += planes_of(modcrop(good, scale), number, planes)
        return cls(tuple(inputs), tuple(goods), scale)


def planes_of(image: np.ndarray, turn: int, which: str) -> Sequence[np.ndarray]:
    """All planes of an image, or one of them.

    >>> len(planes_of(np.zeros((2, 2, 3)), 4, "all")), len(planes_of(np.zeros((2, 2, 3)), 4, "one"))
    (3, 1)
    """
    if which not in ("one", "all"):
        raise UsageError(f"planes = {which!r} is not valid", hint="use one or all")
    if image.ndim == 2:
        return [np.ascontiguousarray(image)]
    numbers = range(image.shape[2]) if which == "all" else [turn % image.shape[2]]
    return [np.ascontiguousarray(image[..., c]) for c in numbers]
