"""Words and figures of profiles."""

from __future__ import annotations

from twinnet.profile.model import Profile, Row
from twinnet.report.figures import percent, seconds

__all__ = ["BETWEEN", "bound", "busy", "gap", "limited", "much", "rate", "seconds", "timers"]

BETWEEN = "between the steps"
"""The row of what the engine does there."""


def much(count: float | None, unit: str = "B") -> str:
    """A large number with a prefix.

    >>> much(2_500_000), much(3.1e9, "FLOP/s"), much(None)
    ('2.50 MB', '3.10 GFLOP/s', '')
    """
    if count is None:
        return ""
    for prefix, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= scale:
            return f"{count / scale:.{2 if count < 10 * scale else 1 if count < 100 * scale else 0}f} {prefix}{unit}"
    return f"{count:.0f} {unit}"


def rate(row: Row) -> str:
    """How fast a step computes."""
    return "" if not row.flops or row.p50 <= 0 else much(row.flops / row.p50, "FLOP/s")


def limited(row: Row) -> str:
    """What limits a step, and how near it comes to that.

    >>> limited(Row("c", "Conv", limit="memory", efficiency=0.61))
    'memory bound, 61 % of it'
    """
    if row.helps:
        return "changes layout for it" if "eorder" in row.op else "part of it"
    if not row.limit:
        return ""
    if row.limit == "overhead":
        return "overhead: it hardly computes"
    share = min(row.efficiency or 0.0, 1.0)
    return f"{row.limit} bound, {percent(share)} of it".replace("\u00a0", " ")


def bound(profile: Profile) -> str:
    """The machine."""
    target = profile.target
    peak, width = much(target.peak, "FLOP/s"), much(target.bandwidth, "B/s")
    return f"{target.name}: {peak}, {width}"


def gap(profile: Profile) -> str:
    """How the steps and the whole compare."""
    share = percent(abs(profile.gap), 1).replace("\u00a0", " ")
    if profile.alone:
        more = "more" if profile.gap < 0 else "less"
        return f"each step was run alone: together they take {share} {more} than the whole"
    if profile.gap < 0:
        return f"the steps together take {share} more than the whole"
    return f"{share} of the whole is between the steps"


_WAITS, _FELT = 0.7, 0.005


def busy(profile: Profile) -> str:
    """What to say about a machine on which the twin waited for its turn; empty if it did not."""
    if profile.cpu is None or profile.cpu.p50 >= _WAITS * profile.bare.p50:
        return ""
    return (
        f"only {seconds(profile.cpu.p50)} of that is CPU time: other work runs here, and times are too long"
    )


def timers(profile: Profile) -> str:
    """What the timers cost."""
    if profile.overhead < _FELT:
        return "next to nothing"
    more = percent(profile.overhead, 1).replace("\u00a0", " ")
    each = f" ({seconds(profile.timer)} a step, subtracted)" if profile.timer > 0 else ""
    return f"{more} more time{each}"
