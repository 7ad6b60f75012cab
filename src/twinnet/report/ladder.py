"""A climb on the screen, as a page and as data."""

from __future__ import annotations

import dataclasses
import json
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import quote

from twinnet.files import atomic_write
from twinnet.report import figures
from twinnet.report.ladder_chart import chart_of_rungs
from twinnet.report.next_steps import has_seeds
from twinnet.result import Climb, Fault, Ladder, Rung

__all__ = ["HEAD", "cells", "conclusion", "dump_ladder", "head_line", "row_line", "write_ladder"]

HEAD = ("rung", "cut", "parameters", "verdict", "error/floor", "time", "memory", "new operators")
_WIDTHS = (28, 6, 11, 7, 11, 8, 8, 0)
_RIGHT = (2, 4, 5, 6)


def cells(rung: Rung) -> tuple[str, ...]:
    """One row of the table.

    >>> cells(Rung("f.1", "prefix", "Conv2d", 1448, ("relu",), "PASS", ratio=0.5, seconds=1.25, memory=3 * 10**8))
    ('f.1', 'prefix', '1\\xa0448', 'PASS', '0.5\\xa0x', '1.2 s', '300 MB', 'relu')
    """
    return (
        figures.clean(rung.name),
        rung.cut,
        figures.grouped(rung.parameters),
        f"{rung.verdict}{'*' if rung.weak else ''}",
        "" if rung.ratio is None else figures.times(rung.ratio),
        f"{rung.seconds:.1f} s",
        f"{rung.memory / 1e6:.0f} MB" if rung.memory else "",
        ", ".join(figures.clean(op) for op in rung.ops),
    )


def head_line() -> str:
    """The head of the table, as text."""
    return _line(HEAD)


def row_line(rung: Rung) -> str:
    """A row of the table, as text."""
    return _line(cells(rung))


def _line(texts: tuple[str, ...]) -> str:
    made = []
    for i, (text, width) in enumerate(zip(texts, _WIDTHS, strict=True)):
        if i == 0 and len(text) > width:
            text = f"{text[: width // 3]}...{text[-(width - width // 3 - 3) :]}"
        made.append(text.rjust(width) if i in _RIGHT else text.ljust(width))
    return "  ".join(made).rstrip().replace(figures.NBSP, " ")


def conclusion(climb: Climb) -> list[tuple[str, str]]:
    """What was found, as labelled sentences."""
    checked, places = len(climb.rungs), len(climb.order)
    if climb.bad is None:
        weak = any(r.weak for r in climb.rungs)
        rows = [("PASS", f"{climb.twin} climbs to the top: {figures.count(places, 'rung')}, none breaks")]
        return (
            [*rows, ("note", "* the data could hardly have shown a fault: see the run's report")]
            if weak
            else rows
        )
    bad, smallest = climb.bad, climb.smallest
    what = "breaks" if bad.verdict == "FAIL" else "cannot run"
    rows = [(bad.verdict, f"{climb.twin} {what} at {figures.clean(bad.name)} ({figures.clean(bad.kind)})")]
    if smallest is None:
        rows.append(
            ("alone", f"{figures.clean(bad.name)} alone does not break: only together with what is before it")
        )
    elif smallest.name != bad.name:
        rows.append(
            ("smallest", f"{figures.clean(smallest.name)} ({figures.clean(smallest.kind)}) breaks by itself")
        )
    shown = smallest or bad
    if shown.where:
        rows.append(("born in", figures.clean(shown.where)))
    if shown.cause:
        rows.append(("cause", figures.clean(shown.cause)))
    if shown.error:
        rows.append(("reason", figures.clean(shown.error.splitlines()[0])))
    if climb.fault is not None:
        rows.append(("fault in", _fault_words(climb.fault)))
    share = f"{figures.count(checked, 'check')} instead of {places}" if checked < places else ""
    if share:
        rows.append(("cost", share))
    if shown.folder:
        run = shlex.quote(figures.clean(shown.folder))
        rows.append(
            ("next", f"twinnet repro {run}" if has_seeds(shown.folder) else f"twinnet show {run} --open")
        )
    return rows


def _fault_words(fault: Fault) -> str:
    return f"{fault.kind}: {figures.clean(fault.sentence)}"


def dump_ladder(ladder: Ladder) -> str:
    """The text of ladder.json."""
    data = {**dataclasses.asdict(ladder), "verdict": ladder.verdict}
    for climb, made in zip(ladder.climbs, data["climbs"], strict=True):
        made["verdict"] = climb.verdict
    return json.dumps(data, indent=1)


def write_ladder(ladder: Ladder, folder: Path) -> None:
    """Write report.html and, last, ladder.json."""
    from twinnet.report.html import FILE_NAME, render_page

    page = render_page("ladder.html.j2", **_context(ladder, folder))
    atomic_write(folder / FILE_NAME, page.encode("utf-8", "replace"))
    atomic_write(folder / "ladder.json", dump_ladder(ladder).encode())


def _context(ladder: Ladder, folder: Path) -> dict[str, Any]:
    climbs = []
    for climb in ladder.climbs:
        rows = [{"cells": cells(r), "link": _link(r, folder), "bad": r is climb.culprit} for r in climb.rungs]
        climbs.append(
            {
                "twin": figures.clean(climb.twin),
                "verdict": climb.verdict,
                "said": conclusion(climb),
                "rows": rows,
                "chart": chart_of_rungs(climb),
            }
        )
    return {
        "network": figures.clean(ladder.network),
        "format": figures.clean(ladder.format),
        "parameters": figures.grouped(ladder.parameters),
        "inputs": figures.clean(ladder.inputs),
        "verdict": ladder.verdict,
        "climbs": climbs,
        "head": HEAD,
        "command": figures.clean(ladder.command),
    }


def _link(rung: Rung, folder: Path) -> str:
    if not rung.folder:
        return ""
    own, page = Path(rung.folder).absolute() / "report.html", folder.absolute()
    return quote(own.relative_to(page).as_posix()) if own.is_relative_to(page) else ""
