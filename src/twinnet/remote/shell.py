"""A shell on the board that stays: small commands through it cost no new session of ssh each."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence

from twinnet.children import start_child, stop_child
from twinnet.remote.ssh import Lost

__all__ = ["Shell", "fits"]

_WORD = re.compile(r"[A-Za-z0-9_.,:@/=+-]+")
_MOST = 1 << 20
"""Bytes that go this way at once; the lease is renewed through the same shell, and must not wait for long."""


def fits(words: Sequence[str], source: bytes | None) -> bool:
    """Whether a command can go this way.

    >>> fits(["have", "a1.onnx:12"], None), fits(["fetch", "my file"], None)
    (True, False)
    """
    return all(_WORD.fullmatch(word) for word in words) and len(source or b"") <= _MOST


class Shell:
    """`command` starts it; each call is a line with its words, and what it reads."""

    def __init__(self, command: Sequence[str], lost: Callable[[str, str], Lost]) -> None:
        self._lost = lost
        self._lock = threading.Lock()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the shell
        self._child = start_child(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, bufsize=0
        )
        self._rest = b""

    def call(self, words: Sequence[str], source: bytes | None, limit: float) -> tuple[int, bytes, str]:
        """The exit code of a command, what it printed, and what it said about errors."""
        data = source or b""
        pipe = self._child.stdin
        assert pipe is not None
        with self._lock:
            until = time.monotonic() + limit
            try:
                sent = memoryview(" ".join((str(len(data)), *words)).encode() + b"\n" + data)
                while sent:
                    sent = sent[pipe.write(sent) or 0 :]
            except (OSError, ValueError):
                raise self._broken(words[0]) from None
            while b"\n" not in self._rest:
                self._more(words[0], until)
            head, _, self._rest = self._rest.partition(b"\n")
            found = re.fullmatch(rb"(\d{1,3}) (\d{1,12}) (\d{1,12})", head)
            if found is None:
                self.close()
                raise self._lost(words[0], head[:200].decode(errors="replace"))
            code, out, err = (int(part) for part in found.groups())
            while len(self._rest) < out + err:
                self._more(words[0], until)
            printed, said = self._rest[:out], self._rest[out : out + err]
            self._rest = self._rest[out + err :]
        return code, printed, said.decode(errors="replace")

    def _more(self, what: str, until: float) -> None:
        pipe = self._child.stdout
        assert pipe is not None
        try:
            with selectors.DefaultSelector() as ready:
                ready.register(pipe, selectors.EVENT_READ)
                if not ready.select(max(until - time.monotonic(), 0)):
                    self.close()
                    raise self._lost(what, "it does not answer any more")
            more = os.read(pipe.fileno(), 1 << 18)
        except (OSError, ValueError):
            more = b""
        if not more:
            raise self._broken(what)
        self._rest += more

    def _broken(self, what: str) -> Lost:
        log = ""
        with contextlib.suppress(OSError, ValueError):
            self._log.seek(0)
            log = self._log.read(1 << 16).decode(errors="replace")
        self.close()
        return self._lost(what, log)

    @property
    def alive(self) -> bool:
        """Whether it can be called."""
        return self._child.poll() is None

    def close(self) -> None:
        """End it; it ends by itself if it hears no more."""
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(2)
        stop_child(self._child)
        self._log.close()
