"""How the command ends when something goes wrong: what is said, and the exit code."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import sys
import traceback
from pathlib import Path

from twinnet.errors import TwinnetError, machine_error
from twinnet.extras import missing_extra
from twinnet.report.quoting import screen

__all__ = ["BUG", "bug_report", "end", "end_now"]

BUG = 4
"""The exit code of a bug in twinnet: neither a verdict nor a fault of the user's."""

_SECRET = re.compile(
    r"(?i)((?:token|secret|password|passwd|api[-_]?key|authorization)[\w-]*[\"']?(?:\s*[=:]\s*|\s+))[^\s\"'&,]+"
    r"|(://)[^/\s@]+@"
)


def end(error: BaseException) -> int:
    """Say on stderr what ended the command, and return the exit code."""
    if isinstance(error, OSError | MemoryError):
        error = machine_error(error)
    elif isinstance(error, ImportError):
        error = missing_extra(error) or error
    if isinstance(error, TwinnetError):
        _say(f"twinnet: {error}")
        return error.exit_code
    if isinstance(error, KeyboardInterrupt):
        _say("twinnet: stopped")
        return 130
    _say(bug_report(error))
    return BUG


def end_now(error: TwinnetError) -> None:
    """End the process from any thread, without waiting for what does not return."""
    end(error)
    os._exit(error.exit_code)


def bug_report(error: BaseException) -> str:
    """What to send about a bug: the trace, versions and the command, without passwords and the home folder's name.

    >>> print(bug_report(ValueError("token=abc"))[:55])
    twinnet: this is a bug in twinnet: ValueError: token=**
    """
    from twinnet.environment import environment

    try:
        versions = environment()
    except Exception as second:
        versions = {"environment": repr(second)}
    words = " ".join(("twinnet", *sys.argv[1:]))
    lines = [
        f"twinnet: this is a bug in twinnet: {''.join(traceback.format_exception_only(error)).strip()}",
        "  please report it, with the following",
        "",
        f"command  {words}",
        f"machine  {platform.platform()}, Python {platform.python_version()}",
        "versions " + ", ".join(f"{name} {value}" for name, value in versions.items()),
        *"".join(traceback.format_exception(error)).rstrip().splitlines(),
    ]
    text = _SECRET.sub(lambda found: f"{found[1] or found[2]}***", "\n".join(lines))
    home = str(Path.home())
    return text.replace(home, "~") if len(home) > 1 else text


def _say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # nobody listens, or stderr is full too
        sys.stderr.write(f"{screen(text)}\n".encode("utf-8", "replace").decode())
        sys.stderr.flush()
