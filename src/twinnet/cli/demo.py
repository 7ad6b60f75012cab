"""`twinnet demo`: the whole idea in one minute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from twinnet.cli._screen import say

__all__ = ["command"]


def command(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Where to write the runs.")] = Path(
        "runs/demo"
    ),
) -> None:
    """Check a small network against its twins, then find a fault planted in one."""
    from twinnet.demo import run_demo
    from twinnet.progress import progress

    with progress() as report:
        text, code = run_demo(out, report)
    say(text)
    raise typer.Exit(code)
