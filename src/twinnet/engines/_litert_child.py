"""The process that runs LiteRT, as its session sees it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from twinnet.engines import _litert_program
from twinnet.engines._worker import Worker
from twinnet.job import Job
from twinnet.scratch import new_scratch

__all__ = ["Child", "Loaded"]


class Child:
    """A child process that holds interpreters as long as this object lives."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.folder = new_scratch("litert")
        program = str(Path(_litert_program.__file__))
        # Without -P its folder would come first, where torch.py is not PyTorch.
        self._worker = Worker([sys.executable, "-P", program], "litert")

    def ask(self, request: Mapping[str, Any], stage: str) -> dict[str, Any]:
        """Ask the child and return its answer."""
        return self._worker.ask(request, stage, self.job.time_limit)

    def load(self, file: Path, settings: Mapping[str, Any]) -> Loaded:
        """Load a file in the child."""
        with self.job.step("load"):
            said = self.ask(
                {"do": "load", "model": str(file.absolute()), "settings": dict(settings)}, "load the network"
            )
        return Loaded(self, said["session"])

    def close(self) -> None:
        """End the child."""
        self._worker.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Loaded:
    """An interpreter that lives in the child."""

    def __init__(self, home: Child, number: int) -> None:
        self._home = home
        self._number = number

    def run(
        self, feeds: Mapping[int, np.ndarray], tensors: Sequence[int]
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Run it; gives those of `tensors` that it computed, one at a time."""
        given, made = (self._home.folder / f"{part}.npz" for part in ("feeds", "results"))
        np.savez(given, allow_pickle=False, **{str(i): np.asarray(a) for i, a in feeds.items()})
        request = {
            "do": "run",
            "session": self._number,
            "feeds": str(given),
            "results": str(made),
            "tensors": list(tensors),
        }
        with self._home.job.step("run"):
            self._home.ask(request, "run the network")
        with np.load(made, allow_pickle=False) as data:
            for name in data.files:
                yield int(name), data[name]

    def steps(self) -> list[dict[str, Any]]:
        """The operators as the interpreter holds them, delegates included."""
        return self._home.ask({"do": "steps", "session": self._number}, "list the operators")["steps"]

    def drop(self) -> None:
        """Free the interpreter."""
        self._home.ask({"do": "drop", "session": self._number}, "free a network")
