"""Words for a network that was followed through its stages; screen, page and summary say the same."""

from __future__ import annotations

import shlex

from twinnet.report import figures, next_steps, words
from twinnet.result import Stage, StagedResult, Step

__all__ = ["HEAD", "cells", "next_command", "reasons", "sides_words", "table", "verdict_words"]

HEAD = ("stage", "verdict", "against the stage before", "against the network")
"""Columns of the table of stages."""


def cells(stage: Stage) -> tuple[str, str, str, str]:
    """One row of the table.

    >>> cells(Stage("onnx", before=Step("exported", "FAIL", 0.5, 9400.0), network=Step("eager", "PASS", 0.0, 0.0)))[1:3]
    ('FAIL', '9\\xa0400\\xa0x\\xa0the noise floor')
    """
    name = figures.clean(stage.name)
    if stage.state == "start":
        return name, "start", "", ""
    if stage.state == "skipped":
        return name, "-", f"({figures.clean(stage.reason)})", ""
    if stage.before is None or stage.before.verdict == "ERROR":
        return name, "ERROR", "could not run", ""
    return name, stage.before.verdict, _figures(stage.before), _against(stage)


def _against(stage: Stage) -> str:
    step = stage.network
    if step is None:
        return ""
    if step.verdict == "ERROR":
        return "ERROR"
    return f"{step.verdict}, {_figures(step)}"


def _figures(step: Step) -> str:
    """The error of a step in floor units where these are known."""
    if not step.error and not step.ratio and step.verdict == "PASS":
        return "no element differs"
    if step.ratio is not None:
        return f"{figures.times(step.ratio)}{figures.NBSP}the noise floor"
    return f"differs by {figures.figure(step.error)}" if step.error is not None else "not judged"


def table(result: StagedResult) -> list[str]:
    """The rows as lines of text."""
    rows = [HEAD, *(cells(stage) for stage in result.stages)]
    # A sentence in place of figures may run over the last column.
    widths = [
        max(len(row[i]) for row in rows if i < 2 or not row[i].startswith("(")) for i in range(len(HEAD))
    ]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        .rstrip()
        .replace(figures.NBSP, " ")
        for row in rows
    ]


def verdict_words(result: StagedResult) -> str:
    """The sentence of the whole: the stage where the difference enters, and its size."""
    entered = result.entered
    if entered is not None:
        whole = result.result_of(entered)
        size = f": {words.verdict_words(whole)}" if whole is not None and whole.verdict == "FAIL" else ""
        name = figures.clean(entered.name)
        if entered.before is not None and entered.before.verdict == "FAIL":
            last = result.stages[-1].network
            undone = "; the twin itself agrees with the network" if last and last.verdict == "PASS" else ""
            return f"the difference enters at the stage {name}{size}{undone}"
        return f"no step exceeds its own budget, but from the stage {name} on all together do{size}"
    broken = [figures.clean(s.name) for s in result.stages if s.state == "error"]
    ran = sum(s.state == "ran" for s in result.stages)
    if broken:
        return f"{', '.join(broken)} could not run; {figures.count(ran, 'other stage')} agree"
    return f"{figures.count(ran, 'stage agrees', 'stages agree')} with the one before and with the network"


def sides_words(stage: Stage | None) -> str:
    """A remark where the two sides of a step stand the other way round."""
    if stage is None or stage.name != "exported":
        return ""
    return "(judged from the program's side: network is the exported program here, twin the module as Python runs it)"


def reasons(result: StagedResult) -> list[tuple[str, str]]:
    """The stages that could not run, and why."""
    return [
        (figures.clean(s.name), figures.clean(s.reason.strip().partition("\n")[0]))
        for s in result.stages
        if s.state == "error"
    ]


def next_command(result: StagedResult) -> tuple[str, str]:
    """The command to type next, and what it does."""
    entered = result.entered
    stage = entered or next((s for s in result.stages if s.state == "error"), None)
    whole = result.result_of(stage) if stage is not None else None
    if whole is not None:
        return next_steps.next_command(whole)
    if not result.folder:
        return "", ""
    return f"twinnet show {shlex.quote(figures.clean(result.folder))} --open", "opens the report"
