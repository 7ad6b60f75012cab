"""Tables that come with the package: `twinnet lut run photo.png --task sr --scale 4 --quality strong -o out.png`.

Every model is a folder here with its tables, a card (data, terms, recipe, scores) and the log of its making;
`python -m twinnet.models.build` makes them again. This module imports nothing heavy.

>>> name_of("sr", scale=4, quality="fast")
'sr-x4-fast'
"""

from __future__ import annotations

from pathlib import Path

from twinnet.errors import UsageError

__all__ = ["QUALITIES", "available", "find", "name_of"]

QUALITIES = ("fast", "strong", "best")
LEVELS = {"denoise": ("sigma", (15, 25, 50)), "deblock": ("quality", (10, 20, 40))}


def available() -> list[str]:
    """Names of the models in this installation."""
    here = Path(__file__).parent
    return sorted(p.parent.name for p in here.glob("*/*.lut.safetensors"))


def name_of(task: str, *, scale: int = 4, quality: str = "strong", level: int | None = None) -> str:
    """The name of a model.

    >>> name_of("sr", scale=2), name_of("denoise", level=25)
    ('sr-x2-strong', 'denoise-25')
    """
    if task == "sr":
        if quality not in QUALITIES:
            raise UsageError(f"no quality {quality!r}", hint=f"use {', '.join(QUALITIES)}")
        return f"sr-x{scale}-{quality}"
    if task not in LEVELS:
        raise UsageError(f"no tables come with twinnet for {task!r}", hint="sr, denoise or deblock")
    what, levels = LEVELS[task]
    chosen = levels[1] if level is None else level
    if chosen not in levels:
        raise UsageError(f"no {task} tables for {what} {chosen}", hint=f"use {', '.join(map(str, levels))}")
    return f"{task}-{chosen}"


def find(task: str, *, scale: int = 4, quality: str = "strong", level: int | None = None) -> Path:
    """The file of a model; a `UsageError` that lists what there is, if there is none."""
    name = name_of(task, scale=scale, quality=quality, level=level)
    path = Path(__file__).parent / name / f"{name}.lut.safetensors"
    if not path.is_file():
        raise UsageError(
            f"no tables named {name} come with this twinnet",
            hint=f"there are: {', '.join(available()) or 'none'}; or name a file with --table",
        )
    return path
