"""What runs a plan: the native engine, the numpy path that needs no compiler, and the slow reference.

All of them are `Executor`s and give the same integers. `make` picks one.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from twinnet.errors import EngineError, UsageError
from twinnet.lut.plan import Plan, Stage
from twinnet.lut.reference import Record, run_reference, run_stage

__all__ = ["EXECUTORS", "NUMPY_SLOWER", "Executor", "ReferenceExecutor", "make"]

EXECUTORS = ("native", "numpy", "reference")
"""By name, fastest first."""

NUMPY_SLOWER = 60
"""How many times longer the numpy path takes than the native engine: 40 to 85 with the shipped tables (CPU time)."""


class Executor(Protocol):
    """Runs one plan. `run` for results; `record` runs one plane and reports every site on the way."""

    plan: Plan
    name: str

    def run(self, planes: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """uint8 [planes, rows, columns] to uint8 [planes, channels, rows * scale, columns * scale].

        Both may have any strides, so an interleaved image needs no copy: pass views of it.
        """
        ...

    def record(self, plane: np.ndarray, record: Record) -> np.ndarray:
        """Like `run` for one [rows, columns], calling `record(name, integers)` in the order of
        `plan.sites`."""
        ...

    def record_stage(self, stage: Stage, registers: dict[str, np.ndarray], record: Record) -> np.ndarray:
        """One stage alone on given registers (uint8 [channels, rows, columns], the image among them)."""
        ...


class ReferenceExecutor:
    """The interpreter of `twinnet.lut.reference` behind the common interface."""

    name = "reference"

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def run(self, planes: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """See `Executor.run`."""
        done = np.stack([run_reference(self.plan, plane) for plane in planes])
        if out is None:
            return done
        out[...] = done
        return out

    def record(self, plane: np.ndarray, record: Record) -> np.ndarray:
        """See `Executor.record`."""
        return run_reference(self.plan, plane, record)

    def record_stage(self, stage: Stage, registers: dict[str, np.ndarray], record: Record) -> np.ndarray:
        """See `Executor.record_stage`."""
        return run_stage(self.plan, stage, registers, record)


def make(plan: Plan, name: str = "auto", threads: int | None = None) -> Executor:
    """An executor by name; `auto` is the native engine where it was built, else the numpy path.

    >>> from twinnet.restore.nets import srlut
    >>> from twinnet.lut import export, lower
    >>> plan = lower(export(srlut.build("V", scale=2, width=4)))
    >>> make(plan, "reference").run(np.zeros((1, 4, 4), np.uint8)).shape
    (1, 1, 8, 8)
    """
    if name == "reference":
        return ReferenceExecutor(plan)
    if name in ("native", "auto"):
        try:
            from twinnet.lut.executors.native import NativeExecutor

            return NativeExecutor(plan, threads=threads)
        except (ImportError, EngineError):
            if name == "native":
                raise
    if name in ("numpy", "auto"):
        from twinnet.lut.executors.numpy_path import NumpyExecutor

        return NumpyExecutor(plan)
    raise UsageError(f"no executor named {name!r}", hint=f"known: auto {' '.join(EXECUTORS)}")
