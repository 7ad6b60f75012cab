"""`twinnet show`: look at a run."""

from __future__ import annotations

from typing import Annotated

import typer

from twinnet.cli import options as o
from twinnet.cli._screen import draws_blocks, say

__all__ = ["command"]


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Run folder of a check.")],
    site: Annotated[
        str | None, typer.Argument(metavar="SITE", help="Tensor, module path, or part of one.")
    ] = None,
    browser: Annotated[bool, typer.Option("--open", help="Open report.html in the browser.")] = False,
    ascii_only: Annotated[
        bool, typer.Option("--ascii", help="Draw with plain ASCII characters, as when there is no terminal.")
    ] = False,
    unmatched: Annotated[bool, typer.Option("--unmatched", help="List sites without a partner.")] = False,
    verbose: o.Verbose = False,
) -> None:
    """Print the result of a run again, or draw the difference at one site."""
    from twinnet.report.show import draw_site, open_report
    from twinnet.result import Result

    if browser:
        say(open_report(run))
    elif site is None:
        o.Answer(verbose=verbose).give(Result.load(run), unmatched=unmatched)
    else:
        # Block characters are for eyes; a file or a pipe may be read anywhere.
        say(draw_site(run, site, ascii_only=ascii_only or not draws_blocks()))
