"""A content-addressed cache of artefacts: keyed by their inputs, written completely or not at all."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from twinnet.errors import machine_error

__all__ = ["CACHE_SCHEMA", "cache_dir", "cached_folder", "content_key"]

_BUILDING = ".building-"
CACHE_SCHEMA = "2"
"""Raised whenever the meaning of a cached artefact changes."""


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


def cached_folder(key: str, build: Callable[[Path], None]) -> Path:
    """The folder made by `build` for this key, built at most once even by several processes."""
    root = cache_dir()
    final = root / key[:2] / key
    if final.is_dir():
        return final
    from filelock import FileLock  # most runs find what they need

    temporary = final.with_name(f"{_BUILDING}{key}")
    with _writable(root):
        final.parent.mkdir(parents=True, exist_ok=True)
    _sweep(root)
    with FileLock(str(final) + ".lock"):
        if final.is_dir():
            return final
        with _writable(root):
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir()
        try:
            build(temporary)
            temporary.replace(final)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
    return final


@contextmanager
def _writable(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        hint = "set TWINNET_CACHE to another folder"
        raise machine_error(error, f"the cache {root}", doing="write", hint=hint) from None


def _sweep(root: Path) -> None:
    """Remove what killed processes were building: nobody holds its lock."""
    from filelock import FileLock, Timeout

    for left in root.glob(f"*/{_BUILDING}*"):
        key = left.name.removeprefix(_BUILDING)
        with suppress(Timeout, OSError), FileLock(str(left.with_name(key)) + ".lock").acquire(timeout=0):
            shutil.rmtree(left, ignore_errors=True)
