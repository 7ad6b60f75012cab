"""The OpenSSH client, with the user's own configuration and strict host keys; one connection serves all commands."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, TypeVar

from twinnet.children import start_child, stop_child, wait_child
from twinnet.errors import EngineError
from twinnet.programs.start import last_words
from twinnet.remote.address import Address
from twinnet.scratch import new_scratch

__all__ = ["CONFIG", "Connection", "Lost"]

CONFIG = "TWINNET_SSH_CONFIG"
"""The environment variable that names another configuration file for ssh than the user's own."""

_OPTIONS = {
    "BatchMode": "yes",
    "StrictHostKeyChecking": "yes",
    "ConnectTimeout": "15",
    "ServerAliveInterval": "5",
    "ServerAliveCountMax": "3",
    "RemoteCommand": "none",
    "RequestTTY": "no",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "ClearAllForwardings": "yes",
    "PermitLocalCommand": "no",
    "EscapeChar": "none",
    "LogLevel": "ERROR",
}
_START = 30.0
_SOCKET = 80
"""Longest name of a socket: the system takes about 100 bytes, and ssh adds some of its own."""

Result = TypeVar("Result")


class Lost(EngineError):
    """The connection broke; what it was used for may be tried again."""


class Connection:
    """A connection to a board. It is made when first used, and once more when it was lost."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.made = 0
        """How often it was made."""
        self.gone = False
        """Whether it was lost and could not be made again."""
        self._lock = threading.RLock()
        self._master: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._folder: Path | None = None

    # -- the connection itself -------------------------------------------------------------------------------------

    def _ssh(self, *options: str) -> list[str]:
        program = shutil.which("ssh")
        if program is None:
            raise EngineError(
                "the OpenSSH client, ssh, is not installed",
                stage="connect",
                hint="apt-get install openssh-client",
            )
        line = [program]
        if config := os.environ.get(CONFIG):
            line += ["-F", config]
        for key, value in _OPTIONS.items():
            line += ["-o", f"{key}={value}"]
        if self.address.port is not None:
            line += ["-p", str(self.address.port)]
        if self.address.user:
            line += ["-l", self.address.user]
        return [*line, *options, "--", self.address.host]

    @property
    def _socket(self) -> Path:
        if self._folder is None:
            made = new_scratch("ssh")
            if len(str(made)) > _SOCKET:
                made = new_scratch("ssh", "/tmp")
            self._folder = made
        return self._folder / "s"

    def connect(self) -> None:
        """Connect, unless it is connected."""
        with self._lock:
            if self._master is not None and self._master.poll() is None:
                return
            self._leave()
            self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the connection
            self._socket.unlink(missing_ok=True)
            line = self._ssh("-M", "-N", "-S", str(self._socket), "-o", "ControlPersist=no")
            self._master = start_child(
                line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._log
            )
            until = time.monotonic() + _START
            while not self._socket.exists():
                if self._master.poll() is not None or time.monotonic() > until:
                    error = self._refused(self._words())
                    self.gone = self.made > 0
                    self._leave()
                    raise error
                time.sleep(0.005)
            self.made += 1

    def _words(self) -> str:
        assert self._log is not None
        self._log.seek(0)
        return self._log.read(1 << 20).decode(errors="replace")

    def _leave(self) -> None:
        if self._master is not None:
            stop_child(self._master)
            self._master = None
        if self._log is not None:
            self._log.close()
            self._log = None

    def close(self) -> None:
        """Leave the board."""
        with self._lock:
            self._leave()
            self.made, self.gone = 0, False
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
                self._folder = None

    def _refused(self, log: str) -> EngineError:
        """Why there is no connection, in words."""
        said = last_words(log)
        config = os.environ.get(CONFIG)
        login = (f"-F {shlex.quote(config)} " if config else "") + self.address.login
        why, hint = said.splitlines()[-1][:300] if said else f"no answer within {_START:g} s", None
        if re.search(r"REMOTE HOST IDENTIFICATION HAS CHANGED", log):
            why = "its host key is not the one that is known"
            hint = f"if the board was set up anew: ssh-keygen -R, then connect once by hand: ssh {login}"
        elif "Host key verification failed" in log:
            why, hint = "its host key is not known", f"connect once by hand, and compare the key: ssh {login}"
        elif "Permission denied" in log:
            why = "it takes none of your keys, and passwords are never asked for"
            hint = f"give it your key: ssh-copy-id {login}"
        what = f"cannot connect to {self.address.text}: {why}"
        return EngineError(what, stage="connect", log=log, hint=hint, accident="connection")

    # -- what it is used for ---------------------------------------------------------------------------------------

    def retried(self, attempt: Callable[[], Result]) -> Result:
        """What `attempt` returns; if it loses the connection, it is called once more with another one."""
        self.connect()
        made = self.made
        try:
            return attempt()
        except Lost:
            with self._lock:
                if self.made == made:  # otherwise another thread was quicker
                    self._leave()
                self.connect()
            return attempt()

    def command(self, words: Sequence[str]) -> list[str]:
        """The arguments that run a command on the board; its words are quoted."""
        line = self._ssh("-T", "-S", str(self._socket), "-o", "ControlMaster=no")
        return [*line, " ".join(shlex.quote(word) for word in words)]

    def call(
        self,
        words: Sequence[str],
        stage: str,
        *,
        source: bytes | Path | None = None,
        target: Path | None = None,
        limit: float = 60.0,
    ) -> tuple[int, str, str]:
        """Run a command: its exit code, and what it printed. It reads `source`, and writes to `target` if given."""
        return self.retried(lambda: self._call(words, stage, source, target, limit))

    def _call(
        self, words: Sequence[str], stage: str, source: bytes | Path | None, target: Path | None, limit: float
    ) -> tuple[int, str, str]:
        with contextlib.ExitStack() as stack:
            given, out, err = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(3))
            if isinstance(source, Path):
                given = stack.enter_context(source.open("rb"))
            elif source is not None:
                given.write(source)
                given.seek(0)
            if target is not None:
                out = stack.enter_context(target.open("wb+"))
            child = start_child(self.command(words), stdin=given, stdout=out, stderr=err)
            try:
                code = wait_child(child, limit)
            except subprocess.TimeoutExpired:
                what = f"{self.address.text} did not {stage} within {limit:g} s"
                raise EngineError(what, stage="run", accident="connection") from None
            err.seek(0)
            log = err.read(1 << 20).decode(errors="replace")
            if code == 255 or code < 0:
                raise self.lost(stage, log)
            out.seek(0)
            return code, "" if target is not None else out.read(1 << 24).decode(errors="replace"), log

    def lost(self, stage: str, log: str) -> Lost:
        """The error for a connection that broke."""
        return Lost(
            f"the connection to {self.address.text} was lost while it should {stage}",
            stage="run",
            log=last_words(log) or "nothing was said",
            hint="is the board still up? run the same command again",
            accident="connection",
        )
