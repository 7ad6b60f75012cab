"""The process that ExecuTorch runs in, seen from this side: started when needed, and again after it died."""

from __future__ import annotations

import atexit
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from twinnet.engines import _executorch_worker
from twinnet.errors import EngineError, MissingExtra
from twinnet.job import Job
from twinnet.programs.worker import Worker
from twinnet.scratch import new_scratch
from twinnet.store import TensorFile, write_tensors

__all__ = ["Dumped", "Home", "executorch_version"]

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
    """A worker, and a folder for what it exchanges with this process."""

    def __init__(self, job: Job, threads: int | None) -> None:
        executorch_version()
        self._job, self._threads = job, threads
        self.folder = new_scratch("executorch")
        self._worker: Worker | None = None
        self._room = _SMALLEST
        self._runs = 0

    def ask(self, request: Mapping[str, Any], stage: str) -> dict[str, Any]:
        """The worker's answer; if it dies, the next request starts another one."""
        if self._worker is None:
            self._worker = _spare(self._threads) or self._started()
        try:
            return self._worker.ask(request, stage, self._job.time_limit)
        except EngineError:
            if not self._worker.alive:
                self._worker = None
            raise

    def _started(self) -> Worker:
        # Not the folder of the file: it has modules that are called like what the worker imports.
        worker = Worker([sys.executable, "-P", _executorch_worker.__file__], "executorch")
        worker.ask({"do": "start", "threads": self._threads}, "start", self._job.time_limit)
        return worker

    def run(
        self,
        pte: Path,
        arguments: Sequence[Any],
        *,
        method: str = "forward",
        dump: bool = False,
        intermediates: bool = True,
        repeats: int = 1,
    ) -> tuple[list[np.ndarray | None], Dumped | None]:
        """The outputs of a program, and its recording with `dump`: all intermediates, or only the outputs.

        A recording needs a buffer that nobody can tell the size of before: if it is too small the worker dies, and
        the next one gets a larger buffer.
        """
        self._runs += 1
        feeds, made = self.folder / "feeds.safetensors", self.folder / "results.safetensors"
        tensors = {
            str(i): np.ascontiguousarray(a) for i, a in enumerate(arguments) if isinstance(a, np.ndarray)
        }
        write_tensors(feeds, tensors)
        target = (
            Dumped(self.folder / f"{self._runs}.etdp", self.folder / f"{self._runs}.bin") if dump else None
        )
        request: dict[str, Any] = {
            "do": "run",
            "pte": str(pte),
            "method": method,
            "repeats": repeats,
            "feeds": str(feeds),
            "results": str(made),
            "arguments": [
                {"tensor": str(i)} if isinstance(a, np.ndarray) else {"value": a}
                for i, a in enumerate(arguments)
            ],
        }
        if target is not None:
            request |= {"dump": str(target.dump), "buffer": str(target.buffer)}
        said = self._recorded(request, intermediates=intermediates)
        file = TensorFile(made)
        outputs = [np.array(file[str(i)]) if str(i) in file else None for i in range(said["outputs"])]
        return outputs, target

    def _recorded(self, request: dict[str, Any], *, intermediates: bool) -> dict[str, Any]:
        limit = max(self._job.memory or 0, _LARGEST)
        while True:
            request["buffer_size"] = self._room if intermediates else 0
            try:
                return self.ask(request, "run the network")
            except EngineError as error:
                if _TOO_SMALL not in error.log or self._room >= limit or "dump" not in request:
                    raise
                self._room *= 8

    def close(self) -> None:
        """Give the worker back, and remove the folder."""
        if self._worker is not None:
            _keep(self._worker, self._threads)
            self._worker = None
        shutil.rmtree(self.folder, ignore_errors=True)


_SPARE: dict[int | None, Worker] = {}
"""A worker that the last session left, by its number of threads: starting one takes seconds."""


def _spare(threads: int | None) -> Worker | None:
    worker = _SPARE.pop(threads, None)
    return worker if worker is not None and worker.alive else None


def _keep(worker: Worker, threads: int | None) -> None:
    if not worker.alive:
        return
    if threads in _SPARE:
        worker.close()
    else:
        _SPARE[threads] = worker


@atexit.register
def _close_spare() -> None:
    while _SPARE:
        _SPARE.popitem()[1].close()
