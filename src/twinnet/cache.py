"""A content-addressed cache of artefacts: keyed by their inputs, written completely or not at all.

Each artefact is a folder. Beside it are a lock, held while it is built or removed, and an `.entry` file that holds its
size and was last changed when it was last used. Artefacts that were not used for long are removed when all of them
together exceed `$TWINNET_CACHE_LIMIT`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from twinnet.errors import UsageError, machine_error

__all__ = [
    "CACHE_SCHEMA",
    "CacheInfo",
    "CacheUse",
    "cache_dir",
    "cache_info",
    "cached_folder",
    "clear_cache",
    "content_key",
    "find_folder",
    "parse_size",
    "rebuild_from_now",
    "rebuilding",
    "watch_cache",
]

_BUILDING = ".building-"
_ENTRY = ".entry"
_SINCE = "TWINNET_CACHE_SINCE"
_LIMIT = "20G"
_IN_USE = 3600.0
"""Seconds after its last use in which an artefact is not removed: its user may still read it."""
_TRIMMED = ".trimmed"
_TRIM_EVERY = 600.0
CACHE_SCHEMA = "2"
"""Raised whenever the meaning of a cached artefact changes."""


@dataclass
class CacheUse:
    """What one block of code took from the cache: the folders in order, and the keys of those that it built."""

    folders: list[Path] = field(default_factory=list)
    built: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """How much is in the cache."""

    folder: Path
    artefacts: int
    size: int
    limit: int


_WATCHED: ContextVar[tuple[CacheUse, ...]] = ContextVar("twinnet_cache_use", default=())


def cache_dir() -> Path:
    """Where artefacts are kept: `$TWINNET_CACHE`, else `$XDG_CACHE_HOME/twinnet`, else `~/.cache/twinnet`."""
    explicit = os.environ.get("TWINNET_CACHE")
    if explicit:
        return Path(explicit)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "twinnet"


def content_key(*parts: str | bytes) -> str:
    """One hash of all parts. Where they are split matters: ("ab", "c") and ("a", "bc") differ.

    >>> content_key("ab", "c") == content_key("a", "bc")
    False
    """
    digest = hashlib.sha256(CACHE_SCHEMA.encode())
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()[:32]


def parse_size(text: str, what: str) -> int:
    """Bytes of a size such as "512M" or "2G"; `what` begins the error.

    >>> parse_size("2M", "--max-memory")
    2097152
    """
    factors = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
    body = text.strip().upper().removesuffix("IB").removesuffix("B")
    factor = factors.get(body[-1:], 1)
    try:
        return int(float(body[:-1] if factor > 1 else body) * factor)
    except (ValueError, OverflowError):
        raise UsageError(f"{what} {text!r} is not a size", hint="for example 512M or 2G") from None


@contextmanager
def watch_cache() -> Iterator[CacheUse]:
    """See what a block takes from the cache, and what it has to build.

    >>> with watch_cache() as use:
    ...     pass
    >>> use.built
    []
    """
    use = CacheUse()
    token = _WATCHED.set((*_WATCHED.get(), use))
    try:
        yield use
    finally:
        _WATCHED.reset(token)


def rebuild_from_now() -> None:
    """Let this process, and those that it starts, build every artefact again that is older than this moment."""
    os.environ[_SINCE] = repr(time.time())


@contextmanager
def rebuilding() -> Iterator[None]:
    """Build every artefact again inside a block, so that building it can be timed."""
    before = os.environ.get(_SINCE)
    rebuild_from_now()
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SINCE]
        else:
            os.environ[_SINCE] = before


def find_folder(key: str) -> Path | None:
    """The folder of this key if it has been built."""
    final = _place(key)
    if not final.is_dir() or _is_old(final):
        return None
    _note_use(final)
    for use in _WATCHED.get():
        use.folders.append(final)
    return final


def cached_folder(key: str, build: Callable[[Path], None]) -> Path:
    """The folder made by `build` for this key, built at most once even by several processes."""
    found = find_folder(key)
    if found is not None:
        return found
    from filelock import FileLock  # most runs find what they need

    root, final = cache_dir(), _place(key)
    temporary = final.with_name(f"{_BUILDING}{key}")
    with _writable(root):
        final.parent.mkdir(parents=True, exist_ok=True)
    _sweep(root)
    with FileLock(str(final) + ".lock"):
        found = find_folder(key)
        if found is not None:
            return found
        with _writable(root):
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir()
        try:
            build(temporary)
            if final.is_dir():  # an old one, to be built again
                _remove(final)
            temporary.replace(final)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        _note_use(final, _size(final))
    for use in _WATCHED.get():
        use.folders.append(final)
        use.built.append(key)
    _trim(root)
    return final


def cache_info() -> CacheInfo:
    """How many artefacts there are, how large they are, and how large they may become."""
    entries = _entries(cache_dir())
    return CacheInfo(cache_dir(), len(entries), sum(size for _, size, _ in entries), _limit())


def clear_cache() -> CacheInfo:
    """Remove all artefacts except those that are being built; says what was removed."""
    root = cache_dir()
    _sweep(root)
    removed = [(final, size) for final, size, _ in _entries(root) if _evict(final)]
    return CacheInfo(root, len(removed), sum(size for _, size in removed), _limit())


# -- entries ---------------------------------------------------------------------------------------------------------


def _place(key: str) -> Path:
    return cache_dir() / key[:2] / key


def _is_old(final: Path) -> bool:
    since = os.environ.get(_SINCE)
    return bool(since) and final.stat().st_mtime < float(since)


def _note_use(final: Path, size: int | None = None) -> None:
    """Note that a folder is used now and, if it was just built, how large it is."""
    entry = final.with_name(final.name + _ENTRY)
    with suppress(OSError):
        if size is not None:
            entry.write_text(str(size))
        else:
            os.utime(entry)


def _entries(root: Path) -> list[tuple[Path, int, float]]:
    """Folder, size and time of last use of all artefacts, the longest unused first."""
    found: list[tuple[Path, int, float]] = []
    for final in root.glob("[0-9a-f][0-9a-f]/" + "[0-9a-f]" * 32):
        if not final.is_dir():
            continue
        entry = final.with_name(final.name + _ENTRY)
        with suppress(OSError):
            try:
                size = int(entry.read_text())
            except (OSError, ValueError):
                size = _size(final)
                used = final.stat().st_mtime
                entry.write_text(str(size))
                os.utime(entry, (used, used))
            found.append((final, size, entry.stat().st_mtime))
    return sorted(found, key=lambda item: item[2])


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _evict(final: Path) -> bool:
    """Remove one artefact, unless somebody is building it."""
    from filelock import FileLock, Timeout

    with suppress(Timeout, OSError), FileLock(str(final) + ".lock").acquire(timeout=0):
        _remove(final)
        return True
    return False


def _remove(final: Path) -> None:
    """Remove a folder whose lock is held: under another name first, so that nobody finds half of it."""
    gone = final.with_name(f"{_BUILDING}{final.name}")
    if gone.exists():  # what takes its place is built already
        gone = final.with_name(f"{_BUILDING}{final.name}.old")
        shutil.rmtree(gone, ignore_errors=True)
    final.replace(gone)
    final.with_name(final.name + _ENTRY).unlink(missing_ok=True)
    shutil.rmtree(gone, ignore_errors=True)


def _limit() -> int:
    return parse_size(os.environ.get("TWINNET_CACHE_LIMIT") or _LIMIT, "TWINNET_CACHE_LIMIT")


def _trim(root: Path) -> None:
    """Remove the longest unused artefacts while all are too large together; looks once in ten minutes."""
    stamp, now = root / _TRIMMED, time.time()
    with suppress(OSError):
        if stamp.exists() and now - stamp.stat().st_mtime < _TRIM_EVERY:
            return
        stamp.touch()
        entries, limit = _entries(root), _limit()
        total = sum(size for _, size, _ in entries)
        for final, size, used in entries:
            if total <= limit or now - used < _IN_USE:
                return
            if _evict(final):
                total -= size


@contextmanager
def _writable(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        hint = "set TWINNET_CACHE to another folder"
        raise machine_error(error, f"the cache {root}", doing="write", hint=hint) from None


def _sweep(root: Path) -> None:
    """Remove what killed processes were building or removing: nobody holds its lock."""
    from filelock import FileLock, Timeout

    for left in root.glob(f"*/{_BUILDING}*"):
        key = left.name.removeprefix(_BUILDING).removesuffix(".old")
        with suppress(Timeout, OSError), FileLock(str(left.with_name(key)) + ".lock").acquire(timeout=0):
            shutil.rmtree(left, ignore_errors=True)
