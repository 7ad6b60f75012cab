"""PNG files of 16 bits per sample. Pillow reads gray ones; of colours it drops the low byte."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np

from twinnet.errors import UsageError

__all__ = ["read_deep_png"]

_CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}


def read_deep_png(path: Path) -> np.ndarray:
    """uint16 [rows, columns, channels] of a file whose header says 16 bits."""
    data = path.read_bytes()
    columns, rows, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", data[16:29])
    if depth != 16 or kind not in _CHANNELS:
        raise UsageError(f"{path} is damaged: a PNG of {depth} bits and type {kind}")
    if interlaced:
        raise UsageError(f"{path} is an interlaced PNG of 16 bits", hint="save it without interlacing first")
    width = 2 * _CHANNELS[kind]
    wanted = rows * (columns * width + 1)
    try:
        raw = zlib.decompressobj().decompress(_packed(path, data), wanted)
    except zlib.error as error:
        raise UsageError(f"{path} is damaged: {error}") from error
    if len(raw) != wanted:
        raise UsageError(f"{path} is truncated")
    lines = np.frombuffer(raw, np.uint8).reshape(rows, -1)
    if lines[:, 0].max() > 4:
        raise UsageError(f"{path} is damaged: no such filter as {lines[:, 0].max()}")
    samples = _unfiltered(lines[:, 0], lines[:, 1:].reshape(rows, columns, width))
    return samples.view(">u2").astype(np.uint16)


def _packed(path: Path, data: bytes) -> bytes:
    """All pixel data, checked."""
    at, parts = 8, []
    while at + 12 <= len(data):
        (size,) = struct.unpack_from(">I", data, at)
        kind, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        if kind == b"IDAT":
            if data[at + 8 + size : at + 12 + size] != struct.pack(">I", zlib.crc32(kind + content)):
                raise UsageError(f"{path} is damaged: a checksum is wrong")
            parts.append(content)
        at += 12 + size
    return b"".join(parts)


def _unfiltered(filters: np.ndarray, lines: np.ndarray) -> np.ndarray:
    """Undo the filters of all rows at once, along diagonals.

    A byte needs those to the left, above, and above to the left, which lie on the two diagonals before.
    """
    rows, columns, width = lines.shape
    out = np.zeros((rows + 1, columns + 1, width), np.uint8)  # a border of zeros, as the format says
    for diagonal in range(rows + columns - 1):
        y = np.arange(max(0, diagonal - columns + 1), min(rows, diagonal + 1))
        x = diagonal - y
        left, up = out[y + 1, x].astype(np.int16), out[y, x + 1].astype(np.int16)
        corner = out[y, x].astype(np.int16)
        guess = left + up - corner
        nearest = [abs(guess - left), abs(guess - up), abs(guess - corner)]
        paeth = np.where(
            (nearest[0] <= nearest[1]) & (nearest[0] <= nearest[2]),
            left,
            np.where(nearest[1] <= nearest[2], up, corner),
        )
        kind = filters[y][:, None]
        added = np.select(
            [kind == 1, kind == 2, kind == 3, kind == 4], [left, up, (left + up) >> 1, paeth], 0
        )
        out[y + 1, x + 1] = lines[y, x] + added.astype(np.uint8)
    return np.ascontiguousarray(out[1:, 1:])
