"""Damage: bits flipped, bytes replaced, cut off, repeated, exchanged, numbers made huge, words replaced."""

from __future__ import annotations

import random
import re

__all__ = ["damaged"]

_HUGE = (b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\x00\x00\x00\x80", b"\xff\xff\xff\xff\xff\xff\xff\x7f")
_WORDS = (
    "null",
    "-1",
    "1e999",
    "NaN",
    '""',
    "[]",
    "{}",
    "true",
    '"../../x"',
    "99999999999999999999",
    "[[[[]]]]",
)


def damaged(data: bytes, draw: random.Random) -> bytes:
    """A copy with one to four faults.

    >>> damaged(b"twelve bytes", random.Random(1)) == damaged(b"twelve bytes", random.Random(1))
    True
    """
    ways = [_flip, _replace, _cut, _repeat, _huge, _exchange, _drop]
    if _is_text(data):
        ways += [_word, _word, _word]
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        data = draw.choice(ways)(data, draw)
    return data


def _is_text(data: bytes) -> bool:
    return b"\0" not in data[:4096] and all(b < 128 for b in data[:256])


def _at(data: bytes | bytearray, draw: random.Random) -> int:
    """A place; headers, at both ends, are met more often."""
    end = len(data)
    near = min(end, 512)
    return draw.choice(
        (draw.randrange(end or 1), draw.randrange(near or 1), max(end - 1 - draw.randrange(near or 1), 0))
    )


def _flip(data: bytes, draw: random.Random) -> bytes:
    changed = bytearray(data or b"\0")
    for _ in range(draw.choice((1, 1, 2, 8, 64))):
        changed[_at(changed, draw)] ^= 1 << draw.randrange(8)
    return bytes(changed)


def _replace(data: bytes, draw: random.Random) -> bytes:
    at, size = _at(data, draw), draw.choice((1, 2, 4, 8, 32))
    return data[:at] + draw.randbytes(size) + data[at + size :]


def _cut(data: bytes, draw: random.Random) -> bytes:
    return data[: draw.choice((draw.randrange(len(data) + 1), _at(data, draw)))]


def _repeat(data: bytes, draw: random.Random) -> bytes:
    at, size = _at(data, draw), draw.choice((1, 8, 64, 1024))
    return data[:at] + data[at : at + size] * draw.choice((1, 2, 50)) + data[at:]


def _huge(data: bytes, draw: random.Random) -> bytes:
    at, number = _at(data, draw), draw.choice(_HUGE)
    return data[:at] + number + data[at + len(number) :]


def _exchange(data: bytes, draw: random.Random) -> bytes:
    a, b = sorted((_at(data, draw), _at(data, draw)))
    size = min(draw.choice((1, 4, 16, 256)), b - a)
    return data[:a] + data[b : b + size] + data[a + size : b] + data[a : a + size] + data[b + size :]


def _drop(data: bytes, draw: random.Random) -> bytes:
    at = _at(data, draw)
    return data[:at] + data[at + draw.choice((1, 2, 4, 64)) :]


def _word(data: bytes, draw: random.Random) -> bytes:
    found = list(re.finditer(rb'"[^"\n]*"|-?\d+(?:\.\d+)?|true|false|null', data))
    if not found:
        return _flip(data, draw)
    chosen = draw.choice(found)
    word = draw.choice((draw.choice(_WORDS).encode(), draw.choice(found)[0]))
    return data[: chosen.start()] + word + data[chosen.end() :]
