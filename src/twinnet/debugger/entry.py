"""Entry points for programs: stop here and serve."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from twinnet.debugger.console import Console
from twinnet.debugger.desk import Desk
from twinnet.debugger.ranks import only_first
from twinnet.debugger.server import Server
from twinnet.debugger.settings import Settings
from twinnet.debugger.start import stop_with
from twinnet.debugger.stopped import Stopped

__all__ = ["serve", "serve_stopped", "set_trace"]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def set_trace(**names: Any) -> None:
    """Stop the program at this line and serve it over HTTP until a client sends `quit`.

    With `network`, `twin` and `inputs` both sides are run first, with full traces; with `trace` and `twin_trace` (or
    `model_dbg` and `lut_dbg`) these are compared. Any other name is available besides the caller's variables. The
    port is the first free one from 8765, or that of the environment variable TWINNET_DEBUG_PORT.
    """
    serve(names, frame=sys._getframe(1), settings=Settings.from_environment())


def serve(
    names: Mapping[str, Any],
    *,
    frame: FrameType | None = None,
    settings: Settings | None = None,
) -> None:
    """Serve `names` (see `set_trace`) until a client sends `quit`. With several processes, the first one serves."""
    chosen = settings or Settings.from_environment()
    chosen.check()
    with only_first() as first:
        if first:
            serve_stopped(stop_with(names, chosen.folder), chosen, frame=frame, names=names)


def serve_stopped(
    stopped: Stopped,
    settings: Settings,
    *,
    frame: FrameType | None = None,
    names: Mapping[str, Any] | None = None,
    say: Callable[[str], None] = _say,
) -> None:
    """Serve two stopped sides, and release them at the end."""
    console = Console(stopped, frame, names, read_only=settings.read_only)
    desk = Desk(console.ask, settings.time_limit)
    try:
        server = Server(settings, desk)
        info = settings.info or settings.folder / f"debugger-{server.server_port}.env"
        server.hint = f"the token is in {info.resolve()}: read it with   . {shlex.quote(str(info.resolve()))}"
        server.start()
        try:
            _write_info(info, server)
            say(_banner(server, info, settings))
            desk.work()
        finally:
            info.unlink(missing_ok=True)
            server.close()
    finally:
        stopped.close()
    say("debugger ended; the program continues")


def _banner(server: Server, info: Path, settings: Settings) -> str:
    example = "worst(5)" if settings.read_only else "help"
    lines = [
        f"debugger {server.url}{'   (read-only)' if settings.read_only else ''}",
        f"shell    {server.curl(server.keeper.token, example)}",
        f"page     {server.url}/?token={server.keeper.ticket()}   (opens once; `link` gives another)",
        f"attach   twinnet attach {shlex.quote(str(info))}",
        f"written  {info}",
    ]
    return "\n".join(lines)


def _write_info(path: Path, server: Server) -> None:
    """Write address and token for a shell to read; only the owner can read the file."""
    place = server.settings
    lines = [
        "# twinnet debugger: source this file, then paste the line below",
        f"URL={shlex.quote(server.url)}",
        f"HOST={shlex.quote(place.host)}",
        f"PORT={server.server_port}",
        f"T={server.keeper.token}",
        f"# {server.curl('$T', 'help')}",
        f"# {server.curl(server.keeper.token, 'help')}",
        f"# started {time.strftime('%Y-%m-%d %H:%M:%S')} by process {os.getpid()}",
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write("\n".join(lines) + "\n")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
