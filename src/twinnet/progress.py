"""A progress line on the terminal or in a notebook, for everything that takes longer than a moment."""

from __future__ import annotations

import html
import logging
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["TRACES", "Report", "in_notebook", "progress", "quiet", "shown", "silent"]

TRACES = "torch.__trace"
"""The logger of torch.export, whose empty lines pytest would print by the hundred after a failed test."""

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
def shown(report: Report | None) -> Iterator[Report]:
    """The given report; without one a line in the notebook, if this runs in one, and else nothing."""
    if report is not None or not in_notebook():
        yield report or silent
        return
    line = _NotebookLine()
    try:
        yield line
    finally:
        line.clear()


def in_notebook() -> bool:
    """Whether this runs in a kernel that displays HTML."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


class _NotebookLine:
    """A line below the cell that says what is going on; it appears after a moment and disappears at the end."""

    _AFTER, _EVERY = 1.0, 0.2

    def __init__(self) -> None:
        self._start = self._last = time.monotonic()
        self._handle: Any = None

    def __call__(self, step: str, share: float | None) -> None:
        now = time.monotonic()
        if now - self._start < self._AFTER or (self._handle is not None and now - self._last < self._EVERY):
            return
        self._last = now
        value = "" if share is None else f' value="{min(max(share, 0.0), 1.0):.3f}"'
        self._show(
            f"<div><progress{value}></progress> twinnet: {html.escape(step)} "
            f'<span style="opacity: .65">{now - self._start:.0f} s</span></div>'
        )

    def clear(self) -> None:
        if self._handle is not None:
            self._show("")

    def _show(self, text: str) -> None:
        from IPython.display import HTML, display

        if self._handle is None:
            self._handle = display(HTML(text), display_id=True)
        else:
            self._handle.update(HTML(text))


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
