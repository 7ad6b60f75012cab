"""Ready-made cascades by name, for every scale: `tiny`, `small`, `default`, `best`.

All stages but the last give an image of their own on the way (x2 before x4), or improve one of the same size.
"""

from __future__ import annotations

from twinnet.errors import UsageError
from twinnet.restore.fit.cascade import FitStage, Patterns

__all__ = ["PRESETS", "preset"]

PRESETS: dict[str, str] = {
    "tiny": "two tables of 9 nodes, one stage",
    "small": "a first stage of three tables, one table on its image",
    "default": "three tables, and three on their image",
    "best": "four tables of 17 nodes (compressed), the image improved twice, five tables at the end",
}
"""What each preset is."""

# Around the centre of a 3x3 cell: the P patterns, counted from its top left pixel.
_THREE: list[tuple[tuple[int, int], ...]] = [
    ((1, 1), (1, 2), (2, 1), (2, 2)),
    ((1, 1), (-1, 1), (0, 1), (2, 1)),
    ((1, 1), (-2, 1), (-1, 1), (0, 1)),
    ((1, 1), (-1, 0), (-1, 2), (0, 1)),
]
# Taps of the image before (plane 0) beside the input itself (plane 1).
_MIXED: list[tuple[tuple[int, int, int], ...]] = [
    ((0, 0, 0), (0, 1, 0), (1, 0, 0), (0, 0, 1)),
    ((0, 0, 0), (-2, 0, 0), (-1, 0, 0), (1, 0, 0)),
    ((0, 0, 0), (-3, 0, 0), (-2, 0, 0), (-1, 0, 0)),
    ((0, 0, 0), (-2, -1, 0), (-2, 1, 0), (-1, 0, 0)),
]


def _again(scale: int, count: int, wide: bool) -> Patterns:
    """Patterns of a stage that looks at an image of its own scale, one site per input pixel."""
    if scale == 2:
        return "+".join(("R1", "R2", "R3", "R4", "R5") if wide else ("Q1", "Q2", "Q3")[:count])
    return (_THREE if scale == 3 else _MIXED)[:count]


def preset(name: str, scale: int) -> list[FitStage]:
    """The stages of a preset at a scale (1 for restoration at the same size).

    >>> [(stage.patterns, stage.upscale, stage.cell) for stage in preset("default", 4)]
    [('P1+P2+P3', 2, 1), ('Q1+Q2+Q3', 4, 2)]
    """
    if name not in PRESETS:
        raise UsageError(f"no preset named {name!r}", hint=f"known: {', '.join(PRESETS)}")
    if scale not in (1, 2, 3, 4):
        raise UsageError(f"no preset enlarges x{scale}", hint="1, 2, 3 or 4")
    if name == "tiny":
        return [FitStage("P1+P2", scale)]
    middle = 2 if scale == 4 else scale
    sources = ("stage1", "input") if scale == 1 else ()
    if name in ("small", "default"):
        count = 1 if name == "small" else 3
        last = FitStage(_again(middle, count, False), scale, middle, sources=sources)
        return [FitStage("P1+P2+P3", middle), last]
    patterns = _again(middle, 4, False) if middle != 2 else "R1+R2+R3+R4"
    improve = FitStage(patterns, middle, middle, 4, 2, sources)
    second = FitStage(patterns, middle, middle, 4, 2, ("stage2", "input") if scale == 1 else ())
    third = ("stage3", "input") if scale == 1 else ()
    last = FitStage(_again(middle, 4, True), scale, middle, 4, 2, third)
    return [FitStage("P1+P2+P3+P4", middle, 1, 4, 2), improve, second, last]
