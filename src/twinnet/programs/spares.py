"""Workers that one session leaves for the next, because starting one takes seconds."""

from __future__ import annotations

import atexit
import sys
from pathlib import Path

from twinnet.errors import undoing
from twinnet.programs.place import Script
from twinnet.programs.worker import Worker
from twinnet.scratch import scratch_folder

__all__ = ["Spares"]

Start = str | int | None
"""What a program may be told when it starts."""


class Spares:
    """Workers of one program on this machine. For each way to start it, at most one idle worker is kept.

    >>> import tempfile
    >>> echo = "from twinnet.programs.lines import answer_lines\\nanswer_lines(lambda request, loaded: request)"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "echo.py"
    ...     _ = file.write_text(echo)
    ...     spares = Spares(Script(file, "echo", ()))
    ...     first = spares.take(threads=1)
    ...     spares.keep(first, threads=1)
    ...     second = spares.take(threads=1)
    >>> second is first, second.alive
    (True, True)
    >>> second.close()
    """

    def __init__(self, script: Script) -> None:
        self._script = script
        self._idle: dict[frozenset[tuple[str, Start]], Worker] = {}
        atexit.register(self.close)

    def take(self, limit: float | None = None, **start: Start) -> Worker:
        """A worker started this way, which is the caller's from now on; a new one has `limit` seconds to start."""
        worker = self._idle.pop(frozenset(start.items()), None)
        return worker if worker is not None and worker.alive else self._started(start, limit)

    def keep(self, worker: Worker, **start: Start) -> None:
        """Leave a worker to whoever takes it next."""
        if worker.alive and self._idle.setdefault(frozenset(start.items()), worker) is not worker:
            worker.close()

    def close(self) -> None:
        """End the idle workers."""
        while self._idle:
            self._idle.popitem()[1].close()

    def _started(self, start: dict[str, Start], limit: float | None) -> Worker:
        with scratch_folder("worker") as place:
            program = self._script.written(Path(place))
            worker = Worker([sys.executable, *self._script.flags, str(program)], self._script.name)
            with undoing(worker.close):
                # Once it answers, it does not need its file.
                worker.ask({"do": "start", **start}, "start", limit)
        return worker
