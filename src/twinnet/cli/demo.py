"""`twinnet demo`: the whole idea in one minute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
    typer.echo(text)
    raise typer.Exit(code)
