"""Programs of ExecuTorch on a board: lowered here, run there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twinnet.engines import _executorch_worker
from twinnet.errors import EngineError
from twinnet.job import Job
from twinnet.programs.place import Answering, Script

__all__ = ["NEEDS", "RUNS", "Board"]

NEEDS = ("numpy", "safetensors", "torch", "executorch")
"""Packages that a board needs, the engine's own last."""
RUNS = ("describe", "run", "time")
"""Requests that are answered there; programs are lowered on this machine."""
_READS, _WRITES = ("pte", "feeds"), ("results", "dump", "buffer")


class Board:
    """A worker on a board, and the folder whose files both sides see."""

    def __init__(self, job: Job, threads: int | None) -> None:
        self._job, self._threads = job, threads
        self.version = job.place.versions(NEEDS)[NEEDS[-1]]
        self._room = job.place.room("executorch")
        self.folder: Path = self._room.folder
        self._worker: Answering | None = None

    def ask(self, request: Mapping[str, Any], stage: str) -> dict[str, Any]:
        """The worker's answer, with its files brought here; if it dies, the next request starts another one."""
        told = dict(request)
        for key in _READS:
            if key in told:
                told[key] = self._room.give(Path(told[key]))
        written = [Path(told[key]) for key in _WRITES if told.get(key)]
        for key in _WRITES:
            if told.get(key):
                told[key] = self._room.there(Path(told[key]))
        worker = self._worker or self._started()
        try:
            said = worker.ask(told, stage, self._job.limit_of(stage))
        except EngineError:
            if not worker.alive:
                self._worker = None
            raise
        for path in written:
            self._room.pull(path)
        return said

    def _started(self) -> Answering:
        script = Script(Path(_executorch_worker.__file__), "executorch", NEEDS)
        self._worker = self._room.worker(script)
        asked = {"do": "start", "threads": self._threads}
        self._worker.ask(asked, "start", self._job.limit_of("start"))
        return self._worker

    def close(self) -> None:
        """End the worker, and remove the folders."""
        if self._worker is not None:
            self._worker.close()
        self._room.close()
