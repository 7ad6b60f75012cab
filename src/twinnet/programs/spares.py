"""Workers that one session leaves for the next, because starting one takes seconds."""

from __future__ import annotations

import atexit
from collections.abc import Hashable

from twinnet.programs.worker import Worker

__all__ = ["Spares"]


class Spares:
    """At most one idle worker for each key, until this process ends.

    >>> import sys
    >>> spares = Spares()
    >>> spares.keep(Worker([sys.executable, "-c", "input()"], "waiting"), "a key")
    >>> worker = spares.take("a key")
    >>> worker.alive, spares.take("a key")
    (True, None)
    >>> worker.close()
    """

    def __init__(self) -> None:
        self._idle: dict[Hashable, Worker] = {}
        atexit.register(self.close)

    def take(self, key: Hashable) -> Worker | None:
        """The idle worker of this key, which is the caller's from now on; None if there is none."""
        worker = self._idle.pop(key, None)
        return worker if worker is not None and worker.alive else None

    def keep(self, worker: Worker, key: Hashable) -> None:
        """Leave a worker to whoever takes it next."""
        if worker.alive and self._idle.setdefault(key, worker) is not worker:
            worker.close()

    def close(self) -> None:
        """End the idle workers."""
        while self._idle:
            self._idle.popitem()[1].close()
