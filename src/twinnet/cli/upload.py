"""`twinnet upload`: send to the dashboard what was run without it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from twinnet.cli._screen import say

__all__ = ["ServerUrl", "command", "needed_server"]

ServerUrl = Annotated[
    str | None, typer.Option("--server", metavar="URL", help="Dashboard (default: TWINNET_SERVER).")
]


def command(
    what: Annotated[
        list[Path],
        typer.Argument(
            metavar="BUNDLE", help="Bundles (.zip), report folders of suites, run folders of checks."
        ),
    ],
    to: ServerUrl = None,
) -> None:
    """Send bundles and run folders to the dashboard; sending one twice changes nothing.

    Example: twinnet upload runs/suite
    """
    from twinnet.errors import UsageError
    from twinnet.upload.folders import send_later

    server = needed_server(to)
    for path in what:
        if not path.exists():
            raise UsageError(f"there is no {path}")
        say(f"uploaded {path}   {send_later(server, path)}")


def needed_server(to: str | None):
    """The dashboard that is asked for, or the error that there is none."""
    from twinnet.errors import UsageError
    from twinnet.upload.client import server

    found = server(to)
    if found is None:
        raise UsageError(
            "no dashboard given",
            hint="export TWINNET_SERVER=http://localhost:8080, or --server URL; `twinnet serve` starts one",
        )
    return found
