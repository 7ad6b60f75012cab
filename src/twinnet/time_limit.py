"""Stop what takes too long in this process."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from twinnet.errors import EngineError

__all__ = ["limited", "when_stuck"]

_GRACE = 10.0
_AGAIN = 1.0


class _TimeUp(BaseException):
    """Not an `Exception`: code that ignores every one of those would go on."""


_stuck: list[Callable[[EngineError], None]] = []


@contextmanager
def when_stuck(call: Callable[[EngineError], None]) -> Iterator[None]:
    """In this block: what to call, in a thread, when code never returns to Python and can not be interrupted."""
    _stuck.append(call)
    try:
        yield
    finally:
        _stuck.remove(call)


@contextmanager
def limited(seconds: float | None, what: str) -> Iterator[None]:
    """Raise an `EngineError` in a block that takes longer than that; only the main thread can be interrupted.

    >>> with limited(0.05, "the count"):
    ...     while True:
    ...         pass
    Traceback (most recent call last):
    ...
    twinnet.errors.EngineError: the count exceeded the time limit of 0.05 s
      give it more time (--time-limit)
    """
    if seconds is None:
        yield
        return
    hint = "give it more time (--time-limit)"
    error = EngineError(f"{what} exceeded the time limit of {seconds:g} s", stage=what, hint=hint)
    watch = threading.Timer(seconds + _GRACE, lambda: [call(error) for call in _stuck[-1:]])
    watch.daemon = True
    watch.start()
    try:
        if hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread():
            with _alarm(seconds):
                yield
        else:
            yield
    except _TimeUp:
        raise error from None
    finally:
        watch.cancel()


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    armed = late = False

    def stop(*_: object) -> None:
        nonlocal late
        late = True
        if armed:
            raise _TimeUp

    before, begun = signal.signal(signal.SIGALRM, stop), time.monotonic()
    # Again and again, for code that catches even that.
    left, _ = signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6), _AGAIN)
    try:
        # The alarm may go off at any instruction: only between these two lines does it raise, and what follows runs.
        try:
            armed = True
            if late:
                raise _TimeUp
            yield
        finally:
            armed = False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - begun), 1e-6), _AGAIN)
