"""Debuggers to test against: one in a thread of this process, one as a command of its own; and curl."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import numpy as np

from tests.needs import absent
from twinnet.debugger.entry import serve_stopped
from twinnet.debugger.settings import Settings
from twinnet.debugger.start import stop_at_traces
from twinnet.debugger.stopped import Stopped

__all__ = ["Answered", "Debugger", "command", "small", "thread"]

PATIENCE = float(os.environ.get("TWINNET_TEST_PATIENCE", "300"))
"""Seconds that a loaded machine may take for anything; nothing waits this long on purpose."""


@dataclass(frozen=True)
class Answered:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def data(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Debugger:
    """A running debugger, as its file describes it."""

    info: Path
    url: str
    port: int
    token: str
    banner: str = ""

    @classmethod
    def read(cls, info: Path, banner: str = "") -> Debugger:
        words = [w for line in info.read_text().splitlines() for w in shlex.split(line, comments=True)]
        found = dict(w.split("=", 1) for w in words)
        return cls(info, found["URL"], int(found["PORT"]), found["T"], banner)

    def send(
        self, method: str, path: str = "/", body: bytes | str = b"", headers: dict[str, str] | None = None
    ) -> Answered:
        """One request with exactly these headers: no token unless given."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answered(response.status, found, response.read())
        finally:
            connection.close()

    def ask(self, text: str, accept: str = "text/plain") -> Answered:
        """A command, with the token."""
        return self.send("POST", "/", text.encode(), {"X-Token": self.token, "Accept": accept})

    def text(self, text: str) -> str:
        answered = self.ask(text)
        assert answered.status == 200, answered.text
        return answered.text.rstrip("\n")

    def data(self, text: str) -> Any:
        answered = self.ask(text, "application/json")
        assert answered.status == 200, answered.text
        return answered.data["data"]

    def curl(self, text: str, *options: str) -> str:
        """What curl prints for a command, as it stands in the documentation."""
        program = shutil.which("curl")
        if program is None:
            absent("curl is not installed (Debian: curl)")
        line = [program, "-sS", "--noproxy", "*", "-H", f"X-Token: {self.token}", *options]
        done = subprocess.run(
            [*line, self.url, "--data", text], capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def small() -> Stopped:
    """Two traces that differ by 3 at one element of one site, and by a little at another."""
    rng = np.random.default_rng(0)
    ours = {"conv.out": rng.random((1, 2, 6, 8)), "head": rng.random((1, 4)), "same": np.arange(12.0)}
    theirs = {name: array.copy() for name, array in ours.items()}
    theirs["conv.out"][0, 1, 4, 5] += 3
    theirs["head"] += 1e-3
    return stop_at_traces(ours, theirs)


@contextmanager
def thread(
    stopped: Stopped | None = None, folder: Path | None = None, settings: Settings | None = None, **names: Any
) -> Iterator[Debugger]:
    """A debugger whose stopped thread is one of this process."""
    assert folder is not None
    chosen = replace(settings or Settings(), folder=folder, info=folder / "debugger.env")
    chosen = replace(chosen, port=0) if chosen.port is None else chosen
    said: queue.SimpleQueue[str | BaseException] = queue.SimpleQueue()

    def work() -> None:
        frame = sys._getframe()
        local_of_the_program = 41
        try:
            serve_stopped(
                small() if stopped is None else stopped, chosen, frame=frame, names=names, say=said.put
            )
        except BaseException as error:
            said.put(error)
        else:
            said.put(f"the program went on with {local_of_the_program}")

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    banner = said.get(timeout=PATIENCE)
    if isinstance(banner, BaseException):
        raise banner
    debugger = Debugger.read(folder / "debugger.env", banner)
    object.__setattr__(debugger, "said", said)
    try:
        yield debugger
    finally:
        # A test may have ended it already, or speak TLS with it: then nobody answers here.
        with contextlib.suppress(OSError, HTTPException):
            debugger.ask("quit")
        worker.join(PATIENCE)
        assert not worker.is_alive(), "quit did not let the program continue"


@contextmanager
def command(words: Sequence[str], folder: Path, **environment: str) -> Iterator[Debugger]:
    """A debugger started as a command; it must end by itself once it is asked to."""
    log = folder / "debugger.log"
    before = set(folder.rglob("*.env"))
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, *words], stdout=out, stderr=out, cwd=folder, env={**os.environ, **environment}
        )
    try:
        deadline = time.monotonic() + PATIENCE
        while not (found := set(folder.rglob("*.env")) - before):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        debugger = Debugger.read(found.pop())
        object.__setattr__(debugger, "log", log)
        yield debugger
        with contextlib.suppress(OSError, HTTPException):
            debugger.ask("quit")
        assert process.wait(PATIENCE) == 0, log.read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(PATIENCE)
