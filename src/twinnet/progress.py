"""A progress line on the terminal, for everything that takes longer than a moment."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Report", "progress", "quiet", "silent"]

Report = Callable[[str, float | None], None]
"""Called with the current step and the share of it that is done, None if unknown."""


def silent(step: str, share: float | None) -> None:
    """Report nothing."""


@contextmanager
def progress(*, quiet: bool = False) -> Iterator[Report]:
    """A progress line on stderr, only on a terminal; it disappears at the end.

    >>> with progress(quiet=True) as report:
    ...     report("tables", 0.5)
    """
    if quiet or not sys.stderr.isatty():
        yield silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
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


@contextmanager
def quiet(*loggers: str) -> Iterator[None]:
    """Keep warnings and the messages of these loggers off the screen; what matters comes as an exception."""
    found = [logging.getLogger(name) for name in loggers]
    levels = [logger.level for logger in found]
    for logger in found:
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(found, levels, strict=True):
            logger.setLevel(level)
