"""Training sites of one stage: source planes with a border, and the block each site should give."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from twinnet.errors import UsageError

__all__ = ["SiteData"]


@dataclass(frozen=True, eq=False)
class SiteData:
    """Images of one stage, laid out for the passes.

    `images` are uint8 [planes x cell x cell, rows + 2 border, columns + 2 border]: the pixels of every
    position within a cell form a plane of their own, so that neighbouring sites are neighbours in memory.
    `targets` are uint8 [rows, columns, outputs].
    """

    images: tuple[np.ndarray, ...]
    targets: tuple[np.ndarray, ...]
    cell: int
    upscale: int
    border: int

    @classmethod
    def prepare(
        cls,
        sources: Iterable[np.ndarray],
        targets: Iterable[np.ndarray],
        *,
        cell: int = 1,
        upscale: int = 1,
        reach: int = 8,
    ) -> SiteData:
        """From source images ([rows, columns] or [planes, rows, columns]) and target images ([rows / cell *
        upscale, ...]), edges repeated for `reach` pixels around.

        >>> low, high = np.zeros((6, 8), np.uint8), np.zeros((12, 16), np.uint8)
        >>> data = SiteData.prepare([low], [high], upscale=2)
        >>> data.sites, data.targets[0].shape
        (48, (6, 8, 4))
        """
        border = -(-reach // cell)
        images, blocks = [], []
        for source, target in zip(sources, targets, strict=True):
            planes = source[None] if source.ndim == 2 else source
            if planes.dtype != np.uint8 or target.dtype != np.uint8 or planes.ndim != 3 or target.ndim != 2:
                raise UsageError("sites are made from uint8 planes")
            rows, columns = (side // cell for side in planes.shape[1:])
            if planes.shape[1:] != (rows * cell, columns * cell) or rows * columns == 0:
                raise UsageError(f"an image of {planes.shape[1:]} has no whole cells of {cell}")
            if target.shape != (rows * upscale, columns * upscale):
                raise UsageError(
                    f"a target of {target.shape} does not fit {rows} x {columns} sites of {upscale} pixels"
                )
            wide = np.pad(planes, ((0, 0), *[(border * cell, border * cell)] * 2), mode="edge")
            phases = wide.reshape(len(planes), rows + 2 * border, cell, columns + 2 * border, cell)
            images.append(
                np.ascontiguousarray(phases.transpose(0, 2, 4, 1, 3)).reshape(
                    -1, rows + 2 * border, columns + 2 * border
                )
            )
            split = target.reshape(rows, upscale, columns, upscale).transpose(0, 2, 1, 3)
            blocks.append(np.ascontiguousarray(split).reshape(rows, columns, -1))
        if not images:
            raise UsageError("there are no images to fit on")
        return cls(tuple(images), tuple(blocks), cell, upscale, border)

    @property
    def sites(self) -> int:
        """Sites in all images."""
        return sum(target.shape[0] * target.shape[1] for target in self.targets)

    def every(self, step: int) -> SiteData:
        """Every `step`-th image."""
        return self.subset(range(0, len(self.images), step))

    def subset(self, numbers: Sequence[int] | range) -> SiteData:
        """Some of the images."""
        return SiteData(
            tuple(self.images[i] for i in numbers),
            tuple(self.targets[i] for i in numbers),
            self.cell,
            self.upscale,
            self.border,
        )
