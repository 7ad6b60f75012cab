"""Words and figures of profiles."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from twinnet.profile.model import Profile, Row
from twinnet.report.figures import clean, percent, seconds

__all__ = [
    "BETWEEN",
    "TOO_LONG",
    "bound",
    "busy",
    "gap",
    "limited",
    "much",
    "rate",
    "seconds",
    "share",
    "some",
    "timers",
    "timing",
    "waited",
]

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


def share(part: float) -> str:
    """A share with two digits or more, never rounded up to 100 %.

    >>> share(0.186), share(0.05), share(0.0), share(-0.021), share(0.9996)
    ('18 %', '5.0 %', '0 %', '-2.1 %', '99 %')
    """
    size = abs(part)
    sign = "-" if part < 0 else ""
    if 0 < size < 0.0995:
        return f"{sign}{math.floor(size * 1000 + 1e-9) / 10:.1f} %"
    return sign + percent(size).replace("\u00a0", " ")


def rate(row: Row) -> str:
    """How fast a step computes."""
    return "" if not row.flops or row.p50 <= 0 else much(row.flops / row.p50, "FLOP/s")


_HELPS = (
    (re.compile(r"(?i)(reorder|transpose|permute)\w*$"), "changes layout for it"),
    (
        re.compile(r"(?i)((de|dynamic)?quantize\w*|cast|convert|_?to_copy)$"),
        "changes the number format for it",
    ),
    (re.compile(r"(?i)(mirror_?)?pad\w*$"), "adds a border for it"),
)


def limited(row: Row) -> str:
    """What limits a step, and how near it comes to that.

    >>> limited(Row("c", "Conv", limit="memory", efficiency=0.61))
    'memory bound, 61 % of it'
    >>> limited(Row("r", "ReorderInput", helps=True)), limited(Row("m", "Mul", helps=True))
    ('changes layout for it', 'part of it')
    """
    if row.helps:
        return next((why for how, why in _HELPS if how.match(row.op)), "part of it")
    if not row.limit:
        return ""
    if row.limit == "overhead":
        return "overhead: it hardly computes"
    reached = min(row.efficiency or 0.0, 1.0)
    return f"{row.limit} bound, {percent(reached)} of it".replace("\u00a0", " ")


def bound(profile: Profile) -> str:
    """The machine."""
    target = profile.target
    if target is None:
        return "a board; its limits are not known: state them with --target FILE.toml"
    peak, width = much(target.peak, "FLOP/s"), much(target.bandwidth, "B/s")
    return f"{target.name}: {peak}, {width}"


def gap(profile: Profile) -> str:
    """How the steps and the whole compare."""
    part = share(abs(profile.gap))
    if profile.alone:
        more = "more" if profile.gap < 0 else "less"
        told = f"each step was run alone: together they take {part} {more} than the whole"
        left = [row.name for row in profile.rows if not row.calls]
        return f"{told}; these cannot be run alone: {some(left)}" if left else told
    if profile.gap < 0:
        return f"the steps together take {part} more than the whole"
    return f"{part} of the whole is between the steps"


_WAITS, _FELT = 0.7, 0.005
TOO_LONG = "other work runs here, and times are too long"


def busy(profile: Profile) -> str:
    """What to say about a machine on which the twin waited for its turn; empty if it did not."""
    if profile.cpu is None or not waited(profile.bare.p50, profile.cpu.p50):
        return ""
    return f"only {seconds(profile.cpu.p50)} of that is CPU time: {TOO_LONG}"


def waited(spent: float, cpu: float | None) -> bool:
    """Whether runs waited for their turn.

    >>> waited(2e-3, 1e-3), waited(2e-3, 4e-3), waited(2e-3, None)
    (True, False, False)
    """
    return cpu is not None and cpu < _WAITS * spent


def some(names: Sequence[str], most: int = 4) -> str:
    """The first of some names.

    >>> some(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(map(clean, names[:most]))}{more}"


def timing(profile: Profile) -> str:
    """What measuring the steps cost, and how they and the whole compare."""
    if profile.alone:
        return f"none; {gap(profile)}"
    return f"cost {timers(profile)}; {gap(profile)}"


def timers(profile: Profile) -> str:
    """What the timers cost."""
    if profile.overhead < _FELT:
        return "next to nothing"
    more = share(profile.overhead)
    each = f" ({seconds(profile.timer)} a step, subtracted)" if profile.timer > 0 else ""
    return f"{more} more time{each}"
