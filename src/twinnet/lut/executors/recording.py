"""What fast executors share: checking images, listing levels, and recording every site of one run."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from twinnet.errors import UsageError
from twinnet.lut.plan import INPUT, Plan, Requant, Stage, Term
from twinnet.lut.reference import Record, group_inputs

__all__ = ["Lookup", "RunStage", "affine", "check_planes", "levels", "place", "record_plan", "record_stage"]

Registers = dict[str, np.ndarray]
Lookup = Callable[[Stage, Term, int, Registers], np.ndarray]
"""Numerators of one term in one rotation: [payload, site rows, site columns]."""
RunStage = Callable[[Stage, Registers], np.ndarray]
"""The register a stage writes: uint8 [channels, rows, columns]."""


def check_planes(planes: np.ndarray, dimensions: int) -> None:
    """Raise `UsageError` unless `planes` is a non-empty uint8 array of that many dimensions."""
    if planes.dtype != np.uint8 or planes.ndim != dimensions:
        raise UsageError(f"a plan runs on uint8 planes, not {planes.dtype}{list(planes.shape)}")
    if planes.size == 0:
        raise UsageError(f"the image is empty: {list(planes.shape)}")


def levels(requant: Requant, denominator: int, bound: int) -> np.ndarray:
    """The smallest numerator that gives at least v, for v = 1..255; `bound + 1` where none does.

    Every step of a requantisation is monotone, so these 255 numbers say all there is to say about it.

    >>> levels(Requant("q", (("clip", 0, 255), ("round",))), 16, 4096)[:3].tolist()
    [9, 24, 41]
    """
    wanted = np.arange(1, 256)
    low = np.full(255, -bound - 1, np.int64)  # gives less, by definition
    high = np.full(255, bound + 1, np.int64)  # gives at least that, by definition
    while (high - low > 1).any():
        middle = (low + high) // 2
        enough = requant(middle, denominator) >= wanted
        high = np.where(enough, middle, high)
        low = np.where(enough, low, middle)
    return high


def affine(requant: Requant, denominator: int) -> tuple[int, int]:
    """(divisor, offset) if the steps amount to N / divisor + offset in exact arithmetic, else (0, 0).

    >>> affine(Requant("q", (("div", 12), ("add", 127), ("clip", 0, 255), ("round",))), 16)
    (192, 127)
    """
    slope, offset = Fraction(1, denominator), Fraction(0)
    for step in requant.steps:
        match step:
            case ("div", c):
                slope, offset = slope / Fraction(c), offset / Fraction(c)
            case ("mul", c):
                slope, offset = slope * Fraction(c), offset * Fraction(c)
            case ("add", c):
                offset += Fraction(c)
            case _:
                pass
    divisor = 1 / slope
    whole = divisor.denominator == 1 and offset.denominator == 1
    return (int(divisor), int(offset)) if whole else (0, 0)


def place(numerator: np.ndarray, channels: int, n: int, rotation: int) -> np.ndarray:
    """Pixel shuffle of [payload, rows, columns] with every block turned back by `rotation`."""
    rows, columns = numerator.shape[1:]
    blocks = numerator.reshape(channels, n, n, rows, columns)
    # rot90 by r of the (u, v) axes puts element (u, v) of rotation r where the plan wants it.
    turned = np.rot90(blocks, -rotation, axes=(1, 2)) if n > 1 else blocks
    return turned.transpose(0, 3, 1, 4, 2).reshape(channels, rows * n, columns * n)


def record_plan(
    plan: Plan, plane: np.ndarray, note: Record, lookup: Lookup, run_stage: RunStage
) -> np.ndarray:
    """Run every stage as a plain run does, and look up each term once more to show its numerators."""
    registers: Registers = {INPUT: plane[None]}
    for stage in plan.stages:
        registers[stage.name] = record_stage(plan, stage, registers, note, lookup, run_stage)
    return registers[plan.stages[-1].name]


def record_stage(
    plan: Plan, stage: Stage, registers: Registers, note: Record, lookup: Lookup, run_stage: RunStage
) -> np.ndarray:
    """One stage on what earlier ones left in their registers."""
    for group in stage.groups:
        terms, prefix = group_inputs(stage, group, registers, note)
        part: np.ndarray | int = 0
        for term in terms:
            factor = stage.denominator // term.denominator(plan.tables[term.table])
            for r in term.rotations:
                numerator = lookup(stage, term, r, registers)
                note(f"{stage.name}.{term.name}.rot{r}.sr", numerator)
                placed = place(numerator, stage.channels, stage.upscale, r)
                note(f"{stage.name}.{term.name}.rot{r}", placed)
                part = part + factor * placed
        if group:
            note(prefix, np.asarray(part))
    made = run_stage(stage, registers)
    note(stage.name, made)
    return made
