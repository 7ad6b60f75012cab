"""Deblocking tables for each file by the quality it was compressed with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from twinnet.lut.batch import files_in
from twinnet.models import LEVELS, file_of, named
from twinnet.models.jpeg import nearest_level, quality_of

if TYPE_CHECKING:
    from twinnet.lut.model import LutModel

__all__ = ["Choice", "by_quality"]

_GOOD = 80
"""Above this quality there is little to repair, and tables take detail away."""


@dataclass(frozen=True)
class Choice:
    """Which tables run on which file."""

    model: Callable[[Path], LutModel]
    name: str
    """For results: of the tables, or of the task if there are several."""
    lines: tuple[str, ...]
    """What was found, for people."""


def by_quality(source: Path, load: Callable[[Path], LutModel]) -> Choice:
    """The tables nearest to each JPEG of `source`; files of other kinds get those in the middle."""
    found = {path: quality_of(path) for path in files_in(source)}
    middle = LEVELS["deblock"][1][1]
    levels = {path: middle if q is None else nearest_level(q) for path, q in found.items()}
    model = cache(lambda level: load(file_of(named("deblock", jpeg_quality=level))))
    lines = []
    for level, count in sorted(Counter(levels.values()).items()):
        qualities = sorted({q for path, q in found.items() if q is not None and levels[path] == level})
        if len(found) == 1:
            known = str(qualities[0]) if qualities else "unknown"
            lines.append(f"quality   {known}: tables for {level}")
        else:
            known = f"of quality {qualities[0]} to {qualities[-1]}" if qualities else "of unknown quality"
            lines.append(f"quality   {count} file(s) {known}: tables for {level}")
    good = sum(q is not None and q > _GOOD for q in found.values())
    if good:
        lines.append(
            f"note      {good} file(s) are better than quality {_GOOD}: tables take detail from them"
        )
    several = len(set(levels.values())) > 1
    name = "deblock" if several else named("deblock", jpeg_quality=next(iter(levels.values())))
    return Choice(lambda path: model(levels[path]), name, tuple(lines))
