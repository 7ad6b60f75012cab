"""Read files that may be damaged; write files and folders that are whole or absent.

Whatever the moment a process is killed, no reader takes half of a file or a folder for the whole, and what remains is
removed by the next process that comes by. Locks belong to open files, so they end with their owner.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import re
import shutil
import struct
import time
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from twinnet.errors import EngineError, UsageError, machine_error

__all__ = [
    "BAD_ARCHIVE",
    "atomic_write",
    "check_picture_size",
    "checked",
    "close_file",
    "parse_json",
    "read_json",
    "read_toml",
    "sweep",
    "whole_file",
    "whole_folder",
]

T = TypeVar("T")
BAD_ARCHIVE = (
    zipfile.BadZipFile,
    zlib.error,
    OSError,
    EOFError,
    ValueError,
    OverflowError,
    RuntimeError,
    NotImplementedError,
    struct.error,
)
"""The ways in which `zipfile` fails at a damaged archive: checksum, length, a method or password it does not have."""
_PART = re.compile(r"^\..+\.(\d+)\.part$")
_STAGE = ".writing"
_LOCK = "lock"
_YOUNG = 60.0
"""Seconds in which a thing may belong to a process that cannot be seen from here, or has not locked it yet."""


# -- reading ---------------------------------------------------------------------------------------------------------


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text from elsewhere; one that is nested too deeply is a `ValueError` like any other bad one.

    >>> parse_json("[1]"), parse_json(b'{"a": null}')
    ([1], {'a': None})
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_json(path: Path, what: str) -> Any:
    """The value in a JSON file; a `UsageError` says that it is not a readable `what`."""
    return _parsed(path, what, json.loads)


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """The table in a TOML file; a `UsageError` says that it is not a readable `what`."""
    import tomllib

    return _parsed(path, what, tomllib.loads)


_PIXELS_PER_BYTE = 8192
"""No format packs more of them into one byte, even if all are alike."""


def check_picture_size(path: Path, width: int, height: int) -> None:
    """Refuse a picture whose header promises more pixels than its bytes can hold, before they take memory."""
    if width * height > max(1 << 24, _PIXELS_PER_BYTE * path.stat().st_size):
        raise UsageError(
            f"{path} is damaged: it claims to hold {width}x{height} pixels in {path.stat().st_size} bytes"
        )


def checked(kind: type[T], data: Any, what: str) -> T:
    """A dataclass from the values of a file, each of the type it is declared with; `what` begins the `UsageError`.

    Fields that are not known are ignored: a newer twinnet may have written them.
    """
    from pydantic import ValidationError

    try:
        return _adapter(kind).validate_python(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise UsageError(f"{what}: {place}: {first['msg']}"[:400]) from None


@cache
def _adapter(kind: Any) -> Any:
    """What reads a type; making it takes longer than reading a thousand values."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def close_file(path: str | Path) -> str | None:
    """A hint that names files with almost this name in the same folder; None if there are none."""
    path = Path(path)
    try:
        names = [p.name for p in path.parent.iterdir()]
    except OSError:
        return None
    close = difflib.get_close_matches(path.name, names, n=2, cutoff=0.8)
    return f"did you mean {' or '.join(str(path.with_name(name)) for name in close)}?" if close else None


def _parsed(path: Path, what: str, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"no such {what}: {path}", hint=close_file(path)) from None
    except IsADirectoryError:
        raise UsageError(f"{path} is a folder, not a {what}") from None
    except RecursionError:
        raise UsageError(f"{path} is not a readable {what}: it is nested too deeply") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is not a readable {what}: {str(error)[:300]}") from None


# -- files -----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def whole_file(path: str | Path, *, durable: bool = False) -> Iterator[BinaryIO]:
    """Open a file to write: it appears under its name when the block ends, and not at all if the block fails.

    With `durable` it is on the disk by then. Until then it has a hidden name that ends in `.part`.
    """
    path = Path(path)
    part = path.with_name(f".{path.name[:200]}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        hint = "the previous file is intact; free some disk space and run again" if durable else None
        raise machine_error(error, path, doing="write", hint=hint) from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def atomic_write(path: str | Path, *pieces: bytes | memoryview, durable: bool = False) -> Path:
    """Write a file from its pieces; a reader sees the whole file, or the one before."""
    with whole_file(path, durable=durable) as file:
        for piece in pieces:
            file.write(piece)
    return Path(path)


def sweep(folder: Path) -> None:
    """Remove what killed processes left in a folder while they wrote files there."""
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(folder)):
            found = _PART.match(entry.name)
            if found and _old(Path(entry.path)) and not _alive(int(found[1])):
                Path(entry.path).unlink(missing_ok=True)


def _alive(pid: int) -> bool:
    if os.name == "nt":
        return True  # the call below would end the process there
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _old(path: Path) -> bool:
    return time.time() - path.stat().st_mtime > _YOUNG


# -- folders ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def whole_folder(final: str | Path, *, last: str, ours: Collection[str]) -> Iterator[Path]:
    """A folder to write into, whose content moves to `final` when the block ends; nothing changes if it fails.

    The file `last` marks a complete folder: it is the first to go from what was there before and the last to come.
    `ours` are patterns of the entries that an earlier writer made; other files in `final` stay. A second writer of the
    same folder is refused while the first is at work.
    """
    final = Path(final)
    made = [p for p in (final, *final.parents) if not p.exists()]
    try:
        with _locked(final / _STAGE, final) as stage:
            yield stage
            with _as_machine_error(final):
                _install(stage, final, last, ours)
    finally:
        for folder in made:  # left empty by a block that failed
            with contextlib.suppress(OSError):
                folder.rmdir()


@contextlib.contextmanager
def _locked(stage: Path, final: Path) -> Iterator[Path]:
    """An empty folder `stage` that no other process uses."""
    from filelock import FileLock, Timeout

    with _as_machine_error(final):
        stage.mkdir(parents=True, exist_ok=True)
        lock = FileLock(str(stage / _LOCK))
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise EngineError(
                f"another run is writing into {final}",
                stage="write",
                hint="wait until it has finished, or choose another folder with --out",
            ) from None
        for left in stage.iterdir():
            if left.name != _LOCK:
                _remove(left)
        sweep(final)
    try:
        yield stage
    finally:
        shutil.rmtree(stage, ignore_errors=True)
        lock.release()


def _install(stage: Path, final: Path, last: str, ours: Collection[str]) -> None:
    (final / last).unlink(missing_ok=True)
    new = sorted((p for p in stage.iterdir() if p.name != _LOCK), key=lambda p: p.name == last)
    names = {p.name for p in new}
    for old in list(final.iterdir()):
        if old.name in names or any(fnmatchcase(old.name, pattern) for pattern in ours):
            _remove(old)
    for entry in new:
        entry.replace(final / entry.name)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def _as_machine_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise machine_error(error, path, doing="write") from error
