"""The process that ExecuTorch runs in, seen from this side: started when needed, and again after it died."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from twinnet.engines import _executorch_worker
from twinnet.engines._executorch_board import RUNS, Board
from twinnet.errors import EngineError, MissingExtra
from twinnet.job import Job
from twinnet.programs.place import Script
from twinnet.programs.spares import Spares
from twinnet.programs.worker import Worker
from twinnet.scratch import new_scratch
from twinnet.store import TensorFile, write_tensors

__all__ = ["Dumped", "Home", "executorch_version"]

_PROGRAM = Script(Path(_executorch_worker.__file__), "executorch", ("executorch",))
_SPARES = Spares(_PROGRAM)
_SMALLEST = 1 << 20
_LARGEST = 1 << 32
_TOO_SMALL = "Ran out of space to store intermediate outputs"


@cache
def executorch_version() -> str:
    """The version of the installed package."""
    try:
        return metadata.version("executorch").partition("+")[0]
    except metadata.PackageNotFoundError:
        raise MissingExtra("executorch", "executorch") from None


@dataclass(frozen=True, slots=True)
class Dumped:
    """Where a run was recorded, and of what."""

    dump: Path
    buffer: Path
    pte: Path | None = None
    record: Path | None = None


class Home:
    """A worker, and a folder for what it exchanges with this process. On a board a second one runs the programs."""

    def __init__(self, job: Job, threads: int | None) -> None:
        self._board = Board(job, threads) if job.place.name else None
        self.version = self._board.version if self._board is not None else executorch_version()
        self.job, self._threads = job, threads
        self.folder = self._board.folder if self._board is not None else new_scratch("executorch")
        self._worker: Worker | None = None
        self._room = _SMALLEST
        self._runs = 0

    def ask(self, request: Mapping[str, Any], stage: str) -> dict[str, Any]:
        """The worker's answer; if it dies, the next request starts another one."""
        if self._board is not None and request["do"] in RUNS:
            return self._board.ask(request, stage)
        if self._worker is None:
            self._worker = _SPARES.take(self.job.limit_of("start"), threads=self._threads)
        try:
            return self._worker.ask(request, stage, self.job.limit_of(stage))
        except EngineError:
            if not self._worker.alive:
                self._worker = None
            raise

    def run(
        self,
        pte: Path,
        arguments: Sequence[Any],
        *,
        method: str = "forward",
        dump: bool = False,
    ) -> tuple[list[np.ndarray | None], Dumped | None]:
        """The outputs of a program, and with `dump` its recording with all intermediates.

        A recording needs a buffer that nobody can tell the size of before: if it is too small the worker dies, and
        the next one gets a larger buffer.
        """
        made = self.folder / "results.safetensors"
        request, target = self._request(pte, arguments, method, dump=dump)
        request |= {"do": "run", "results": str(made)}
        said = self._recorded(request)
        file = TensorFile(made)
        outputs = [np.array(file[str(i)]) if str(i) in file else None for i in range(said["outputs"])]
        return outputs, target

    def time(
        self, pte: Path, arguments: Sequence[Any], *, method: str, warm_up: int, repeats: int
    ) -> tuple[dict[str, list[float]], Dumped]:
        """Seconds of whole runs, with events recorded ("whole") and without ("bare"), also of the CPU, and the
        recording."""
        request, target = self._request(pte, arguments, method, dump=True)
        assert target is not None
        request |= {"do": "time", "warm_up": warm_up, "repeats": repeats, "buffer_size": 0}
        return self.ask(request, "run the network"), target

    def _request(
        self, pte: Path, arguments: Sequence[Any], method: str, *, dump: bool
    ) -> tuple[dict[str, Any], Dumped | None]:
        """What every run is asked with, and where it is recorded; the arguments are written to a file."""
        self._runs += 1
        feeds = self.folder / "feeds.safetensors"
        tensors = {
            str(i): np.ascontiguousarray(a) for i, a in enumerate(arguments) if isinstance(a, np.ndarray)
        }
        write_tensors(feeds, tensors)
        request: dict[str, Any] = {
            "pte": str(pte),
            "method": method,
            "feeds": str(feeds),
            "arguments": [
                {"tensor": str(i)} if isinstance(a, np.ndarray) else {"value": a}
                for i, a in enumerate(arguments)
            ],
        }
        if not dump:
            return request, None
        target = Dumped(self.folder / f"{self._runs}.etdp", self.folder / f"{self._runs}.bin")
        return request | {"dump": str(target.dump), "buffer": str(target.buffer)}, target

    def _recorded(self, request: dict[str, Any]) -> dict[str, Any]:
        limit = max(self.job.memory or 0, _LARGEST)
        while True:
            request["buffer_size"] = self._room
            try:
                return self.ask(request, "run the network")
            except EngineError as error:
                if _TOO_SMALL not in error.log or self._room >= limit or "dump" not in request:
                    raise
                self._room *= 8

    def close(self) -> None:
        """Give the worker back, and remove the folder."""
        if self._worker is not None:
            _SPARES.keep(self._worker, threads=self._threads)
            self._worker = None
        if self._board is not None:
            self._board.close()
        shutil.rmtree(self.folder, ignore_errors=True)
