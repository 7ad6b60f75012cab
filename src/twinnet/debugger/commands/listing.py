"""`sites` and `worst`: all sites, and where to look first."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from twinnet.debugger.answer import Answer
from twinnet.debugger.commands.registry import command
from twinnet.debugger.figures import number, table
from twinnet.debugger.stopped import Stopped
from twinnet.errors import UsageError
from twinnet.report.figures import count
from twinnet.report.sentences import words
from twinnet.result import PairResult

__all__ = ["sites", "worst"]


@command()
def sites(stopped: Stopped, pattern: str = "*", by: str = "order", n: int | None = None) -> Answer:
    """The sites, in the network's order or with the largest difference first (by="error").

    `pattern` is a glob over tensor names, modules and operators; `n` limits how many are shown.
    """
    if by not in ("order", "error"):
        raise UsageError(f"unknown order {by!r}", hint='by="order" or by="error"')
    rows = [row for row in stopped.rows if _fits(row, pattern.removeprefix("."))]
    if not rows and stopped.rows:
        raise UsageError(f"no site matches {pattern!r}", hint="sites() lists all of them")
    if by == "error":
        rows.sort(key=_size, reverse=True)
    shown = rows if n is None else rows[:n]
    return _listed(stopped, shown, len(rows))


@command()
def worst(stopped: Stopped, n: int = 10) -> Answer:
    """The sites to look at first: those that create the most error, then those that differ most."""
    rows = sorted(
        stopped.rows, key=lambda row: (row.status == "fail", row.ratio or 0.0, _size(row)), reverse=True
    )
    return _listed(stopped, rows[:n], len(rows))


def _fits(row: PairResult, pattern: str) -> bool:
    site = row.site
    names = (site.tensor, site.module, site.op, site.label)
    return any(fnmatchcase(name, pattern) for name in names) or pattern in site.tensor


def _size(row: PairResult) -> float:
    return float("inf") if row.difference.nonfinite_mismatch else row.difference.max_abs


def _listed(stopped: Stopped, rows: Sequence[PairResult], of: int) -> Answer:
    if not stopped.rows:
        return Answer("no sites: no network and no twin were given", {"sites": []})
    top = max((_size(row) for row in stopped.rows), default=0.0)
    unit = f" in {stopped.unit}" if stopped.unit else ""
    head = ["site", "module and operator", f"max{unit}", "mean", "born", "", ""]
    lines = table(
        head,
        [
            [
                row.site.tensor,
                _place(row),
                number(row.difference.max_abs),
                number(row.difference.mean_abs),
                "-" if row.ratio is None else f"{number(row.ratio)} x",
                _bar(_size(row), top),
                row.status,
            ]
            for row in rows
        ],
        left=2,
    )
    if len(rows) < of:
        lines.append(f"{len(rows)} of {count(of, 'site')}")
    plan = None if stopped.held is None else stopped.held.plan
    alone = 0 if plan is None or len(rows) < len(stopped.rows) else len(plan.pairing.unmatched)
    if alone:
        lines.append(
            f"{count(alone, 'site')} of the network without a partner: trace['NAME'] has their tensors"
        )
    return Answer("\n".join(lines), {"unit": stopped.unit, "sites": [facts(row) for row in rows]})


def _place(row: PairResult) -> str:
    """Module and operator, without what the tensor's name already says."""
    module = "" if row.site.tensor.startswith(row.site.module) else row.site.module
    return f"{module} {row.site.op}".strip()


def _bar(size: float, top: float) -> str:
    """A bar on a logarithmic scale of six decades; blank where nothing differs."""
    import math

    if not size or not top:
        return " " * 8
    if math.isinf(size):
        return "!" * 8
    share = 1 + math.log10(size / top) / 6 if not math.isinf(top) else 0.5
    return ("#" * max(1, round(8 * max(0.0, share)))).ljust(8)


def facts(row: PairResult) -> dict[str, object]:
    """A row as JSON data."""
    return {
        "site": row.site.tensor,
        "twin_site": row.twin_site.tensor,
        "module": row.site.module,
        "op": row.site.op,
        "role": row.site.role,
        "source": row.site.source,
        "shape": list(row.site.shape or ()),
        "max": row.difference.max_abs,
        "mean": row.difference.mean_abs,
        "nonfinite": row.difference.nonfinite_mismatch,
        "born": row.born,
        "floor": row.floor,
        "ratio": row.ratio,
        "limit": row.limit,
        "status": row.status,
        "reason": words(row.reason),
    }
