"""`load(path)(array)`: run a table network on images of any size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from twinnet.errors import UsageError
from twinnet.lut.executors import Executor, make
from twinnet.lut.file import LutFile, read
from twinnet.lut.plan import Plan
from twinnet.lut.reference import Record

__all__ = ["LutModel", "load", "open_tables", "tiles"]


def open_tables(path: str | Path) -> LutFile:
    """Our own file, or published tables: a `.npy` file, or a folder of them."""
    source = Path(path)
    if source.is_file() and source.name.endswith(".safetensors"):
        return read(source)
    from twinnet.lut.published import read_published

    return read_published(source)


def load(path: str | Path, *, executor: str = "auto", threads: int | None = None) -> LutModel:
    """The model in a file (`.lut.safetensors`, or a published table file or folder).

    `executor` is `auto`, `native`, `numpy` or `reference`; all give the same pixels.
    """
    return LutModel(open_tables(path), executor=executor, threads=threads)


class LutModel:
    """A table network ready to run on uint8 arrays."""

    def __init__(
        self, content: LutFile | Plan, *, executor: str = "auto", threads: int | None = None, tile: int = 2048
    ) -> None:
        self.file = content if isinstance(content, LutFile) else LutFile(content)
        self.plan = self.file.plan
        self.executor: Executor = make(self.plan, executor, threads)
        self.tile = tile
        """Images larger than this along an axis run in tiles of this side, which bounds the memory."""

    @property
    def scale(self) -> int:
        """Output pixels per input pixel along each axis."""
        return self.plan.scale

    def __call__(self, image: np.ndarray, progress: Callable[[float], None] | None = None) -> np.ndarray:
        """uint8 [rows, columns] or [rows, columns, colours] to the same, `scale` times larger.

        `progress` is called with the share done after every tile.
        """
        array = np.asarray(image)
        if array.dtype != np.uint8:
            raise UsageError(f"images are uint8, not {array.dtype}", hint="scale and round to 0..255 first")
        if array.ndim not in (2, 3):
            raise UsageError(f"images are [rows, columns] or [rows, columns, colours], not {list(array.shape)}")
        if array.size == 0:
            raise UsageError(f"the image is empty: {list(array.shape)}")
        if self.plan.channels != 1:
            raise UsageError(f"this network writes {self.plan.channels} channels per plane, which is no image")
        planes = array[None] if array.ndim == 2 else np.moveaxis(array, -1, 0)
        n = self.scale
        rows, columns = planes.shape[1:]
        layout = (rows * n, columns * n) if array.ndim == 2 else (rows * n, columns * n, planes.shape[0])
        out = np.empty(layout, np.uint8)
        view = out[None] if array.ndim == 2 else np.moveaxis(out, -1, 0)
        parts = list(tiles(rows, columns, self.tile, self.plan.reach))
        for k, (outer, inner) in enumerate(parts):
            (y0, y1, x0, x1), (v0, v1, u0, u1) = outer, inner
            result = self.executor.run(np.ascontiguousarray(planes[:, y0:y1, x0:x1]))[:, 0]
            cut = result[:, (v0 - y0) * n : (v1 - y0) * n, (u0 - x0) * n : (u1 - x0) * n]
            view[:, v0 * n : v1 * n, u0 * n : u1 * n] = cut
            if progress is not None:
                progress((k + 1) / len(parts))
        return out

    def record(self, plane: np.ndarray, record: Record) -> np.ndarray:
        """Run one uint8 plane and report every site: see `twinnet.lut.plan.sites`."""
        return self.executor.record(np.ascontiguousarray(plane), record)


Box = tuple[int, int, int, int]


def tiles(rows: int, columns: int, side: int, reach: int) -> Iterator[tuple[Box, Box]]:
    """Boxes (y0, y1, x0, x1) to run and the part of each to keep, which together cover the image exactly once.

    >>> list(tiles(4, 10, 6, 1))
    [((0, 4, 0, 7), (0, 4, 0, 6)), ((0, 4, 5, 10), (0, 4, 6, 10))]
    """
    if side < 1:
        raise UsageError(f"a tile side of {side} is not possible")
    for v0 in range(0, rows, side):
        v1 = min(v0 + side, rows)
        for u0 in range(0, columns, side):
            u1 = min(u0 + side, columns)
            outer = max(v0 - reach, 0), min(v1 + reach, rows), max(u0 - reach, 0), min(u1 + reach, columns)
            yield outer, (v0, v1, u0, u1)


