"""The flame graph of a profile: modules by level, as wide as the time of what is in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from twinnet.profile.model import Profile, Row
from twinnet.report.figures import clean, percent
from twinnet.report.profiles import words

__all__ = ["Box", "Flame", "flame_of", "flame_of_rows"]

WIDTH, _LINE = 1180.0, 22
_LEAST = 0.6
"""Boxes narrower than this are left out."""
_LETTER = 6.6


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle: place, size, what fits into it, and what pointing at it says. `tone` is 0 to 5."""

    x: float
    y: float
    width: float
    text: str
    title: str
    tone: int
    row: int | None = None


@dataclass(frozen=True, slots=True)
class Flame:
    """All boxes, and the size of the picture."""

    boxes: tuple[Box, ...]
    width: float
    height: float
    line: int = _LINE


@dataclass
class _Module:
    name: str
    seconds: float = 0.0
    children: dict[str, _Module] = field(default_factory=dict)
    rows: list[tuple[int, Row]] = field(default_factory=list)


def flame_of(profile: Profile) -> Flame:
    """The flame graph: the whole at the top, modules below it in the order of execution, steps at the end."""
    return flame_of_rows(profile.network, profile.rows, profile.between)


def flame_of_rows(name: str, rows: Sequence[Row], between: float = 0.0) -> Flame:
    """The same from the name of the whole, its rows, and the seconds between them."""
    root = _Module(name)
    for number, row in enumerate(rows):
        here = root
        here.seconds += row.p50
        path = row.module.split(".") if row.module else [] if row.sites else ["(added by the engine)"]
        for name in path:
            here = here.children.setdefault(name, _Module(name))
            here.seconds += row.p50
        here.rows.append((number, row))
    if between:
        root.children[words.BETWEEN] = _Module(f"({words.BETWEEN})", between)
        root.seconds += between
    boxes: list[Box] = []
    if root.seconds > 0:
        _place(root, 0.0, 0, WIDTH / root.seconds, root.seconds, "", boxes)
    deepest = max((box.y for box in boxes), default=0.0)
    return Flame(tuple(boxes), WIDTH, deepest + _LINE)


def _place(
    here: _Module, x: float, level: int, scale: float, total: float, above: str, boxes: list[Box]
) -> None:
    path = f"{above}.{here.name}" if level > 1 else here.name
    _add(boxes, x, level, here.seconds * scale, here.name, path, here.seconds, total)
    for number, row in here.rows:
        name = "+".join(dict.fromkeys(row.network_ops)) or row.op
        why = words.limited(row)
        title = f"{row.label}, step {row.name}" + (f", {why}" if why else "")
        _add(boxes, x, level + 1, row.p50 * scale, name, title, row.p50, total, number)
        x += row.p50 * scale
    for child in here.children.values():
        _place(child, x, level + 1, scale, total, path if level else "", boxes)
        x += child.seconds * scale


def _add(
    boxes: list[Box],
    x: float,
    level: int,
    width: float,
    name: str,
    title: str,
    seconds: float,
    total: float,
    row: int | None = None,
) -> None:
    if width < _LEAST:
        return
    share = seconds / total
    room = int((width - 6) / _LETTER)
    text = clean(name)
    text = text if len(text) <= room else f"{text[: room - 1]}…" if room >= 3 else ""
    told = f"{clean(title)}: {words.seconds(seconds)}, {percent(share, 1)}"
    tone = min(5, int(share * 12))
    boxes.append(Box(round(x, 2), level * _LINE, round(width, 2), text, told, tone, row))
