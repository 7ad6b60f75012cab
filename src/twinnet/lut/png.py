"""Writing PNG files strip by strip, so that an image larger than memory can be written."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO

import numpy as np

from twinnet.errors import UsageError

__all__ = ["FAST", "icc_chunk", "write_png"]

_KINDS = {1: 0, 2: 4, 3: 2, 4: 6}
"""PNG colour types by channel count: gray, gray + alpha, RGB, RGB + alpha."""
FAST = 1
"""The compression level of speed: runs only, which is half the time for 5 % more bytes."""
_BLOCK = 1 << 20
"""Bytes that one thread packs at a time."""

Chunk = tuple[bytes, bytes]
"""Kind and content."""


def _chunk(file: BinaryIO, kind: bytes, data: bytes) -> None:
    file.write(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)))


def icc_chunk(profile: bytes) -> Chunk:
    """A colour profile as a chunk."""
    return b"iCCP", b"ICC profile\0\0" + zlib.compress(profile)


def write_png(
    file: BinaryIO,
    rows: int,
    columns: int,
    channels: int,
    strips: Iterable[np.ndarray],
    *,
    level: int = FAST,
    chunks: Sequence[Chunk] = (),
    deep: bool = False,
) -> None:
    """Write strips [some rows, columns, channels], top to bottom, which together have `rows` rows.

    They are uint8, or uint16 with `deep`. `level` is zlib's, from 0 to 9; `chunks` go before the pixels.

    >>> import io
    >>> buffer = io.BytesIO()
    >>> write_png(buffer, 2, 3, 1, [np.zeros((1, 3, 1), np.uint8), np.ones((1, 3, 1), np.uint8)])
    >>> buffer.getvalue()[1:4]
    b'PNG'
    """
    if channels not in _KINDS or not 0 < rows < 1 << 31 or not 0 < columns < 1 << 31:
        raise UsageError(f"a PNG cannot hold {rows} x {columns} pixels of {channels} channels")
    file.write(b"\x89PNG\r\n\x1a\n")
    header = struct.pack(">IIBBBBB", columns, rows, 16 if deep else 8, _KINDS[channels], 0, 0, 0)
    for kind, data in ((b"IHDR", header), *chunks):
        _chunk(file, kind, data)
    above = np.zeros(columns * channels * (2 if deep else 1), np.uint8)
    written = 0
    with ThreadPoolExecutor(min(os.cpu_count() or 1, 8)) as pool:
        packer = _Packer(level, pool)
        for strip in strips:
            samples = strip.astype(">u2").view(np.uint8) if deep else strip
            flat = np.ascontiguousarray(samples).reshape(len(strip), -1)
            # Filter 2: each row minus the one above, which is most of what a better filter would gain.
            lines = np.empty((len(flat), flat.shape[1] + 1), np.uint8)
            lines[:, 0] = 2
            np.subtract(flat[0], above, out=lines[0, 1:])
            np.subtract(flat[1:], flat[:-1], out=lines[1:, 1:])
            above = flat[-1]
            written += len(flat)
            for data in packer.pack(lines.data.cast("B")):
                _chunk(file, b"IDAT", data)
        if written != rows:
            raise UsageError(f"{written} rows were given for an image of {rows}")
        _chunk(file, b"IDAT", packer.end())
    _chunk(file, b"IEND", b"")


class _Packer:
    """One zlib stream, its blocks packed by several threads: each ends on a whole byte, so they can be joined."""

    def __init__(self, level: int, pool: ThreadPoolExecutor) -> None:
        self._level, self._pool = level, pool
        self._strategy = zlib.Z_RLE if level == FAST else zlib.Z_DEFAULT_STRATEGY
        self._sum = zlib.adler32(b"")
        self._started = False

    def _block(self, data: memoryview) -> bytes:
        packer = zlib.compressobj(self._level, zlib.DEFLATED, -15, 9, self._strategy)
        return packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH)

    def pack(self, data: memoryview) -> Iterable[bytes]:
        """The blocks of some more bytes."""
        if not self._started:
            self._started = True
            yield b"\x78\x01"
        self._sum = zlib.adler32(data, self._sum)
        yield from self._pool.map(self._block, (data[k : k + _BLOCK] for k in range(0, len(data), _BLOCK)))

    def end(self) -> bytes:
        """The last, empty block, and the checksum."""
        return b"\x03\x00" + struct.pack(">I", self._sum)
