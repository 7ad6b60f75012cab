"""Two profiles side by side: what got slower or faster beyond noise.

Rows are compared where both sides compute the same values of the network: rows of one side that were fused differently
on the other are added up first. The time of a row is a low quantile of its runs, which whatever else runs on the
machine disturbs least; its noise is what resampling the runs gives, and what the rounds differ by.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from twinnet.profile.model import Profile, Row
from twinnet.profile.noise import QUANTILE, low

__all__ = ["Change", "Comparison", "Verdict", "compare_profiles"]

Verdict = Literal["slower", "faster", "same", "small", "new", "gone"]
"""`small`: too short to judge; `new` and `gone`: only one of the profiles has it."""

_LEAST = math.log(1.15)
"""A change by less than this is never reported: code that is only laid out otherwise in memory moves by as much."""
_CERTAIN = 4.0
"""... and it must be this many times its noise."""
_BETWEEN = 0.03
"""Noise between loadings that is assumed at least."""
_SHARE = 0.01
"""Rows below this share of both sides are not judged."""
_TICK = 1e-6
"""Resolution of the coarsest timers."""
_SAMPLES = 200
_ENOUGH = 8
"""Rows from which on a change of all of them is told from a change of some."""
_PACE = math.log(1.8)
"""Other work on a machine that is measured to be as fast as before slows all layers down by less than this."""


@dataclass(frozen=True, slots=True)
class Change:
    """One place on both sides, in seconds; `noise` is that of the ratio's logarithm, in units of one deviation."""

    label: str
    module: str
    source: str
    before: float
    after: float
    share: float
    ratio: float
    noise: float
    verdict: Verdict


@dataclass(frozen=True)
class Comparison:
    """Two profiles: the whole, each place, and `pace`, by how much all of the second was slower.

    In turns, both sides saw the same machine; otherwise `pace` is taken out of every row, and a change of the whole
    that is only a change of pace is the machine's as likely as the twin's.
    """

    before: str
    after: str
    in_turns: bool
    pace: float
    whole: Change
    changes: tuple[Change, ...]

    @property
    def slower(self) -> tuple[Change, ...]:
        """Places that got slower, the dearest first."""
        return _sorted(c for c in self.changes if c.verdict == "slower")

    @property
    def faster(self) -> tuple[Change, ...]:
        """Places that got faster, the dearest first."""
        return _sorted(c for c in self.changes if c.verdict == "faster")

    def past(self, limit: float) -> tuple[Change, ...]:
        """What got slower, beyond noise, by more than a factor: the whole and single places."""
        every = (self.whole, *self.slower)
        return tuple(c for c in every if c.verdict == "slower" and c.ratio > limit)


def _sorted(changes: Iterable[Change]) -> tuple[Change, ...]:
    return tuple(sorted(changes, key=lambda c: -abs(c.after - c.before)))


def compare_profiles(before: Profile, after: Profile) -> Comparison:
    """Compare two profiles of a network, or of two versions of it."""
    in_turns = bool(before.group) and before.group == after.group
    groups = _groups(before.rows, after.rows)
    pairs = [(_Side(a), _Side(b)) for a, b in groups]
    both = [(a, b) for a, b in pairs if a.rows and b.rows]
    totals = sum(a.time for a, _ in pairs), sum(b.time for _, b in pairs)
    judged = [(a, b) for a, b in both if _share(a, b, totals) >= _SHARE and min(a.time, b.time) > 0]
    moves = [math.log(b.time / a.time) for a, b in judged]
    drift = float(np.median(moves)) if not in_turns and len(moves) >= _ENOUGH else 0.0
    if abs(drift) > _PACE and _same_machine(before, after):
        drift = 0.0  # the machine is as fast as it was: all of the twin changed
    changes = []
    for a, b in pairs:
        row = (a.rows or b.rows)[0]
        share = _share(a, b, totals)
        if not a.rows or not b.rows:
            verdict: Verdict = "new" if b.rows else "gone"
            ratio, noise = math.inf if b.rows else 0.0, 0.0
        else:
            verdict, ratio, noise = _judged(a, b, drift)
            verdict = verdict if share >= _SHARE else "small"
        label = row.label if row.sites else f"{row.op} (added by the engine)"
        changes.append(Change(label, row.module, row.source, a.time, b.time, share, ratio, noise, verdict))
    whole = _whole(before, after, drift)
    names = tuple(f"{p.network} on {p.spec}" for p in (before, after))
    return Comparison(names[0], names[1], in_turns, math.exp(drift), whole, tuple(changes))


def _same_machine(before: Profile, after: Profile) -> bool:
    """Whether the same machine was found to be as fast as before."""
    one, two = before.target, after.target
    same = one.name == two.name and min(one.peak, two.peak) > 0
    return same and abs(math.log(two.peak / one.peak)) < _LEAST


def _share(a: _Side, b: _Side, totals: tuple[float, float]) -> float:
    return max(side.time / total if total else 0.0 for side, total in zip((a, b), totals))


class _Side:
    """The rows of one side at a place, and their times added up run by run."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = tuple(rows)
        count = min((len(row.seconds) for row in self.rows), default=0)
        self.runs = np.sum([row.seconds[:count] for row in self.rows], axis=0) if count else np.zeros(0)
        self.time = low(self.runs)
        self.ticks = _TICK * len(self.rows)

    def noise(self) -> float:
        return _noise(self.runs, self.time, self.ticks)


def _noise(runs: np.ndarray, time: float, ticks: float = 0.0) -> float:
    """The deviation of the logarithm of a low quantile, by resampling."""
    if runs.size < 2 or time <= 0:
        return _BETWEEN
    drawn = np.random.default_rng(0).choice(runs, (_SAMPLES, runs.size))
    spread = float(np.std(np.log(np.maximum(np.percentile(drawn, QUANTILE, axis=1), 1e-12))))
    return math.hypot(spread, _BETWEEN, 0.5 * ticks / time)


def _judged(a: _Side, b: _Side, drift: float) -> tuple[Verdict, float, float]:
    if min(a.time, b.time) <= 0:
        return "small", 1.0, 0.0
    move = math.log(b.time / a.time) - drift
    noise = math.hypot(a.noise(), b.noise())
    return _verdict(move, noise), math.exp(move), noise


def _verdict(move: float, noise: float) -> Verdict:
    if abs(move) <= max(_LEAST, _CERTAIN * noise):
        return "same"
    return "slower" if move > 0 else "faster"


def _whole(before: Profile, after: Profile, drift: float) -> Change:
    """Whole runs without timers, by CPU time where it is known."""
    cpu = bool(before.cpu_runs) and bool(after.cpu_runs)
    runs = [np.array(p.cpu_runs if cpu else p.bare_runs) for p in (before, after)]
    times = [low(r) for r in runs]
    if min(times) <= 0:
        return Change("the whole", "", "", times[0], times[1], 1.0, 1.0, 0.0, "small")
    move = math.log(times[1] / times[0])
    noise = math.hypot(*(_noise(r, t) for r, t in zip(runs, times)))
    verdict = _verdict(move, noise)
    if verdict != "same" and abs(move - drift) <= _LEAST:
        verdict = "same"  # all of it moved alike: that is the machine's pace
    return Change("the whole", "", "", times[0], times[1], 1.0, math.exp(move), noise, verdict)


def _groups(before: Sequence[Row], after: Sequence[Row]) -> list[tuple[list[Row], list[Row]]]:
    """Rows of both sides that have values in common, directly or by way of others; in the order of execution."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.setdefault(name, name) != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    def names(row: Row) -> tuple[str, ...]:
        return tuple(f"site {s}" for s in row.sites) or (f"engine {row.op}",)

    for row in (*before, *after):
        first, *others = names(row)
        for other in others:
            parent[root(other)] = root(first)
    found: dict[str, tuple[list[Row], list[Row]]] = {}
    for side, rows in enumerate((before, after)):
        for row in rows:
            found.setdefault(root(names(row)[0]), ([], []))[side].append(row)
    return list(found.values())
