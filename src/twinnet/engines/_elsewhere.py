"""Run the runtime of another Python interpreter, on this machine or on a board."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from twinnet.errors import EngineError, UsageError, undoing
from twinnet.job import Job
from twinnet.programs.place import Script

__all__ = ["Elsewhere", "find_python"]


def find_python(place: str) -> Path:
    """The interpreter that a path names: itself, or that of a virtual environment.

    >>> import sys
    >>> find_python(sys.executable).name.startswith("python")
    True
    """
    path = Path(place).expanduser()
    candidates = [path, path / "bin" / "python", path / "Scripts" / "python.exe"]
    for candidate in candidates:
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate.absolute()
    raise UsageError(
        f"there is no Python interpreter at {place}",
        hint="python=VENV or python=VENV/bin/python, with numpy and onnxruntime installed there",
    )


class Elsewhere:
    """A child process that holds sessions as long as this object lives."""

    def __init__(self, script: Script, job: Job, python: Path | None = None) -> None:
        self._script = script
        self._job = job
        self._python = python
        self._room = job.place.room("elsewhere")
        self._folder = self._room.folder
        self._sessions = itertools.count()
        with undoing(self._room.close):
            self._worker = self._room.worker(script, python)

    def version(self) -> str:
        """The versions of ONNX Runtime and of what it runs on."""
        try:
            said = self.ask({"do": "version"}, "start")
        except EngineError as error:
            self.close()
            raise error.hinting("it needs numpy and onnxruntime there") from None
        return f"{said['onnxruntime']} (Python {said['python']}, numpy {said['numpy']})"

    def another(self) -> Elsewhere:
        """A further child of the same interpreter."""
        return Elsewhere(self._script, self._job, self._python)

    def ask(self, request: Mapping[str, Any], stage: str) -> dict[str, Any]:
        """Ask the child and return its answer."""
        return self._worker.ask(request, stage, self._job.limit_of(stage))

    def load(self, model: str | bytes, settings: Mapping[str, Any]) -> Any:
        """Load a session in the child; the result has the methods of `InferenceSession` that are used here."""
        file = Path(model) if isinstance(model, str) else self._write(model)
        chosen, target = dict(settings), settings.get("save_to")
        written = self._folder / "optimised.onnx"
        if target is not None and self._job.place.name:
            chosen["save_to"] = self._room.there(written)
        number = next(self._sessions)
        try:
            request = {"do": "load", "session": number, "model": self._room.give(file), "settings": chosen}
            said = self.ask(request, "load the network")
        finally:
            if isinstance(model, bytes):
                file.unlink()
        if target is not None and self._job.place.name:
            self._room.pull(written)
            shutil.move(written, target)
        return _There(self, number, said)

    def _write(self, data: bytes) -> Path:
        handle, name = tempfile.mkstemp(suffix=".onnx", dir=self._folder)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        return Path(name)

    def run(self, session: int, names: Sequence[str], feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """The outputs of a session; anything but tensors of numbers is returned as an empty object array."""
        given, made = (self._folder / f"{part}.npz" for part in ("feeds", "results"))
        np.savez(given, allow_pickle=False, **{str(i): np.asarray(a) for i, a in enumerate(feeds.values())})
        self.ask(
            {
                "do": "run",
                "session": session,
                "names": list(feeds),
                "outputs": list(names),
                "feeds": self._room.give(given),
                "results": self._room.there(made),
            },
            "run the network",
        )
        self._room.pull(made)
        with np.load(made, allow_pickle=False) as data:
            none = np.empty(0, object)
            return [data[str(i)] if str(i) in data.files else none for i in range(len(names))]

    def close(self) -> None:
        """End the child."""
        self._worker.close()
        self._room.close()


class _There:
    """A session that lives in the child; `said` is what it told when it was loaded."""

    def __init__(self, home: Elsewhere, number: int, said: Mapping[str, Any]) -> None:
        self.said = said
        self._home = home
        self._number = number
        self._names = {part: [SimpleNamespace(name=n) for n in said[part]] for part in ("inputs", "outputs")}

    def get_inputs(self) -> list[SimpleNamespace]:
        return self._names["inputs"]

    def get_outputs(self) -> list[SimpleNamespace]:
        return self._names["outputs"]

    def run(self, names: Sequence[str], feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        return self._home.run(self._number, names, feeds)

    def __del__(self) -> None:
        with contextlib.suppress(EngineError):  # the child is gone, and the session with it
            self._home.ask({"do": "drop", "session": self._number}, "free a session")
