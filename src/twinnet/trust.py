"""Whether what a file asks for may be done: run its code, start its programs.

Files from elsewhere are data. What would need more is refused, and the message says what it is; `--trust` on the
command line, or `trust=True`, allows it for one call. What this user made on this machine is recognised by a signature:
its key is made on first use and never leaves the machine.
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path

__all__ = ["is_trusted", "made_here", "signature", "trusting"]

_TRUSTED: ContextVar[bool] = ContextVar("twinnet_trusted", default=False)


def is_trusted() -> bool:
    """Whether the files of this call are trusted."""
    return _TRUSTED.get()


@contextmanager
def trusting(given: bool = True) -> Iterator[None]:
    """Trust the files that are read inside; `trusting(False)` leaves it as it is.

    >>> with trusting():
    ...     is_trusted()
    True
    >>> is_trusted()
    False
    """
    token = _TRUSTED.set(given or _TRUSTED.get())
    try:
        yield
    finally:
        _TRUSTED.reset(token)


def signature(content: bytes) -> str:
    """A signature that only this user can make on this machine."""
    return hmac.new(_key(_key_file()), content, "sha256").hexdigest()


def made_here(content: bytes, signed: object) -> bool:
    """Whether `signed` is the signature of this content.

    >>> made_here(b"a", signature(b"a")), made_here(b"b", signature(b"a")), made_here(b"a", None)
    (True, False, False)
    """
    return isinstance(signed, str) and signed.isascii() and hmac.compare_digest(signature(content), signed)


def _key_file() -> Path:
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "twinnet" / "key"


@cache
def _key(path: Path) -> bytes:
    """The key in a file, which is made if it does not exist; if it cannot be written, one for this process."""
    made = secrets.token_bytes(32)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            # Written under another name and linked: two processes that start at once agree on one key.
            temporary = path.with_name(f"key.{os.getpid()}.{made[:4].hex()}")
            temporary.touch(mode=0o600, exist_ok=False)
            temporary.write_bytes(made)
            try:
                os.link(temporary, path)
            finally:
                temporary.unlink()
        except FileExistsError:
            pass
        found = path.read_bytes()
        if len(found) == 32:
            return found
    return made
