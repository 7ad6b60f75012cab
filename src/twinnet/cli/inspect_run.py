"""`twinnet inspect-run`: what is in a recording."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from twinnet.cli._screen import say

__all__ = ["command"]


def command(
    recording: Annotated[
        Path, typer.Argument(metavar="DIR", help="A run, a recording, a folder with an ETDump, or an ETDump.")
    ],
    buffer: Annotated[
        Path | None, typer.Option("--buffer", metavar="FILE", help="The debug buffer of an ETDump.")
    ] = None,
    etrecord: Annotated[
        Path | None, typer.Option("--etrecord", metavar="FILE", help="The ETRecord of the program that ran.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Also write it as an HTML page.")
    ] = None,
) -> None:
    """List the events of a recording: operators, modules, source lines, times and tensors."""
    from twinnet.inspector import Inspector

    dump = recording if recording.is_file() else None
    folder = None if dump else recording
    found = Inspector(folder, etdump_path=dump, buffer_path=buffer, etrecord=etrecord)
    say(found.table())
    if html is not None:
        found.to_html(html)
        say(f"\npage     {html}")
