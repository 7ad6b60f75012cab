"""Source lines around a place in the user's file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["Excerpt", "excerpt_at"]

_LARGEST_FILE = 2_000_000


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A few numbered lines; `line` is the one meant."""

    file: str
    line: int
    lines: tuple[tuple[int, str], ...]


def excerpt_at(source: str, around: int = 3) -> Excerpt | None:
    """The lines around "path/model.py:71"; None if there is no such readable Python file or line.

    The place may come from an untrusted network file, so only Python source is ever shown.
    """
    name, _, number = source.rpartition(":")
    if not name.endswith(".py") or not number.isascii() or not number.isdecimal() or len(number) > 7:
        return None
    path = Path(name)
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST_FILE:
            return None
        text = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except (OSError, ValueError):
        return None
    line = int(number)
    if not 1 <= line <= len(text):
        return None
    first = max(1, line - around)
    shown = tuple((first + i, row.expandtabs(4)) for i, row in enumerate(text[first - 1 : line + around]))
    return Excerpt(name, line, shown)
