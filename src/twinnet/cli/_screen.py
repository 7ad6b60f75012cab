"""Helpers of verbs that print a result."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from twinnet.result import Result, ResultSet

__all__ = [
    "command_line",
    "console",
    "draws_blocks",
    "say",
    "upload_run",
    "write_repro",
    "written_if_refused",
]


def say(text: object, *, err: bool = False) -> None:
    """Print text of any origin; verbs print with nothing else. Names in it cannot control the terminal."""
    import typer

    from twinnet.report.quoting import screen

    typer.echo(screen(text), err=err)


def console() -> Console:
    """Where results are printed: with colours only on a terminal that wants them."""
    import os

    from rich.console import Console

    plain = bool(os.environ.get("NO_COLOR"))
    return Console(highlight=False, soft_wrap=False, force_terminal=False if plain else None)


def draws_blocks() -> bool:
    """Whether standard output is a terminal that shows more than plain characters."""
    import os

    locale = next((v for n in ("LC_ALL", "LC_CTYPE", "LANG") if (v := os.environ.get(n))), "")
    plain = locale in ("C", "POSIX") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not plain and (sys.stdout.encoding or "").lower().startswith("utf")


def command_line() -> tuple[str, ...]:
    """The command line as typed, as a list of words."""
    return ("twinnet", *sys.argv[1:])


def write_repro(result: Result | ResultSet, *, silent: bool) -> None:
    """Write the repro of a result that did not pass into its run folder; print why if it cannot be made."""
    from twinnet.errors import UsageError
    from twinnet.progress import progress
    from twinnet.shrink import repro

    try:
        with progress(quiet=silent) as report:
            made = str(repro(result, progress=report))
    except UsageError as error:
        made = f"repro    {error}"
    if not silent:
        say(f"\n{made}")


def upload_run(folder: str | Path, *, silent: bool, profile: bool = False) -> None:
    """Send a run folder to the dashboard of TWINNET_SERVER, if there is one; that it is away is only mentioned."""
    from functools import partial

    from twinnet.upload import offer_run

    offer_run(folder, profile=profile, tell=None if silent else partial(say, err=True))


@contextmanager
def written_if_refused(network: str, twin: str, out: Path | None) -> Iterator[None]:
    """Leave a run folder where one was asked for, even if the command is refused."""
    from twinnet.errors import UsageError

    try:
        yield
    except UsageError as error:
        if out is not None:
            from twinnet.report.wrong_usage import write_refused

            write_refused(error, network, twin, out, command_line())
        raise
