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
    parts: dict[str | int, _Module | Row] = field(default_factory=dict)
    """Modules by name, and steps by number, in the order of their first execution."""


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
            inner = here.parts.setdefault(name, _Module(name))
            assert isinstance(inner, _Module)
            inner.seconds += row.p50
            here = inner
        here.parts[number] = row
    if between:
        root.parts[words.BETWEEN] = _Module(f"({words.BETWEEN})", between)
        root.seconds += between
    drawing = _Drawing(root.seconds)
    if root.seconds > 0:
        drawing.place(root, 0.0, 0)
    deepest = max((box.y for box in drawing.boxes), default=0.0)
    return Flame(tuple(drawing.boxes), WIDTH, deepest + _LINE)


@dataclass
class _Drawing:
    """The boxes so far, of a whole that takes `total` seconds."""

    total: float
    boxes: list[Box] = field(default_factory=list)

    def place(self, here: _Module, x: float, level: int, above: str = "") -> float:
        """Draw a module with everything in it from `x` on, and return where it ends."""
        path = f"{above}.{here.name}" if level > 1 else here.name
        end = self._add(x, level, here.seconds, here.name, path)
        for key, part in here.parts.items():
            if isinstance(part, _Module):
                x = self.place(part, x, level + 1, path if level else "")
            else:
                x = self._step(part, x, level + 1, key)
        return end

    def _step(self, row: Row, x: float, level: int, number: str | int) -> float:
        name = "+".join(dict.fromkeys(row.network_ops)) or row.op
        why = words.limited(row)
        title = f"{row.label}, step {row.name}" + (f", {why}" if why else "")
        return self._add(x, level, row.p50, name, title, number if isinstance(number, int) else None)

    def _add(
        self, x: float, level: int, seconds: float, name: str, title: str, row: int | None = None
    ) -> float:
        share = seconds / self.total
        width = share * WIDTH
        if width >= _LEAST:
            room = int((width - 6) / _LETTER)
            text = clean(name)
            text = text if len(text) <= room else f"{text[: room - 1]}…" if room >= 3 else ""
            told = f"{clean(title)}: {words.seconds(seconds)}, {percent(share, 1)}"
            tone = min(5, int(share * 12))
            self.boxes.append(Box(round(x, 2), level * _LINE, round(width, 2), text, told, tone, row))
        return x + width
