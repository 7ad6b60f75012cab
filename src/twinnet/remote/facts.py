"""What a board has: its interpreter, and the packages that runners need."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from twinnet.errors import EngineError
from twinnet.files import parse_json
from twinnet.remote.board import Board

__all__ = ["Facts", "facts", "require"]

_ASK = """
import json, sys
try:
    from importlib import metadata
except ImportError:
    metadata = None
found = {}
for name in sys.argv[1:] if metadata else ():
    try:
        found[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
print("twinnet-facts " + json.dumps({"python": sys.version.split()[0], "packages": found}))
"""


@dataclass(frozen=True, slots=True)
class Facts:
    """A board: its processor, the version of its Python (empty: it has none) and of packages that are installed."""

    machine: str
    python: str = ""
    packages: dict[str, str] = field(default_factory=dict)


def facts(board: Board, packages: Sequence[str]) -> Facts:
    """Ask a board what it has; it need not be ours for that."""
    python = shlex.quote(board.address.python)
    words = " ".join(shlex.quote(w) for w in ("-c", _ASK, *packages))
    script = f"command -v {python} >/dev/null || exit 44\nexec {python} {words} </dev/null\n"
    code, out, log = board.connection.call(["sh", "-s"], "answer", source=script.encode())
    told = [line.partition(" ")[2] for line in out.splitlines() if line.startswith("twinnet-facts ")]
    if code == 44:
        return Facts(board.home.machine)
    if code or not told:
        said = (log.strip() or f"exit code {code}").splitlines()[-1][:300]
        raise EngineError(
            f"{board.address.python} on {board.name} does not work: {said}", stage="connect", log=log
        )
    try:
        read = parse_json(told[-1])
        found = {str(k): str(v)[:60] for k, v in dict(read["packages"]).items()}
        return Facts(board.home.machine, str(read["python"])[:40], found)
    except (ValueError, TypeError, KeyError):
        raise EngineError(f"{board.name} answered {told[-1][:200]!r}", stage="connect") from None


def require(board: Board, packages: Sequence[str]) -> Facts:
    """An error that says what to install, if a board lacks Python or one of these packages."""
    found = facts(board, packages)
    python, login = board.address.python, board.address.login
    if not found.python:
        raise EngineError(
            f"{board.name} has no {python}",
            stage="connect",
            hint=f"install it (ssh {login} apt-get install python3 python3-pip), or name another one: "
            "ssh://host?python=PATH",
        )
    lacks = [name for name in packages if name not in found.packages]
    if lacks:
        raise EngineError(
            f"{board.name} lacks {' and '.join(lacks)} for {python} ({found.python} on {found.machine})",
            stage="connect",
            hint=f"install it there: ssh {login} {shlex.quote(python)} -m pip install {' '.join(lacks)}",
        )
    return found
