"""`twinnet attach`: a prompt for a debugger that runs elsewhere."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["command"]


def command(
    url: Annotated[
        str, typer.Argument(metavar="URL|FILE", help="Address of the debugger, or the file it wrote.")
    ],
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            metavar="TOKEN",
            envvar="TWINNET_TOKEN",
            help="Its token (default: read from the file, or asked for).",
        ),
    ] = None,
    execute: Annotated[
        list[str] | None,
        typer.Option(
            "--execute", "-e", metavar="COMMAND", help="Run this command and exit; may be repeated."
        ),
    ] = None,
    ca: Annotated[
        str | None,
        typer.Option("--ca", metavar="FILE.pem", help="Certificate to trust, if it is self-signed."),
    ] = None,
) -> None:
    """Open a prompt for a running debugger, with history and completion of commands and site names.

    Example: twinnet attach http://127.0.0.1:8765
    """
    from twinnet.debugger.attach import attach

    raise typer.Exit(attach(url, token, tuple(execute or ()), ca))
