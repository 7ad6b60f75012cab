"""The lease of a board: who holds it uses the board alone. It is renewed, and ends by itself if its owner is gone."""

from __future__ import annotations

import getpass
import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from twinnet.errors import EngineError
from twinnet.progress import Report

__all__ = ["Lease", "lease_owner"]

Call = Callable[..., str]
"""Calls a verb of the board's own script and returns what it printed."""


def lease_owner() -> str:
    """A name for this process that no other has, in one word: who, where, which process."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        user = str(os.getuid()) if hasattr(os, "getuid") else "somebody"
    name = f"{user}@{socket.gethostname()}"
    plain = re.sub(r"[^A-Za-z0-9_.@-]", "_", name)[:80]
    return f"{plain},process-{os.getpid()},{uuid.uuid4().hex[:12]}"


@dataclass(frozen=True, slots=True)
class _Held:
    """A lease that somebody else holds, as the board tells it."""

    left: int
    owner: str

    def __str__(self) -> str:
        who, _, rest = self.owner.partition(",")
        process = rest.partition(",")[0].replace("-", " ")
        shown = "".join(c if c.isprintable() else "?" for c in f"{who} ({process})" if c != "\x1b")[:120]
        return f"{shown if who else 'somebody'}, whose lease ends in {self.left} s unless it is renewed"


class Lease:
    """Taken when made; renewed by a thread until `stop`."""

    def __init__(self, call: Call, board: str, *, seconds: int, wait: int, report: Report) -> None:
        self.owner = lease_owner()
        self.number = 0
        self._call, self._board, self._seconds = call, board, seconds
        self._lost: EngineError | None = None
        self._over = threading.Event()
        self._take(wait, report)
        self._thread = threading.Thread(target=self._renew, name="twinnet-lease", daemon=True)
        self._thread.start()

    def _take(self, wait: int, report: Report) -> None:
        until = time.monotonic() + wait
        while True:
            said = self._call("take", self.owner, str(self._seconds)).split(maxsplit=2)
            if said[:1] == ["taken"] and len(said) > 1 and said[1].isdigit():
                self.number = int(said[1])
                return
            held = _held(said)
            left = until - time.monotonic()
            if left <= 0:
                raise EngineError(
                    f"{self._board} is in use by {held}",
                    stage="connect",
                    hint=f"waited {wait} s; to wait longer, add ?wait=SECONDS to the address",
                    accident="connection",
                )
            report(f"waiting for {self._board}: in use by {held}", None)
            time.sleep(min(1.0, left, max(held.left, 0.1)))

    def _renew(self) -> None:
        while not self._over.wait(self._seconds / 3):
            try:
                said = self._call("renew", str(self.number), self.owner, str(self._seconds)).split(maxsplit=2)
            except EngineError:  # the next command meets the same, and tells
                continue
            if said != ["kept"] and not self._over.is_set():
                self._lost = EngineError(
                    f"the lease of {self._board} ended before the run did; now it is in use by {_held(said)}",
                    stage="run",
                    hint="was this machine asleep? run the same command again",
                    accident="connection",
                )
                return

    def check(self) -> None:
        """Raise an error if it was lost."""
        if self._lost is not None:
            raise self._lost

    def stop(self) -> None:
        """Renew it no longer."""
        self._over.set()
        self._thread.join(30.0)


def _held(said: list[str]) -> _Held:
    left = int(said[1]) if len(said) > 1 and re.fullmatch(r"\d{1,9}", said[1]) else 1
    return _Held(left, said[2].strip() if len(said) > 2 else "")
