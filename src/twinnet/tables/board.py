"""Tables on a board: an executor whose arithmetic happens there, with Python and numpy alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from twinnet.errors import undoing
from twinnet.job import Job
from twinnet.lut.plan import Plan, Stage
from twinnet.lut.reference import Record
from twinnet.lut.serial import plan_to_dict
from twinnet.programs.place import Script

__all__ = ["PROGRAM", "BoardTables"]

_PARTS = (
    "errors.py",
    "lut/_checks.py",
    "lut/band.py",
    "lut/plan.py",
    "lut/reference.py",
    "lut/serial.py",
    "lut/executors/__init__.py",
    "lut/executors/numpy_path.py",
    "lut/executors/recording.py",
)
"""What of twinnet the numpy path consists of; these files import nothing but each other and numpy."""


PROGRAM = Script(Path(__file__).with_name("board_program.py"), "lut", ("numpy",), parts=_PARTS)
"""Runs plans, with the numpy path."""


class BoardTables:
    """A plan on a board, behind the interface of executors."""

    def __init__(self, plan: Plan, executor: str, job: Job) -> None:
        self.plan = plan
        self.name = executor
        self._job = job
        self._room = job.place.room("tables")
        with undoing(self._room.close):
            self._worker = self._room.worker(PROGRAM)
            file = self._room.folder / "plan.npz"
            _write_plan(plan, file)
            request = {"do": "load", "session": 0, "model": self._room.give(file), "executor": executor}
            with job.step("load"):
                self._worker.ask(request, "load the tables", job.limit_of("load"))

    def run(self, planes: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """See `Executor.run`."""
        done = self._ask({"do": "run"}, {"planes": planes})["output"]
        if out is None:
            return done
        out[...] = done
        return out

    def record(self, plane: np.ndarray, record: Record) -> np.ndarray:
        """See `Executor.record`."""
        return self._recorded({"do": "record"}, {"planes": plane}, record)

    def record_stage(self, stage: Stage, registers: dict[str, np.ndarray], record: Record) -> np.ndarray:
        """See `Executor.record_stage`."""
        return self._recorded({"do": "stage", "stage": stage.name}, registers, record)

    def _recorded(
        self, request: Mapping[str, Any], feeds: Mapping[str, np.ndarray], record: Record
    ) -> np.ndarray:
        found = self._ask(request, feeds)
        output = found.pop("output")
        for name, array in found.items():
            record(name, array)
        return output

    def _ask(self, request: Mapping[str, Any], feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        given, made = (self._room.folder / f"{part}.npz" for part in ("feeds", "results"))
        np.savez(given, allow_pickle=False, **{str(i): np.asarray(a) for i, a in enumerate(feeds.values())})
        files = {"feeds": self._room.give(given), "results": self._room.there(made), "names": list(feeds)}
        limit = self._job.limit_of("run")
        said = self._worker.ask({**request, **files, "session": 0}, "run the tables", limit)
        self._room.pull(made)
        with np.load(made, allow_pickle=False) as data:
            return {str(name): data[str(i)] for i, name in enumerate(said["names"])}

    def close(self) -> None:
        """Leave the board."""
        self._worker.close()
        self._room.close()


def _write_plan(plan: Plan, target: Path) -> None:
    arrays: dict[str, np.ndarray] = {}
    for name, table in plan.tables.items():
        arrays[name] = np.asarray(table.values)
        for part, array in (("coarse", table.coarse), ("index", table.index)):
            if array is not None:
                arrays[f"{name}.{part}"] = np.asarray(array)
    told = json.dumps({"plan": plan_to_dict(plan), "arrays": list(arrays)}).encode()
    numbered = {str(i): array for i, array in enumerate(arrays.values())}
    np.savez(target, allow_pickle=False, told=np.frombuffer(told, np.uint8), **numbered)
