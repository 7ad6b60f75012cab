"""Whether what a file asks for may be done: run its code, start its programs.

Files from elsewhere are data. What would need more is refused, and the message says what it is; `--trust` on the
command line, or `trust=True`, allows it for one call.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["is_trusted", "trusting"]

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
