"""The errors a person meets, and the exit codes they stand for.

Two kinds only. A `UsageError` means the call or a file handed in is wrong (exit 2). An `EngineError` means that
everything was understood but a side could not be converted, compiled or run (exit 3, verdict ERROR), or the machine
could not do it: a full disk, too little memory (`machine_error`). Anything else that escapes is a bug in twinnet:
exit 4, with the report to send.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal

__all__ = [
    "Accident",
    "EngineError",
    "MissingExtra",
    "TwinnetError",
    "UsageError",
    "failed",
    "foreign",
    "foreign_as",
    "guarded",
    "machine_error",
    "undoing",
]

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
"""Colour codes that a library adds to its messages for a terminal."""


class TwinnetError(Exception):
    """Base of all errors that are addressed to a person: `what` went wrong and, if known, what to do about it.

    >>> str(UsageError("no such file: net.onnx", hint="check the path"))
    'no such file: net.onnx\\n  check the path'
    """

    exit_code = 2

    def __init__(self, what: str, *, hint: str | None = None) -> None:
        super().__init__(what if hint is None else f"{what}\n  {hint}")
        self.what = what
        self.hint = hint


class UsageError(TwinnetError):
    """Wrong usage, or a network, twin or input file that cannot be read."""

    exit_code = 2


class MissingExtra(UsageError):
    """An optional dependency is not installed; the message names the extra that brings it."""

    def __init__(self, what: str, extra: str) -> None:
        hint = f"pip install 'twinnet[{extra}]'"
        if extra == "torch":  # one step for those who will need more in a moment
            hint += "   (twinnet[onnx] adds ONNX Runtime, twinnet[train] training, twinnet[all] everything)"
        super().__init__(f"{what} is not installed", hint=hint)
        self.extra = extra


Accident = Literal["", "time", "memory", "killed", "connection", "machine"]
"""What stopped a step, if it need not stop it again: a time limit, too little memory, a signal that ended a program,
a lost connection, another refusal of the operating system. Empty for anything that would come again."""


class EngineError(TwinnetError):
    """A side parsed, but could not be converted, compiled or run: verdict ERROR, never FAIL."""

    exit_code = 3

    def __init__(
        self,
        what: str,
        *,
        stage: str = "run",
        log: str = "",
        hint: str | None = None,
        accident: Accident = "",
    ) -> None:
        super().__init__(what, hint=hint)
        self.stage = stage
        self.log = log
        self.accident: Accident = accident

    def hinting(self, hint: str) -> EngineError:
        """The same error with another hint."""
        return EngineError(self.what, stage=self.stage, log=self.log, hint=hint, accident=self.accident)


_WRONG_PATH = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP)
_HINTS = {
    errno.ENOSPC: "free some disk space, or choose another folder",
    errno.EDQUOT: "free some disk space, or choose another folder",
    errno.EFBIG: "raise the limit on the size of files, or choose another folder",
    errno.EROFS: "choose another folder",
    errno.EACCES: "check its permissions, or choose another folder",
    errno.EPERM: "check its permissions, or choose another folder",
}


def machine_error(
    error: OSError | MemoryError,
    path: str | os.PathLike[str] | None = None,
    *,
    doing: str = "use",
    hint: str | None = None,
) -> TwinnetError:
    """What the operating system refused, as an error for a person. A path that cannot be right is a `UsageError`.

    >>> machine_error(OSError(errno.ENOSPC, "No space left on device"), "runs/a", doing="write").what
    'cannot write runs/a: No space left on device'
    """
    if isinstance(error, MemoryError):
        what, hint = "there is not enough memory", "use smaller inputs"
        return EngineError(what, stage="memory", hint=hint, accident="memory")
    name = path if path is not None else error.filename
    what = f"cannot {doing} {os.fspath(name)}: " if isinstance(name, (str, os.PathLike)) else ""
    what += error.strerror or str(error) or type(error).__name__
    if error.errno in _WRONG_PATH:
        return UsageError(what, hint=hint or "choose another path")
    return EngineError(what, stage=doing, hint=hint or _HINTS.get(error.errno or 0), accident="machine")


@contextmanager
def foreign_as(become: Callable[[BaseException], TwinnetError]) -> Iterator[None]:
    """Turn whatever foreign code raises inside, even SystemExit, into the error that `become` returns.

    Foreign code is a user's function, an engine, a converter.

    This is the only place where an unnamed exception is caught. Keep the block to the foreign call itself: an
    AttributeError of ours is a bug, and must not come out as somebody else's.

    >>> with foreign_as(lambda error: UsageError(f"not a number: {error}")):
    ...     float("x")
    Traceback (most recent call last):
    ...
    twinnet.errors.UsageError: not a number: could not convert string to float: 'x'
    """
    try:
        yield
    except TwinnetError:
        raise
    except (Exception, SystemExit) as error:
        raise become(error) from error


def foreign(stage: str, engine: str) -> AbstractContextManager[None]:
    """Turn whatever an engine raises inside into an `EngineError` with the engine's own message.

    >>> with foreign("load the network", "toy"):
    ...     raise KeyError("weights")
    Traceback (most recent call last):
    ...
    twinnet.errors.EngineError: toy could not load the network: 'weights'
    """
    return foreign_as(lambda error: failed(stage, engine, error))


@contextmanager
def undoing(undo: Callable[[], object]) -> Iterator[None]:
    """Call `undo` if the block does not reach its end, whatever stops it, Ctrl-C included: half a session is closed.

    >>> from contextlib import suppress
    >>> with suppress(KeyError), undoing(lambda: print("closed")):
    ...     raise KeyError("weights")
    closed
    """
    try:
        yield
    except BaseException:
        undo()
        raise


def guarded(function: Callable[..., Any], stage: str, engine: str) -> Callable[..., Any]:
    """Wrap a function of an engine, or a user's module, so that every call is `foreign`."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with foreign(stage, engine):
            return function(*args, **kwargs)

    return call


def failed(stage: str, engine: str, error: BaseException, *, hint: str | None = None) -> EngineError:
    """Turn an engine's own exception into an `EngineError`, with the end of its message as the log."""
    while error.__cause__ is not None:  # the first exception says what went wrong, later ones only where
        error = error.__cause__
    text = _COLOURS.sub("", str(error)).strip() or type(error).__name__
    first = next((line for line in text.splitlines() if line.strip()), text)
    what = f"{engine} could not {stage}: {first[:400]}"
    accident: Accident = "memory" if isinstance(error, MemoryError) else ""
    return EngineError(what, stage=stage, log=text[-4000:], hint=hint, accident=accident)
