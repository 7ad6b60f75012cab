"""Programs that twinnet starts. They end with it, however it ends: a small guard outlives it and stops them."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

__all__ = ["ended", "start_child", "stop_child", "wait_child"]

_GUARD = """
import os, select, signal, sys
parent, groups, rest = int(sys.argv[1]), set(), b""
while True:
    if select.select([0], [], [], 1.0)[0]:
        data = os.read(0, 65536)
        if not data:
            break
        *lines, rest = (rest + data).split(b"\\n")
        for line in lines:
            (groups.add if line[:1] == b"+" else groups.discard)(int(line[1:]))
    elif os.getppid() != parent:
        break
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
"""


def start_child(arguments: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    """Start a program in a process group of its own, which is stopped if this process ends before `ended`.

    >>> child = start_child([sys.executable, "-c", "print(6 * 7)"], stdout=subprocess.PIPE, text=True)
    >>> child.communicate()[0]
    '42\\n'
    >>> ended(child)
    """
    guard = _guard(os.getpid())
    child = subprocess.Popen(list(arguments), start_new_session=True, **options)
    _tell(guard, f"+{child.pid}\n")
    return child


def ended(child: subprocess.Popen[Any]) -> None:
    """Say that a program has ended by itself."""
    _tell(_guard(os.getpid()), f"-{child.pid}\n")


def wait_child(child: subprocess.Popen[Any], limit: float | None = None) -> int:
    """The exit code of a program, once it has ended. Whatever interrupts the wait, `limit` seconds included, stops it.

    >>> wait_child(start_child([sys.executable, "-c", "raise SystemExit(3)"]))
    3
    """
    try:
        code = child.wait(limit)
    except BaseException:
        stop_child(child)
        raise
    ended(child)
    return code


def stop_child(child: subprocess.Popen[Any]) -> None:
    """Kill a program and those it started."""
    if os.name == "nt":
        child.kill()
    else:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    ended(child)


@cache
def _guard(pid: int) -> subprocess.Popen[bytes] | None:
    """The guard of this process; a fork has its own."""
    if os.name == "nt":
        return None
    guard = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _GUARD, str(pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    def dismiss() -> None:
        if os.getpid() == pid and guard.stdin is not None:
            with contextlib.suppress(OSError):
                guard.stdin.close()
            guard.wait()

    atexit.register(dismiss)
    return guard


def _tell(guard: subprocess.Popen[bytes] | None, line: str) -> None:
    if guard is not None and guard.stdin is not None:
        with contextlib.suppress(OSError, ValueError):  # it was killed, or this process is ending
            guard.stdin.write(line.encode())
            guard.stdin.flush()
