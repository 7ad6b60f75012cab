"""Progress and answers on the terminal."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twinnet.result import Result, ResultSet

__all__ = ["answer", "command_line", "exit_code", "progress", "write_repro"]


def command_line() -> str:
    """The command as it was typed, fit to be pasted."""
    return shlex.join(["twinnet", *sys.argv[1:]])


@contextmanager
def progress(*, quiet: bool = False) -> Iterator[Callable[[str, float | None], None]]:
    """A progress line on stderr, only on a terminal, gone when the answer comes."""
    if quiet or not sys.stderr.isatty():
        yield lambda step, share: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def report(step: str, share: float | None) -> None:
            if share is None:
                bar.update(task, description=step, total=None)
            else:
                bar.update(task, description=step, total=1.0, completed=share)

        yield report


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
