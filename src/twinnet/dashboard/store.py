"""Where the bytes of uploaded files are: by their SHA-256, in a folder or at any fsspec URL.

A blob is whole before its name exists, and is never changed: the same file of many runs is stored once.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from twinnet.errors import MissingExtra, UsageError, foreign
from twinnet.scratch import scratch_folder

__all__ = ["CHUNK", "FolderStore", "Store", "TooLarge", "open_store"]

CHUNK = 1 << 20
_DIGEST = re.compile(r"[0-9a-f]{64}")


class TooLarge(UsageError):
    """A file has more bytes than it may."""


class Store(Protocol):
    """Blobs by their digest."""

    def put(self, source: BinaryIO, limit: int) -> tuple[str, int]:
        """Store all that can be read; returns digest and size. On the disk when it returns."""
        ...

    def open(self, digest: str) -> BinaryIO:
        """Open a blob to read; FileNotFoundError if it is not there."""
        ...

    def digests(self, older: float) -> Iterator[str]:
        """The digests of all blobs that are older than so many seconds."""
        ...

    def remove(self, digest: str, older: float) -> None:
        """Remove a blob, if it is there and still older than so many seconds."""
        ...


def open_store(place: str) -> Store:
    """The store in a folder, or at a URL that fsspec knows: `s3://bucket/twinnet`, `memory://`."""
    if "://" not in place:
        return FolderStore(Path(place))
    try:
        import fsspec
    except ImportError:
        raise MissingExtra("fsspec", "dashboard") from None
    with foreign("open", f"the store {place}"):
        system, path = cast(Any, fsspec.core.url_to_fs(place))
    return FsspecStore(system, path)


class FolderStore:
    """Blobs in a folder: `ab/abcdef...`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._incoming = folder / "incoming"
        self._incoming.mkdir(parents=True, exist_ok=True)
        for left in self._incoming.iterdir():  # of a server that was killed
            with contextlib.suppress(OSError):
                if time.time() - left.stat().st_mtime > 3600:
                    left.unlink()

    def _path(self, digest: str) -> Path:
        if not _DIGEST.fullmatch(digest):
            raise FileNotFoundError(digest)
        return self.folder / digest[:2] / digest

    def put(self, source: BinaryIO, limit: int) -> tuple[str, int]:
        part = self._incoming / secrets.token_hex(16)
        try:
            with part.open("wb") as file:
                digest, size = _copied(source, file, limit)
                if self._renewed(digest):
                    return digest, size
                file.flush()
                os.fsync(file.fileno())
            final = self._path(digest)
            final.parent.mkdir(exist_ok=True)
            with self._lock:
                part.replace(final)
            _sync_folder(final.parent)
        finally:
            part.unlink(missing_ok=True)
        return digest, size

    def _renewed(self, digest: str) -> bool:
        """Whether a blob is there; it is in use again, and must not be taken for an old one."""
        with self._lock:
            try:
                os.utime(self._path(digest))
            except FileNotFoundError:
                return False
        return True

    def open(self, digest: str) -> BinaryIO:
        return self._path(digest).open("rb")

    def digests(self, older: float) -> Iterator[str]:
        before = time.time() - older
        for folder in self.folder.iterdir():
            if len(folder.name) == 2:
                yield from (
                    p.name
                    for p in folder.iterdir()
                    if _DIGEST.fullmatch(p.name) and p.stat().st_mtime < before
                )

    def remove(self, digest: str, older: float) -> None:
        path = self._path(digest)
        with self._lock, contextlib.suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > older:
                path.unlink()


class FsspecStore:
    """Blobs at a URL of fsspec. Object stores show an object only when it is whole."""

    def __init__(self, system: Any, root: str) -> None:
        self._system, self._root = system, root.rstrip("/")

    def _path(self, digest: str) -> str:
        if not _DIGEST.fullmatch(digest):
            raise FileNotFoundError(digest)
        return f"{self._root}/{digest[:2]}/{digest}"

    def put(self, source: BinaryIO, limit: int) -> tuple[str, int]:
        with scratch_folder("store") as folder:
            with (folder / "blob").open("wb") as file:
                digest, size = _copied(source, file, limit)
            path = self._path(digest)
            with foreign("store a file", "fsspec"):
                if not self._system.exists(path):
                    self._system.makedirs(path.rpartition("/")[0], exist_ok=True)
                    self._system.put_file(str(folder / "blob"), path)
        return digest, size

    def open(self, digest: str) -> BinaryIO:
        return self._system.open(self._path(digest), "rb")

    def digests(self, older: float) -> Iterator[str]:
        before = time.time() - older
        with foreign("list files", "fsspec"):
            found = self._system.find(self._root, detail=True)
        for path, told in found.items():
            name = path.rpartition("/")[2]
            if _DIGEST.fullmatch(name) and _age(told) < before:
                yield name

    def remove(self, digest: str, older: float) -> None:
        with foreign("remove a file", "fsspec"):
            if self._system.exists(self._path(digest)):
                self._system.rm_file(self._path(digest))


def _age(told: dict[str, Any]) -> float:
    """When an object was written; now, if the system does not say."""
    when = next((told[name] for name in ("mtime", "LastModified", "created") if told.get(name)), None)
    if when is None:
        return time.time()
    return float(when) if isinstance(when, (int, float)) else when.timestamp()


def _copied(source: BinaryIO, target: BinaryIO, limit: int) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    while piece := source.read(CHUNK):
        size += len(piece)
        if size > limit:
            raise TooLarge(f"a file is larger than {limit} bytes")
        digest.update(piece)
        target.write(piece)
    return digest.hexdigest(), size


def _sync_folder(folder: Path) -> None:
    """A new name is on the disk only when its folder is."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
