"""Writing PNG files strip by strip, so that an image larger than memory can be written."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from typing import BinaryIO

import numpy as np

from twinnet.errors import UsageError

__all__ = ["write_png"]

_KINDS = {1: 0, 2: 4, 3: 2, 4: 6}
"""PNG colour types by channel count: gray, gray + alpha, RGB, RGB + alpha."""


def _chunk(file: BinaryIO, kind: bytes, data: bytes) -> None:
    file.write(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)))


def write_png(file: BinaryIO, rows: int, columns: int, channels: int, strips: Iterable[np.ndarray]) -> None:
    """Write uint8 strips [some rows, columns, channels], top to bottom, which together have `rows` rows.

    >>> import io
    >>> buffer = io.BytesIO()
    >>> write_png(buffer, 2, 3, 1, [np.zeros((1, 3, 1), np.uint8), np.ones((1, 3, 1), np.uint8)])
    >>> buffer.getvalue()[1:4]
    b'PNG'
    """
    if channels not in _KINDS or not 0 < rows < 1 << 31 or not 0 < columns < 1 << 31:
        raise UsageError(f"a PNG cannot hold {rows} x {columns} pixels of {channels} channels")
    file.write(b"\x89PNG\r\n\x1a\n")
    _chunk(file, b"IHDR", struct.pack(">IIBBBBB", columns, rows, 8, _KINDS[channels], 0, 0, 0))
    packer = zlib.compressobj(4)
    above = np.zeros(columns * channels, np.uint8)
    written = 0
    for strip in strips:
        flat = np.ascontiguousarray(strip).reshape(len(strip), -1)
        # Filter 2: each row minus the one above, which is most of what a better filter would gain.
        lines = np.empty((len(flat), flat.shape[1] + 1), np.uint8)
        lines[:, 0] = 2
        lines[0, 1:] = flat[0] - above
        lines[1:, 1:] = flat[1:] - flat[:-1]
        above = flat[-1]
        written += len(flat)
        data = packer.compress(lines.tobytes())
        if data:
            _chunk(file, b"IDAT", data)
    if written != rows:
        raise UsageError(f"{written} rows were given for an image of {rows}")
    _chunk(file, b"IDAT", packer.flush())
    _chunk(file, b"IEND", b"")
