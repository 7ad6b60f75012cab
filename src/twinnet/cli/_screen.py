"""Answers on the terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twinnet.result import Result, ResultSet

__all__ = ["answer", "command_line", "exit_code", "write_repro"]


def command_line() -> tuple[str, ...]:
    """The command as it was typed, word by word."""
    return ("twinnet", *sys.argv[1:])


def answer(
    result: Result | ResultSet, *, quiet: bool, verbose: bool, as_json: bool, unmatched: bool = False
) -> None:
    """Print the answer in the form that was asked for."""
    import typer

    if as_json:
        from twinnet.report.json_file import dump_result

        typer.echo(dump_result(result))
        return
    if quiet:
        typer.echo(result.verdict)
        return
    from rich.console import Console

    from twinnet.report.terminal import print_result, render_unmatched

    console = Console(highlight=False, soft_wrap=False)
    print_result(result, console, verbose)
    if unmatched:
        typer.echo(render_unmatched(result))


def write_repro(result: Result | ResultSet, *, silent: bool) -> None:
    """The repro of a result that did not pass, in its run folder; what cannot be made is said, not raised."""
    import typer

    from twinnet.errors import UsageError
    from twinnet.progress import progress
    from twinnet.shrink import repro

    try:
        with progress(quiet=silent) as report:
            made = str(repro(result, progress=report))
    except UsageError as error:
        made = f"repro    {error}"
    if not silent:
        typer.echo(f"\n{made}")


def exit_code(result: Any, *, strict: bool = False) -> int:
    """The exit code of a result; --strict turns weak evidence into failure."""
    from twinnet.result import ResultSet

    parts = result.results if isinstance(result, ResultSet) else (result,)
    if strict and result.exit_code == 0 and any(r.evidence == "weak" for r in parts):
        return 1
    return result.exit_code
