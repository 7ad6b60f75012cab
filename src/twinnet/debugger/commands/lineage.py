"""`inputs`, `born`, `cause`: what a site is computed from, the error it creates, and why."""

from __future__ import annotations

from twinnet.debugger.answer import Answer
from twinnet.debugger.commands.listing import facts
from twinnet.debugger.commands.registry import command
from twinnet.debugger.figures import number, table
from twinnet.debugger.stopped import Stopped
from twinnet.errors import UsageError
from twinnet.report.figures import percent
from twinnet.report.sentences import words
from twinnet.result import Cause, PairResult

__all__ = ["born", "cause", "inputs_of"]


def inputs_of(stopped: Stopped, site: str) -> Answer:
    """The sites from which a site is computed, each with its own difference."""
    row = stopped.row(site)
    if stopped.held is None or stopped.seen is None:
        raise UsageError("these traces come without a network: the inputs of a site are unknown")
    test = None if stopped.held.plan is None else stopped.held.plan.test
    if test is None:
        raise UsageError("the network's layers are unknown, and so are the inputs of a site")
    names = test.segment(row.site.tensor)[1]
    rows = [stopped.by_tensor[n] for n in names if n in stopped.by_tensor]
    others = [n for n in names if n not in stopped.by_tensor]
    lines = [f"{row.site.tensor} is computed from"]
    cells = [
        [r.site.tensor, r.site.op, number(r.difference.max_abs), number(r.difference.mean_abs), r.status]
        for r in rows
    ]
    if cells:
        lines += table(["site", "op", "max", "mean", ""], cells, left=2)
    lines += [f"{name}   (an input of the network, or not paired)" for name in others]
    if not names:
        lines.append("the inputs of the network")
    layers = test.labels(row.site.tensor)
    if layers and layers != (row.site.tensor,):
        lines.append(f"through {', '.join(reversed(layers))}")
    data = {"site": row.site.tensor, "sites": [facts(r) for r in rows], "others": others}
    return Answer("\n".join(lines), data)


@command()
def born(stopped: Stopped, site: str) -> Answer:
    """The error that a site creates from its own inputs, in noise floors, and its total error."""
    row = _judged(stopped, stopped.row(site))
    lines = [f"{row.site.tensor}: {row.status}" + (f" ({row.reason})" if row.reason is not None else "")]
    unit = f" {stopped.unit}" if stopped.unit else ""
    if row.born is not None:
        times = (
            "" if row.ratio is None else f", {number(row.ratio)} x; up to {number(row.limit)} x is allowed"
        )
        lines.append(f"born     {number(row.born)}{unit} over a noise floor of {number(row.floor)}{times}")
    else:
        lines.append("born     unknown")
    lines.append(f"in all   {number(row.difference.max_abs)}{unit}, with what it inherits")
    if row.segment:
        lines.append(f"segment  {', '.join(row.segment)}")
    return Answer("\n".join(lines), facts(row))


def _judged(stopped: Stopped, row: PairResult) -> PairResult:
    """The row with a born test of the current tensors."""
    if row.born is not None or stopped.held is None or stopped.seen is None or stopped.first is None:
        return row
    from dataclasses import replace

    assert stopped.now is not None
    found = stopped.held.born(stopped.now, stopped.pairs[row.site.tensor])
    same = ("status", "born", "floor", "ratio", "limit", "reason", "segment")
    return replace(row, **{name: getattr(found, name) for name in same})


@command()
def cause(stopped: Stopped, site: str) -> Answer:
    """Why the twin differs at a site: what it does instead, and how much of the error that explains."""
    row = _judged(stopped, stopped.row(site))
    if stopped.held is None or stopped.seen is None:
        raise UsageError("these traces come without a network: no cause can be searched for")
    if row.status != "fail":
        return Answer(
            f"{row.site.tensor}: {row.status}; nothing is born here that rounding does not explain",
            {"site": row.site.tensor, "cause": None},
        )
    known = stopped.held.blamed.causes.get(row.site.tensor) if stopped.first is None else None
    if known is None:
        assert stopped.now is not None
        context = stopped.held.context(stopped.now)
        if context is None:
            raise UsageError("the network's layers are unknown: no cause can be searched for")
        from twinnet.blame.context import blame

        pair = stopped.pairs[row.site.tensor]
        known = blame([(pair, row.ratio or 0.0)], context)[row.site.tensor]
    found: Cause | None = known.cause
    lines = [f"site     {'   '.join(filter(None, (row.site.tensor, row.site.label, row.site.source)))}"]
    if found is None:
        lines.append(f"cause    unknown{f': {known.reason}' if known.reason is not None else ''}")
    else:
        lines.append(f"cause    {found.sentence}   [explains {percent(found.explains, 2)}]")
        lines.append(f"kind     {found.kind}")
        if found.layer is not None and found.layer.tensor != row.site.tensor:
            lines.append(f"layer    {'   '.join(filter(None, (found.layer.label, found.layer.source)))}")
    if known.confirmation is not None:
        lines.append(f"alone    {known.confirmation}")
    if known.impact is not None:
        share = "" if known.born_share is None else f", {percent(known.born_share)} of the output error"
        lines.append(f"impact   {number(known.impact)} at the output{share}")
    data = {"site": row.site.tensor, "cause": found, "impact": known.impact, "reason": words(known.reason)}
    return Answer("\n".join(lines), data)
