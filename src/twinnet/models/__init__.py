"""Tables that come with the package: `twinnet lut run photo.png --task sr --scale 4 --quality strong -o out.png`.

Every model is a folder here with its tables, a card (data, terms, recipe, scores) and the log of its making;
`make models` makes them again. This module imports nothing heavy.

>>> name_of("sr", scale=4, quality="fast")
'sr-x4-fast'
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from twinnet.errors import UsageError

__all__ = ["QUALITIES", "TASKS", "available", "file_of", "find", "name_of", "named"]

QUALITIES = ("fast", "strong", "best")
SCALES = (2, 3, 4)
NO_BEST = (2,)
"""Scales at which `strong` is the best there is."""
LEVELS = {"denoise": ("sigma", (15, 25, 50)), "deblock": ("JPEG quality", (10, 20, 40))}
TASKS = {"sr": ("scale", "quality"), "denoise": ("sigma",), "deblock": ("jpeg_quality",)}
"""Tasks that tables come for, and what chooses among those of each."""


def available(folder: Path | None = None) -> list[str]:
    """Names of the models in this installation, or in a folder."""
    here = Path(__file__).parent if folder is None else folder
    found = [p.parent.name for p in here.glob("*/*.lut.safetensors")]
    return sorted(found, key=lambda name: [_place(part) for part in name.split("-")])


def _place(part: str) -> tuple[int, str]:
    """Qualities from fast to best, all else by name."""
    return (QUALITIES.index(part), "") if part in QUALITIES else (0, part)


def name_of(task: str, *, scale: int = 4, quality: str = "strong", level: int | None = None) -> str:
    """The name of a model.

    >>> name_of("sr", scale=2), name_of("denoise", level=25)
    ('sr-x2-strong', 'denoise-25')
    """
    if task == "sr":
        if scale not in SCALES:
            raise UsageError(f"no tables enlarge x{scale}", hint=f"use {_words(SCALES)}")
        known = [q for q in QUALITIES if q != "best" or scale not in NO_BEST]
        if quality not in known:
            why = f" at x{scale}: more tables made it no better than strong" if quality in QUALITIES else ""
            raise UsageError(f"no quality {quality!r}{why}", hint=f"use {_words(known)}")
        return f"sr-x{scale}-{quality}"
    if task not in LEVELS:
        raise UsageError(f"no tables come with twinnet for {task!r}", hint=f"use {_words(TASKS)}")
    what, levels = LEVELS[task]
    chosen = levels[1] if level is None else level
    if chosen not in levels:
        nearest = min(levels, key=lambda known: abs(known - chosen))
        raise UsageError(
            f"no {task} tables for {what} {chosen}", hint=f"use {_words(levels)}; {nearest} is nearest"
        )
    return f"{task}-{chosen}"


def _words(items: Iterable[object]) -> str:
    *first, last = map(str, items)
    return f"{', '.join(first)} or {last}"


def named(task: str, **given: object) -> str:
    """The name of the model for a task and what a person stated about it; what belongs to another task is refused.

    >>> named("sr", quality="fast"), named("deblock", jpeg_quality=40)
    ('sr-x4-fast', 'deblock-40')
    """
    for key in given:
        if task in TASKS and key not in TASKS[task]:
            option, owner = f"--{key.replace('_', '-')}", next(t for t, keys in TASKS.items() if key in keys)
            own = ", ".join(f"--{k.replace('_', '-')}" for k in TASKS[task])
            raise UsageError(f"{option} goes with --task {owner}", hint=f"--task {task} takes {own}")
    words = {"level" if key in ("sigma", "jpeg_quality") else key: value for key, value in given.items()}
    return name_of(task, **words)  # type: ignore[arg-type]


def find(task: str, *, scale: int = 4, quality: str = "strong", level: int | None = None) -> Path:
    """The file of the model for a task.

    >>> find("sr", scale=4, quality="fast").name
    'sr-x4-fast.lut.safetensors'
    """
    return file_of(name_of(task, scale=scale, quality=quality, level=level))


def file_of(name: str) -> Path:
    """The file of a model by its name; a `UsageError` that lists the models there are, if it is not one of them."""
    path = Path(__file__).parent / name / f"{name}.lut.safetensors"
    if not path.is_file():
        same = [n for n in available() if n.partition("-")[0] == name.partition("-")[0]]
        raise UsageError(
            f"no tables named {name} come with this twinnet",
            hint=f"there are: {', '.join(same or available()) or 'none'}; or name a file with --table; "
            f"`python -m tools.shipped_tables.make {name}` makes them from images, in a checkout of twinnet",
        )
    return path
