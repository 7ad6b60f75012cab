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
    """Our own file, the folder it is alone in, or published tables: a `.npy` file, or a folder of them."""
    source = Path(path)
    own = sorted(source.glob("*.lut.safetensors")) if source.is_dir() else []
    if len(own) > 1:
        raise UsageError(
            f"{source} holds {len(own)} files of tables", hint=f"choose one: {', '.join(p.name for p in own)}"
        )
    if own or (source.is_file() and source.name.endswith(".safetensors")):
        return read(own[0] if own else source)
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

        `progress` is called with the share done after every strip.
        """
        planes = self._planes(image)
        rows, columns = (side * self.scale for side in planes.shape[1:])
        pieces = self.strips(image, progress)
        first = next(pieces)
        if len(first) == rows:  # the usual image, in one piece
            for _ in pieces:
                pass
            return first
        out = np.empty((rows, columns) if np.ndim(image) == 2 else (rows, columns, len(planes)), np.uint8)
        out[: len(first)] = first
        done = len(first)
        for strip in pieces:
            out[done : done + len(strip)] = strip
            done += len(strip)
        return out

    def strips(
        self, image: np.ndarray, progress: Callable[[float], None] | None = None
    ) -> Iterator[np.ndarray]:
        """The result from top to bottom in pieces of whole rows, each made from tiles of bounded size."""
        planes = self._planes(image)
        flat = np.ndim(image) == 2
        n, reach = self.scale, self.plan.reach
        rows, columns = planes.shape[1:]
        # A strip holds about as many pixels as a tile, however wide the image is.
        height = rows if max(rows, columns) <= self.tile else max(1, min(self.tile, self.tile**2 // columns))
        for v0 in range(0, rows, height):
            v1 = min(v0 + height, rows)
            strip = np.empty(((v1 - v0) * n, columns * n, len(planes)), np.uint8)
            y0, y1 = max(v0 - reach, 0), min(v1 + reach, rows)
            for (x0, x1), (u0, u1) in tiles(columns, self.tile, reach):
                if (v0, v1, x0, x1) == (0, rows, 0, columns):  # the whole image: written where it belongs
                    self.executor.run(planes, out=np.moveaxis(strip, -1, 0)[:, None])
                    continue
                result = self.executor.run(np.ascontiguousarray(planes[:, y0:y1, x0:x1]))[:, 0]
                cut = result[:, (v0 - y0) * n : (v1 - y0) * n, (u0 - x0) * n : (u1 - x0) * n]
                strip[:, u0 * n : u1 * n] = np.moveaxis(cut, 0, -1)
            if progress is not None:
                progress(v1 / rows)
            yield strip[..., 0] if flat else strip

    def _planes(self, image: np.ndarray) -> np.ndarray:
        array = np.asarray(image)
        if array.dtype != np.uint8:
            raise UsageError(f"images are uint8, not {array.dtype}", hint="scale and round to 0..255 first")
        if array.ndim not in (2, 3):
            raise UsageError(
                f"images are [rows, columns] or [rows, columns, colours], not {list(array.shape)}"
            )
        if array.size == 0:
            raise UsageError(f"the image is empty: {list(array.shape)}")
        if self.plan.channels != 1:
            raise UsageError(
                f"this network writes {self.plan.channels} channels per plane, which is not an image"
            )
        return array[None] if array.ndim == 2 else np.moveaxis(array, -1, 0)

    def record(self, plane: np.ndarray, record: Record) -> np.ndarray:
        """Run one uint8 plane and report every site: see `twinnet.lut.plan.sites`."""
        return self.executor.record(np.ascontiguousarray(plane), record)


Span = tuple[int, int]


def tiles(size: int, side: int, reach: int) -> Iterator[tuple[Span, Span]]:
    """Spans to run along one axis and the part of each to keep; the kept parts cover the axis exactly once.

    >>> list(tiles(10, 6, 1))
    [((0, 7), (0, 6)), ((5, 10), (6, 10))]
    """
    if side < 1:
        raise UsageError(f"a tile side of {side} is not valid")
    for start in range(0, size, side):
        stop = min(start + side, size)
        yield (max(start - reach, 0), min(stop + reach, size)), (start, stop)
