"""Stop what takes too long in this process."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from twinnet.errors import EngineError

__all__ = ["limited", "when_stuck"]

_GRACE = 10.0
_AGAIN = 1.0


class _Block:
    """A block with a limit. It is interrupted once its time is up, while it is armed."""

    def __init__(self) -> None:
        self.armed = self.up = False
        self.over = threading.Event()


class _TimeUp(BaseException):
    """Not an `Exception`: code that ignores every one of those would go on."""

    def __init__(self, block: _Block) -> None:
        super().__init__()
        self.block = block


_blocks: list[_Block] = []
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
    block, thread = _Block(), threading.main_thread()
    heard = hasattr(signal, "pthread_kill") and threading.current_thread() is thread
    watch = threading.Thread(
        target=_watch, args=(block, seconds, thread.ident if heard else None, error), daemon=True
    )
    try:
        with _listening(block) if heard else contextlib.nullcontext():
            watch.start()
            try:
                block.armed = True
                if heard and block.up:
                    raise _TimeUp(block)
                yield
            finally:
                block.armed = False
    except _TimeUp as raised:
        if raised.block is not block:
            raise
        raise error from None
    finally:
        block.over.set()


def _watch(block: _Block, seconds: float, thread: int | None, error: EngineError) -> None:
    """Interrupt a thread when its time is up, again and again: it may catch even that, or be deaf for a while."""
    if block.over.wait(seconds):
        return
    block.up = True
    for _ in range(round(_GRACE / _AGAIN)):
        if thread is not None:
            signal.pthread_kill(thread, signal.SIGALRM)
        if block.over.wait(_AGAIN):
            return
    for call in _stuck[-1:]:
        call(error)


@contextmanager
def _listening(block: _Block) -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, _stop)
    _blocks.append(block)
    try:
        yield
    finally:
        _blocks.remove(block)
        # A signal may still be on its way, and the default would end the process.
        if before is not signal.SIG_DFL:
            signal.signal(signal.SIGALRM, before)


_OWN = (__file__, contextlib.__file__)


def _stop(_: int, frame: FrameType | None) -> None:
    """Interrupt the outermost block whose time is up, but not while it is being entered or left."""
    if frame is not None and frame.f_code.co_filename in _OWN:
        return
    for block in _blocks:
        if block.up and block.armed:
            raise _TimeUp(block)
