"""Deblocking tables for each file by the quality it was compressed with."""

from __future__ import annotations

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
    for level in sorted(set(levels.values())):
        of_level = [q for path, q in found.items() if levels[path] == level]
        known = [q for q in of_level if q is not None]
        if len(found) == 1:
            lines.append(f"quality   {known[0] if known else 'unknown'}: tables for {level}")
            continue
        if known:
            span = f"{min(known)}" if min(known) == max(known) else f"{min(known)} to {max(known)}"
            lines.append(f"quality   {len(known)} file(s) of quality {span}: tables for {level}")
        if len(known) < len(of_level):
            lines.append(
                f"quality   {len(of_level) - len(known)} file(s) that are not JPEG: tables for {level}"
            )
    good = sum(q is not None and q > _GOOD for q in found.values())
    if good:
        lines.append(
            f"note      {good} file(s) are better than quality {_GOOD}: tables take detail from them"
        )
    several = len(set(levels.values())) > 1
    name = "deblock" if several else named("deblock", jpeg_quality=next(iter(levels.values())))
    return Choice(lambda path: model(levels[path]), name, tuple(lines))
