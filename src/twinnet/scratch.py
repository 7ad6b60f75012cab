"""Temporary folders that do not outlive their process, even one that is killed."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from twinnet.errors import machine_error

__all__ = ["new_scratch", "scratch_folder"]

_LOCK = "lock"
_YOUNG = 60.0
"""Seconds in which a process may not have locked its folder yet."""


@contextlib.contextmanager
def scratch_folder(purpose: str) -> Iterator[Path]:
    """A temporary folder, removed when the block ends, or by a later process if this one is killed.

    >>> with scratch_folder("doctest") as folder:
    ...     folder.is_dir()
    True
    >>> folder.exists()
    False
    """
    made = new_scratch(purpose)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def new_scratch(purpose: str, place: str | None = None) -> Path:
    """A temporary folder that its maker removes; at the latest it goes with the process.

    It lies where temporary files belong, unless `place` names another folder.
    """
    place = place or tempfile.gettempdir()
    try:
        return Path(tempfile.mkdtemp(prefix=f"{purpose}-", dir=_home(os.getpid(), place)))
    except OSError as error:
        raise machine_error(error, place, doing="write to") from error


@cache
def _home(pid: int, place: str) -> Path:
    """The folder that holds all scratch of this process, locked as long as the process lives."""
    from filelock import FileLock

    user = os.getuid() if hasattr(os, "getuid") else 0
    _sweep_homes(Path(place), f"twinnet-{user}-")
    home = Path(tempfile.mkdtemp(prefix=f"twinnet-{user}-{pid}-", dir=place))
    lock: Any = FileLock(str(home / _LOCK))
    lock.acquire(timeout=0)

    def leave() -> None:
        if os.getpid() == pid:  # not in a fork of this process
            shutil.rmtree(home, ignore_errors=True)
            lock.release()

    atexit.register(leave)
    return home


def _sweep_homes(place: Path, prefix: str) -> None:
    """Remove the scratch of processes that are gone: nobody holds its lock."""
    from filelock import FileLock, Timeout

    with contextlib.suppress(OSError):
        for home in place.glob(f"{prefix}*"):
            if home.is_symlink() or not home.is_dir() or time.time() - home.stat().st_mtime < _YOUNG:
                continue
            with contextlib.suppress(Timeout), FileLock(str(home / _LOCK)).acquire(timeout=0):
                shutil.rmtree(home, ignore_errors=True)
