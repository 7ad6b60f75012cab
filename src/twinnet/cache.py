"""A content-addressed cache of artefacts: keyed by their inputs, written completely or not at all."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from twinnet.errors import UsageError

__all__ = ["CACHE_SCHEMA", "cache_dir", "cached_folder", "content_key"]

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
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=".building-", dir=final.parent))
    except OSError as error:
        raise UsageError(
            f"the cache {root} cannot be written: {error.strerror}",
            hint="set TWINNET_CACHE to another folder",
        ) from None
    temporary.rmdir()
    from filelock import FileLock  # most runs find what they need

    with FileLock(str(final) + ".lock"):
        if final.is_dir():
            return final
        temporary = Path(tempfile.mkdtemp(prefix=".building-", dir=final.parent))
        try:
            build(temporary)
            temporary.replace(final)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
    return final
