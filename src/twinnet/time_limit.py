"""Time limits of steps; stop what takes too long in this process."""

from __future__ import annotations

import contextlib
import ctypes
import inspect
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import FrameType

from twinnet.errors import EngineError, UsageError
from twinnet.steps import STEPS, step_of

__all__ = ["TimeLimits", "limited", "time_up", "when_stuck"]

_LATE = 0.5
"""Seconds past its limit at which a block is interrupted. A program that it waits for has the same limit and ends
first: an interruption at that moment could arrive when the block has been left."""
_GRACE = 10.0
_AGAIN = 1.0


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Seconds for each step of an engine, and for single steps by name; None and what is absent is not limited.

    >>> limits = TimeLimits.of("60,compile=600")
    >>> limits.at("compile the network"), limits.at("run"), TimeLimits().at("run")
    (600.0, 60.0, None)
    >>> str(limits.over(TimeLimits.of({"run": 5})))
    '60,run=5,compile=600'
    """

    each: float | None = None
    steps: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.steps:
            if name not in STEPS:
                raise UsageError(f"{name!r} is not a step that can have a time limit", hint=", ".join(STEPS))
        for seconds in (self.each, *self.steps.values()):
            if seconds is not None and not 0 <= seconds < math.inf:
                raise UsageError(f"{seconds:g} s is not a time limit", hint="a number of seconds")

    @staticmethod
    def of(stated: TimeLimits | Mapping[str, float] | float | str | None) -> TimeLimits:
        """Limits as people state them: seconds, seconds by step (`each` for the others), or `SECONDS,STEP=SECONDS`."""
        if isinstance(stated, TimeLimits):
            return stated
        if isinstance(stated, str):
            return _read(stated)
        if isinstance(stated, Mapping):
            steps = {name.strip(): float(seconds) for name, seconds in stated.items() if name != "each"}
            return TimeLimits(stated.get("each"), steps)
        return TimeLimits(stated)

    @property
    def stated(self) -> dict[str, float]:
        """The same as plain data, as `of` takes it."""
        return {**({} if self.each is None else {"each": self.each}), **self.steps}

    def __bool__(self) -> bool:
        return self.each is not None or bool(self.steps)

    def __str__(self) -> str:
        words = [] if self.each is None else [f"{self.each:g}"]
        return ",".join(words + [f"{name}={seconds:g}" for name, seconds in self.steps.items()])

    def at(self, stage: str, *, ours: bool = False) -> float | None:
        """The limit of an engine's stage. What twinnet does itself (`ours`) has one only if its step is named."""
        return self.steps.get(step_of(stage), None if ours else self.each)

    def over(self, before: TimeLimits) -> TimeLimits:
        """These limits, and others where nothing is stated."""
        each = before.each if self.each is None else self.each
        return TimeLimits(each, {**before.steps, **self.steps})

    def at_most(self, seconds: float) -> TimeLimits:
        """These limits, none longer than that."""
        return replace(
            self,
            each=seconds if self.each is None else min(self.each, seconds),
            steps={name: min(limit, seconds) for name, limit in self.steps.items()},
        )


def _read(text: str) -> TimeLimits:
    found: dict[str, float] = {}
    for word in text.split(","):
        name, _, number = word.rpartition("=")
        try:
            seconds = float(number)
        except ValueError:
            hint = f"SECONDS, or STEP=SECONDS with a step of {', '.join(STEPS)}; several with commas"
            raise UsageError(f"{word.strip()!r} is not a time limit", hint=hint) from None
        if (name.strip() or "each") in found:
            raise UsageError(f"{text!r} states a time limit twice")
        found[name.strip() or "each"] = seconds
    return TimeLimits.of(found)


def time_up(what: str, stage: str, log: str = "") -> EngineError:
    """The error of a step that took longer than its limit."""
    hint = f"give it more time (--time-limit {step_of(stage)}=SECONDS)"
    return EngineError(what, stage=stage, log=log, hint=hint, accident="time")


class _Block:
    """A block with a limit. It is interrupted once its time is up, while it is armed."""

    def __init__(self, owner: FrameType | None) -> None:
        self.armed = False
        self.over = threading.Event()
        self._owner = owner

    def runs_in(self, frame: FrameType) -> bool:
        """Whether a thread that is there is still inside the function that entered the block.

        An exception may leave that function without the end of the block: as long as somebody holds its traceback.
        """
        inner: FrameType | None = frame
        while inner is not None and inner is not self._owner:
            inner = inner.f_back
        return inner is not None


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
      give it more time (--time-limit compare=SECONDS)
    """
    if seconds is None:
        yield
        return
    error = time_up(f"{what} exceeded the time limit of {seconds:g} s", what)
    if seconds <= 0:
        raise error
    started = time.monotonic()
    block = _Block(_owner(sys._getframe()))
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
    if time.monotonic() - started > seconds:
        raise error


def _watch(block: _Block, seconds: float, thread: int, error: EngineError) -> None:
    """Interrupt a thread when its time is up, again and again: it may catch even that, or be deaf for a while."""
    if block.over.wait(seconds + _LATE):
        return
    for _ in range(round(_GRACE / _AGAIN)):
        frame = sys._current_frames().get(thread)
        if frame is None or not block.runs_in(frame):
            return
        _interrupt(block, thread, frame)
        if block.over.wait(_AGAIN):
            return
    for call in _stuck[-1:]:
        call(error)


def _interrupt(block: _Block, thread: int, frame: FrameType) -> None:
    """Raise in a thread, but not while the block is being entered or left.

    No signal is sent: engines set up a stack for signals that does not always outlive them.
    """
    if block.armed and frame.f_code.co_filename not in _OWN:
        kind = type("_TimeUp", (_TimeUp,), {"block": block})
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind))


_OWN = (__file__, contextlib.__file__)


def _owner(frame: FrameType | None) -> FrameType | None:
    """The function that enters a block, also by way of context managers: it runs as long as the block."""
    while frame is not None and (
        frame.f_code.co_filename in _OWN or frame.f_code.co_flags & inspect.CO_GENERATOR
    ):
        frame = frame.f_back
    return frame
