"""Stop what takes too long in this process."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from twinnet.errors import EngineError

__all__ = ["limited", "when_stuck"]

_GRACE = 10.0
_AGAIN = 1.0


class _Block:
    """A block with a limit. It is interrupted once its time is up, while it is armed."""

    def __init__(self) -> None:
        self.armed = False
        self.over = threading.Event()


class _TimeUp(BaseException):
    """Not an `Exception`: code that ignores every one of those would go on."""

    block: _Block


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
    """Raise an `EngineError` in a block that takes longer than that; Python code can be interrupted.

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
    if seconds <= 0:
        raise error
    block = _Block()
    threading.Thread(target=_watch, args=(block, seconds, threading.get_ident(), error), daemon=True).start()
    try:
        block.armed = True
        yield
    except _TimeUp as raised:
        if raised.block is not block:
            raise
        raise error from None
    finally:
        block.armed = False
        block.over.set()


def _watch(block: _Block, seconds: float, thread: int, error: EngineError) -> None:
    """Interrupt a thread when its time is up, again and again: it may catch even that, or be deaf for a while."""
    if block.over.wait(seconds):
        return
    for _ in range(round(_GRACE / _AGAIN)):
        _interrupt(block, thread)
        if block.over.wait(_AGAIN):
            return
    for call in _stuck[-1:]:
        call(error)


def _interrupt(block: _Block, thread: int) -> None:
    """Raise in a thread, but not while the block is being entered or left.

    No signal is sent: engines set up a stack for signals that does not always outlive them.
    """
    frame = sys._current_frames().get(thread)
    if block.armed and frame is not None and frame.f_code.co_filename not in _OWN:
        kind = type("_TimeUp", (_TimeUp,), {"block": block})
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind))


_OWN = (__file__, contextlib.__file__)
