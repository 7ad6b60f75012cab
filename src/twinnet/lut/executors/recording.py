"""What fast executors share: checking images, listing levels, and recording every site of one run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction

import numpy as np

from twinnet.errors import UsageError
from twinnet.lut.plan import INPUT, Plan, Requant, Stage, Term
from twinnet.lut.reference import Record, group_inputs, place_block

__all__ = ["Registers", "StagedExecutor", "affine", "check_planes", "levels"]

Registers = dict[str, np.ndarray]


class StagedExecutor(ABC):
    """Records a plan stage by stage: runs each stage as usual and looks up its terms once more for their numerators."""

    plan: Plan

    @abstractmethod
    def lookup(self, stage: Stage, term: Term, rotation: int, registers: Registers) -> np.ndarray:
        """Numerators of one term in one rotation: [payload, site rows, site columns]."""

    @abstractmethod
    def run_stage(self, stage: Stage, registers: Registers) -> np.ndarray:
        """The register a stage writes: uint8 [channels, rows, columns]."""

    def record(self, plane: np.ndarray, record: Record) -> np.ndarray:
        """See `Executor.record`."""
        check_planes(plane, 2)
        registers: Registers = {INPUT: np.ascontiguousarray(plane)[None]}
        for stage in self.plan.stages:
            registers[stage.name] = self.record_stage(stage, registers, record)
        return registers[self.plan.stages[-1].name]

    def record_stage(self, stage: Stage, registers: Registers, record: Record) -> np.ndarray:
        """See `Executor.record_stage`."""
        for group in stage.groups:
            terms, prefix = group_inputs(stage, group, registers, record)
            part: np.ndarray | int = 0
            for term in terms:
                factor = stage.denominator // term.denominator(self.plan.tables[term.table])
                for r in term.rotations:
                    numerator = self.lookup(stage, term, r, registers)
                    record(f"{stage.name}.{term.name}.rot{r}.sr", numerator)
                    placed = place_block(numerator, stage, r)
                    record(f"{stage.name}.{term.name}.rot{r}", placed)
                    part = part + factor * placed
            if group:
                record(prefix, np.asarray(part))
        made = self.run_stage(stage, registers)
        record(stage.name, made)
        return made


def check_planes(planes: np.ndarray, dimensions: int) -> None:
    """Raise `UsageError` unless `planes` is a non-empty uint8 array of that many dimensions."""
    if planes.dtype != np.uint8 or planes.ndim != dimensions:
        raise UsageError(f"a plan runs on uint8 planes, not {planes.dtype}{list(planes.shape)}")
    if planes.size == 0:
        raise UsageError(f"the image is empty: {list(planes.shape)}")


def levels(requant: Requant, denominator: int, bound: int) -> np.ndarray:
    """The smallest numerator that gives at least v, for v = 1..255; `bound + 1` where none does.

    Every step of a requantisation is monotone, so these 255 numbers define it completely.

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
