"""The process that runs LiteRT, as its session sees it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from twinnet.engines import _litert_program
from twinnet.errors import EngineError, undoing
from twinnet.job import Job
from twinnet.programs.place import Script

__all__ = ["XNNPACK_ONLY", "Child", "Loaded"]

XNNPACK_ONLY = frozenset({"Convolution2DTransposeBias", "MaxPoolingWithArgmax2D", "MaxUnpooling2D"})
"""Custom operators of MediaPipe that XNNPACK has and LiteRT's own kernels have not."""


class Child:
    """A child process that holds interpreters as long as this object lives."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.room = job.place.room("litert")
        self.folder = self.room.folder
        self._numbers = itertools.count()
        script = Script(Path(_litert_program.__file__), "litert", ("numpy", "ai-edge-litert"))
        with undoing(self.room.close):
            self._worker = self.room.worker(script)

    def ask(self, request: Mapping[str, Any], stage: str) -> dict[str, Any]:
        """Ask the child and return its answer."""
        return self._worker.ask(request, stage, self.job.limit_of(stage))

    def load(self, file: Path, settings: Mapping[str, Any]) -> Loaded:
        """Load a file in the child."""
        with self.job.step("load"):
            number = next(self._numbers)
            request = {"do": "load", "session": number, "model": self.room.give(file)}
            try:
                self.ask({**request, "settings": dict(settings)}, "load the network")
            except EngineError as error:
                if "unresolved custom op" not in error.what:
                    raise
                hint = (
                    "the application that runs this file brings the operator; what it records can be a twin"
                )
                if any(name in error.what for name in XNNPACK_ONLY):
                    hint = "XNNPACK has this operator: kernels=xnnpack"
                raise error.hinting(hint) from None
        return Loaded(self, number)

    def close(self) -> None:
        """End the child."""
        self._worker.close()
        self.room.close()


class Loaded:
    """An interpreter that lives in the child."""

    def __init__(self, home: Child, number: int) -> None:
        self._home = home
        self._number = number

    def run(
        self, feeds: Mapping[int, np.ndarray], tensors: Sequence[int]
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Run it; gives those of `tensors` that it computed, one at a time."""
        made = self._home.folder / "results.npz"
        request = {
            "do": "run",
            "session": self._number,
            "feeds": self._given(feeds),
            "results": self._home.room.there(made),
            "tensors": list(tensors),
        }
        with self._home.job.step("run"):
            self._home.ask(request, "run the network")
            self._home.room.pull(made)
        with np.load(made, allow_pickle=False) as data:
            for name in data.files:
                yield int(name), data[name]

    def time(self, feeds: Mapping[int, np.ndarray], repeats: int) -> tuple[list[float], list[float]]:
        """Seconds of each of these runs, by the clock and of the CPU; nothing is returned in between."""
        request = {"do": "time", "session": self._number, "feeds": self._given(feeds), "repeats": repeats}
        with self._home.job.step("run"):
            said = self._home.ask(request, "run the network")
        return said["seconds"], said["cpu"]

    def _given(self, feeds: Mapping[int, np.ndarray]) -> str:
        """A file of inputs, as the child finds it."""
        given = self._home.folder / "feeds.npz"
        np.savez(given, allow_pickle=False, **{str(i): np.asarray(a) for i, a in feeds.items()})
        return self._home.room.give(given)

    def steps(self) -> list[dict[str, Any]]:
        """The operators as the interpreter holds them, delegates included."""
        return self._home.ask({"do": "steps", "session": self._number}, "list the operators")["steps"]

    def drop(self) -> None:
        """Free the interpreter."""
        self._home.ask({"do": "drop", "session": self._number}, "free a network")
