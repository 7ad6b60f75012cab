"""`twinnet repro`: the smallest file that shows what a run found."""

from __future__ import annotations

from typing import Annotated

import typer

from twinnet.cli import options as o
from twinnet.cli._screen import say

__all__ = ["command"]


def command(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="Run folder of a check that failed or could not run.")
    ],
    out: Annotated[
        str | None, typer.Option("--out", "-o", metavar="DIR", help="Folder to write (default: RUN/repro).")
    ] = None,
    finding: Annotated[
        int, typer.Option("--finding", metavar="N", help="Which of the kept findings, counted from 1.")
    ] = 1,
    confidential: Annotated[
        bool,
        typer.Option(
            "--confidential", help="Random weights and data, no names, as far as the fault still shows."
        ),
    ] = False,
    trust: o.Trust = False,
    quiet: o.Quiet = False,
    as_json: o.Json = False,
) -> None:
    """Write the smallest network and input that still show a finding, and one file that runs them.

    The folder holds repro.py (exit code 1 while the fault exists, 0 when it is gone, 3 if a side cannot run; it
    needs neither twinnet nor your code), the network, the input, and ISSUE.md to paste into an issue.

    Example: twinnet repro runs/detector-onnxruntime -o repro
    """
    from twinnet.progress import progress
    from twinnet.shrink import repro

    with progress(quiet=quiet or as_json) as report:
        made = repro(run, out, confidential=confidential, finding=finding - 1, trust=trust, progress=report)
    say(made.to_json() if as_json else str(made.folder) if quiet else str(made))
    raise typer.Exit(0 if made.confirmed else 3)
