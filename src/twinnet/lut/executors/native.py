"""Plans on the native engine: int8 tables, integer sums, threads over strips of rows."""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from twinnet.errors import EngineError, UsageError
from twinnet.lut.executors.recording import StagedExecutor, affine, check_planes, levels
from twinnet.lut.native import library, not_built
from twinnet.lut.plan import INPUT, Plan, Plane, Stage, Table, Term

__all__ = ["NativeExecutor"]

_POINTERS = {
    np.dtype(np.int8): ctypes.POINTER(ctypes.c_int8),
    np.dtype(np.uint8): ctypes.POINTER(ctypes.c_uint8),
    np.dtype(np.int32): ctypes.POINTER(ctypes.c_int32),
    np.dtype(np.int64): ctypes.POINTER(ctypes.c_int64),
}


def _pointer(array: np.ndarray | None) -> Any:
    return None if array is None else array.ctypes.data_as(_POINTERS[array.dtype])


def _ints(values: Any, kind: type = np.int32) -> np.ndarray:
    return np.ascontiguousarray(np.array(values, kind))


class NativeExecutor(StagedExecutor):
    """Runs one plan natively, with the same integers as every other executor.

    `threads` is how many threads a run may use (None: every processor this process may run on). `kernels`
    names an instruction set (see `twinnet.lut.native.instruction_sets`); None takes the best.
    """

    name = "native"

    def __init__(self, plan: Plan, threads: int | None = None, kernels: str | None = None) -> None:
        if threads is not None and threads < 1:
            raise UsageError(f"{threads} threads: at least one is needed")
        self.plan = plan
        self.threads = threads if threads is not None else _processors()
        self._engine = library()
        self._handle = self._engine.twl_new()
        if not self._handle:
            raise EngineError("not enough memory for a plan", stage="load")
        self._close = weakref.finalize(self, self._engine.twl_free, self._handle)
        self._registers = {INPUT: 0, **{stage.name: k + 1 for k, stage in enumerate(plan.stages)}}
        numbers = {name: self._add_table(name, table) for name, table in plan.tables.items()}
        for stage in plan.stages:
            self._add_stage(stage, numbers)
        self._check(self._engine.twl_finish(self._handle, kernels.encode() if kernels else None), "load")

    @property
    def kernels(self) -> str:
        """The instruction set in use."""
        return self._engine.twl_instruction_set(self._handle).decode()

    def describe(self) -> dict[str, str]:
        """How each stage runs: lane width, passes, rounding."""
        return {
            stage.name: self._engine.twl_describe(self._handle, k).decode()
            for k, stage in enumerate(self.plan.stages)
        }

    def run_timed(self, planes: np.ndarray) -> tuple[np.ndarray, dict[str, tuple[float, float]]]:
        """Like `run`, and when each stage began and ended, in seconds since the run began."""
        if not hasattr(self._engine, "twl_run_timed"):
            raise not_built("stage timers of the native table engine were")
        spent = np.zeros(2 * len(self.plan.stages), np.int64)
        out = self._run(planes, None, spent)
        begun, ended = (spent[0::2] * 1e-9).tolist(), (spent[1::2] * 1e-9).tolist()
        return out, {stage.name: (begun[k], ended[k]) for k, stage in enumerate(self.plan.stages)}

    def run(self, planes: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """uint8 [planes, rows, columns] to uint8 [planes, channels, rows * scale, columns * scale].

        Both may have any strides, so an interleaved image is read and written in place:
        `run(np.moveaxis(rgb, -1, 0), out=np.moveaxis(big, -1, 0)[:, None])`.
        """
        return self._run(planes, out, None)

    def _run(self, planes: np.ndarray, out: np.ndarray | None, spent: np.ndarray | None) -> np.ndarray:
        check_planes(planes, 3)
        count, rows, columns = planes.shape
        scale, channels = self.plan.scale, self.plan.channels
        shape = (count, channels, rows * scale, columns * scale)
        if out is None:
            out = np.empty(shape, np.uint8)
        if out.shape != shape or out.dtype != np.uint8 or not out.flags.writeable:
            raise UsageError(
                f"the output must be a writeable uint8{list(shape)}, not {out.dtype}{list(out.shape)}"
            )
        target = out
        if np.may_share_memory(planes, out) or (
            count > 1 and channels > 1 and out.strides[0] != channels * out.strides[1]
        ):
            target = np.empty(shape, np.uint8)
        plane_stride = target.strides[0] if channels == 1 else target.strides[1]
        timed = () if spent is None else (_pointer(spent),)
        run = self._engine.twl_run if spent is None else self._engine.twl_run_timed
        status = run(
            self._handle, _pointer(planes), _pointer(_ints(planes.strides, np.int64)), count, rows, columns,
            _pointer(target), _pointer(_ints((plane_stride, *target.strides[2:]), np.int64)), self.threads,
            *timed,
        )  # fmt: skip
        self._check(status, "run")
        if target is not out:
            out[...] = target
        return out

    def lookup(self, stage: Stage, term: Term, rotation: int, registers: dict[str, np.ndarray]) -> np.ndarray:
        number = self._registers[stage.name] - 1
        rows, columns = registers[INPUT].shape[1:]
        source = self.plan.scales[term.sample.planes[0].register] // stage.cell
        payload = self.plan.tables[term.table].payload
        out = np.empty((payload, rows * source, columns * source), np.int64)
        status = self._engine.twl_lookup(
            self._handle, number, stage.terms.index(term), rotation, self._pointers(registers), rows, columns,
            _pointer(out),
        )  # fmt: skip
        self._check(status, "run")
        return out

    def run_stage(self, stage: Stage, registers: dict[str, np.ndarray]) -> np.ndarray:
        rows, columns = registers[INPUT].shape[1:]
        scale = self.plan.scales[stage.name]
        out = np.empty((stage.channels, rows * scale, columns * scale), np.uint8)
        status = self._engine.twl_run_stage(
            self._handle, self._registers[stage.name] - 1, self._pointers(registers), rows, columns,
            _pointer(out), self.threads,
        )  # fmt: skip
        self._check(status, "run")
        return out

    def _pointers(self, registers: dict[str, np.ndarray]) -> Any:
        pointers = (ctypes.POINTER(ctypes.c_uint8) * len(self._registers))()
        for name, array in registers.items():
            pointers[self._registers[name]] = _pointer(array)
        return pointers

    def _add_table(self, name: str, table: Table) -> int:
        table.check(name)
        values = np.ascontiguousarray(table.values)
        index = None if table.index is None else _ints(table.index, np.int64)
        coarse = None if table.coarse is None else np.ascontiguousarray(table.coarse)
        status = self._engine.twl_table(
            self._handle, _pointer(values), values.shape[0], table.payload, table.axes, table.nodes,
            table.step, table.near, table.width, table.thin, _pointer(index),
            0 if index is None else index.size,
            _pointer(coarse), 0 if coarse is None else coarse.shape[0],
        )  # fmt: skip
        return self._check(status, "load")

    def _add_stage(self, stage: Stage, tables: dict[str, int]) -> None:
        divisor, offset = affine(stage.requant, stage.denominator)
        if not 0 < divisor < 1 << 31 or abs(offset) > 1 << 20:
            divisor = offset = 0
        status = self._engine.twl_stage(
            self._handle, stage.channels, stage.upscale, stage.cell, stage.denominator,
            _pointer(levels(stage.requant, stage.denominator, stage.bound)), divisor, offset,
        )  # fmt: skip
        self._check(status, "load")
        for term in stage.terms:
            self._add_term(term, tables)

    def _planes(self, planes: Sequence[Plane], count: int) -> np.ndarray:
        full = list(planes) * count if len(planes) == 1 else planes
        return _ints([(self._registers[plane.register], plane.channel) for plane in full])

    def _add_term(self, term: Term, tables: dict[str, int]) -> None:
        sample, blend = term.sample, term.blend
        count = len(sample.offsets)
        planes, offsets = self._planes(sample.planes, count), _ints(sample.offsets)
        weights = None if sample.weights is None else _ints(sample.weights)
        others = None if blend is None else self._planes(blend.planes, count)
        gains = None if blend is None else _ints(blend.gains)
        rotations = _ints(term.rotations)
        status = self._engine.twl_term(
            self._handle, tables[term.table], int(sample.padding == "reflect"), count, _pointer(planes),
            _pointer(offsets), sample.axes, _pointer(weights), sample.weight_bits, sample.value_bits,
            _pointer(others), _pointer(gains), 0 if blend is None else blend.gain_bits,
            int(term.interpolation == "multilinear"), int(bool(term.compat)), len(rotations),
            _pointer(rotations),
        )  # fmt: skip
        self._check(status, "load")

    def _check(self, status: int, stage: str) -> int:
        if status < 0:
            reason = self._engine.twl_error().decode(errors="replace")
            raise EngineError(f"the native table engine cannot {stage} this network: {reason}", stage=stage)
        return status


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
