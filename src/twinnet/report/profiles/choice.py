"""Several twins of one network in one table, to choose from: verdict, error, time, memory, size."""

from __future__ import annotations

from twinnet.report.figures import clean, seconds, times
from twinnet.report.profiles.table import columns
from twinnet.report.profiles.words import TOO_LONG, much, waited
from twinnet.report.words import worst_ratio
from twinnet.result import Result, ResultSet

__all__ = ["choice_text"]


def choice_text(result: Result | ResultSet) -> str:
    """One line for each twin; empty if none was measured."""
    every = result.results if isinstance(result, ResultSet) else (result,)
    if all(one.cost is None for one in every):
        return ""
    head = ("twin", "verdict", "error/floor", "time", "8 of 10 runs", "memory", "size")
    lines = columns([head, *(_cells(one) for one in every)], right=(2, 3, 4, 5, 6))
    problems = [f"{clean(_name(r))}: {clean(r.cost.problem)}" for r in every if r.cost and r.cost.problem]
    costs = [one.cost for one in every if one.cost is not None and one.cost.seconds is not None]
    busy = [f"busy: {TOO_LONG}"] if any(waited(c.seconds or 0.0, c.cpu) for c in costs) else []
    return "\n".join([*lines, *problems, *busy]).replace("\u00a0", " ")


def _name(result: Result) -> str:
    return result.twin.spec or result.twin.name


def _cells(result: Result) -> tuple[str, ...]:
    cost = result.cost
    ratio = worst_ratio(result) if result.verdict != "ERROR" else None
    spread = ""
    if cost is not None and cost.p10 is not None and cost.p90 is not None:
        spread = f"{seconds(cost.p10)} to {seconds(cost.p90)}"
    return (
        clean(_name(result)),
        result.verdict,
        "" if ratio is None else times(ratio),
        "" if cost is None or cost.seconds is None else seconds(cost.seconds),
        spread,
        "" if cost is None else much(cost.memory),
        "" if cost is None else much(cost.size),
    )
