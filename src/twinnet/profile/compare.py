"""Two profiles side by side: what got slower or faster beyond noise.

Rows are compared where both sides compute the same values of the network: rows of one side that were fused differently
on the other are added up first. The time of a row is a low quantile of its runs, which whatever else runs on the
machine disturbs least; its noise is what resampling the runs gives, and what the rounds differ by. What disturbs all
rows of a run alike is no noise of a single row: it is taken out of the runs first.

Profiles that were measured apart saw different machines. What all rows share is taken out, unless it is more than the
machine itself became slower, by the work that was measured beside the runs of both.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np

from twinnet.engines.timing import undisturbed
from twinnet.errors import UsageError
from twinnet.profile.model import Profile, Row
from twinnet.profile.noise import deviation, low
from twinnet.profile.pace import Moved, moved

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
"""Resolution of the coarsest timers, and about what another place in the caches costs a short step."""
_ENOUGH = 8
"""Rows from which on a change of all of them is told from a change of some."""
_FOLLOWS = 0.04
"""How nearly twins follow the pace of their machine: the deviation of what is left, between two profiles of a twin."""
_WAITED = 0.1
"""... and more where runs waited for their turn, by the logarithm of how much longer they took: caches are cold."""
_SURE = 3.0
"""What is left must be this many times its noise, if it is to be the twin's."""


@dataclass(frozen=True, slots=True)
class Change:
    """One place on both sides, in seconds; `noise` is that of the ratio's logarithm, in units of one deviation.

    The ratio has the pace taken out; it is None where only one side has the place.
    """

    label: str
    module: str
    source: str
    before: float
    after: float
    share: float
    ratio: float | None
    noise: float
    verdict: Verdict


@dataclass(frozen=True)
class Comparison:
    """Two profiles: the whole, each place, and `pace`, by how much all of the second was slower, which is taken out.

    In turns, both sides saw the same machine. Otherwise `measured` says whether the work beside the runs became slower
    as well, so that `pace` is the machine's; without that it may as well be the twin's. With `everywhere`, all of the
    twin changed by more than the machine did. `differs` lists what else was not the same, and may be the reason: its
    name, before and after.
    """

    before: str
    after: str
    in_turns: bool
    pace: float
    measured: bool
    everywhere: bool
    whole: Change
    changes: tuple[Change, ...]
    differs: tuple[tuple[str, str, str], ...] = ()

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
        return tuple(c for c in every if c.verdict == "slower" and (c.ratio or 0.0) > limit)

    def to_json(self) -> str:
        """The comparison for scripts."""
        return json.dumps(asdict(self), indent=1, allow_nan=False)


def _sorted(changes: Iterable[Change]) -> tuple[Change, ...]:
    return tuple(sorted(changes, key=lambda c: -abs(c.after - c.before)))


def compare_profiles(before: Profile, after: Profile) -> Comparison:
    """Compare two profiles of a network, or of two versions of it."""
    for profile in (before, after):
        if not profile.bare_runs:
            raise UsageError(f"the profile of {profile.network} on {profile.spec} holds no runs to compare")
    in_turns = bool(before.group) and before.group == after.group
    groups = _groups(before.rows, after.rows)
    paces = _paces(before), _paces(after)
    pairs = [(_Side(a, paces[0]), _Side(b, paces[1])) for a, b in groups]
    both = [(a, b) for a, b in pairs if a.rows and b.rows]
    totals = sum(a.time for a, _ in pairs), sum(b.time for _, b in pairs)
    judged = [(a, b) for a, b in both if _share(a, b, totals) >= _SHARE and min(a.time, b.time) > 0]
    moves = [math.log(b.time / a.time) for a, b in judged]
    machine = None if in_turns else moved(before.pace, after.pace)
    whole = _Whole(before, after)
    shared = float(np.median(moves)) if len(moves) >= _ENOUGH else None
    judge = _judge(in_turns, shared, whole, machine)
    changes = []
    for a, b in pairs:
        row = (a.rows or b.rows)[0]
        share = _share(a, b, totals)
        if not a.rows or not b.rows:
            verdict: Verdict = "new" if b.rows else "gone"
            ratio, noise = None, 0.0
        else:
            verdict, ratio, noise = _judged(a, b, judge)
            verdict = verdict if share >= _SHARE else "small"
        label = row.label if row.sites else f"{row.op} (added by the engine)"
        changes.append(Change(label, row.module, row.source, a.time, b.time, share, ratio, noise, verdict))
    names = tuple(f"{p.network} on {p.spec}" for p in (before, after))
    return Comparison(
        names[0],
        names[1],
        in_turns,
        math.exp(judge.drift),
        machine is not None and abs(judge.drift - machine.nearest(judge.drift)) <= _LEAST,
        judge.everywhere,
        whole.change(judge),
        tuple(changes),
        _differences(before, after),
    )


def _differences(before: Profile, after: Profile) -> tuple[tuple[str, str, str], ...]:
    """What was not the same when two profiles were measured, of what both of them say."""
    told = [("day", before.when[:10], after.when[:10])]
    if before.engine == after.engine:
        told.append((f"{before.engine} version", before.version, after.version))
    told.append(("threads", _threads(before), _threads(after)))
    told.append(("processor", _processor(before), _processor(after)))
    told += _resized(before, after)[:1]
    return tuple((name, a, b) for name, a, b in told if a and b and a != b)


def _resized(before: Profile, after: Profile) -> list[tuple[str, str, str]]:
    """Places that both sides have, with values of another shape: the inputs may have been others."""
    known = {row.sites: row.shape for row in before.rows if row.sites}
    return [
        (f"shape of {row.label}", known[row.sites], row.shape)
        for row in after.rows
        if row.shape and known.get(row.sites) not in ("", None, row.shape)
    ]


def _threads(profile: Profile) -> str:
    count = profile.threads if profile.pace is None else profile.pace.threads
    return "" if count is None else str(count)


def _processor(profile: Profile) -> str:
    return "" if profile.pace is None else profile.pace.processor


@dataclass(frozen=True, slots=True)
class _Judge:
    """What is taken out of all moves (`drift`; with `shared` it is what rows have in common), what else may explain the
    whole (`least` to `most`), the smallest move that counts, and whether all of the twin changed.

    Where the whole alone tells the drift, a layer that changed may have told it: `calm` is the least the machine moved.
    """

    drift: float = 0.0
    least: float = 0.0
    most: float = 0.0
    counts: float = _LEAST
    everywhere: bool = False
    shared: bool = False
    calm: float | None = None

    def left(self, move: float) -> float:
        """What of a row's move the machine does not explain."""
        one, other = sorted((self.drift, self.drift if self.calm is None else self.calm))
        return move - min(max(move, one), other)

    def verdict(self, move: float, noise: float) -> Verdict:
        if abs(move) <= max(self.counts, _CERTAIN * noise):
            return "same"
        return "slower" if move > 0 else "faster"


def _judge(in_turns: bool, shared: float | None, whole: _Whole, machine: Moved | None) -> _Judge:
    """How moves are judged, given what all rows share and how the machine moved."""
    if in_turns:
        return _Judge()
    if machine is None:
        drift = shared or 0.0
        return _Judge(drift, min(drift, 0.0), max(drift, 0.0), shared=shared is not None)
    follows = math.hypot(_FOLLOWS, _WAITED * whole.waited)
    counts = max(_LEAST, _SURE * math.hypot(follows, machine.noise, whole.noise or 0.0))
    if shared is None:
        drift, calm = machine.nearest(whole.move), machine.nearest(0.0)
        return _Judge(drift, machine.least, machine.most, counts, calm=calm)
    # Rows and the whole must say so: rows wait for their turn on a busy machine, the CPU time of the whole does not.
    left = [move - machine.nearest(move) for move in (shared, whole.move)]
    if min(left) > counts or max(left) < -counts:
        return _Judge(machine.nearest(shared), machine.least, machine.most, everywhere=True)
    return _Judge(shared, min(shared, machine.least), max(shared, machine.most), shared=True)


def _share(a: _Side, b: _Side, totals: tuple[float, float]) -> float:
    return max(side.time / total if total else 0.0 for side, total in zip((a, b), totals))


def _paces(profile: Profile) -> np.ndarray:
    """How much longer all rows took in each run than in its least disturbed ones; empty where too few rows tell."""
    least = _SHARE * sum(low(row.seconds) for row in profile.rows)
    rows = [row.seconds for row in profile.rows if len(row.seconds) == len(profile.runs)]
    rows = [seconds for seconds in rows if min(seconds) > 0 and low(seconds) >= least]
    if len(rows) < _ENOUGH:
        return np.zeros(0)
    logs = np.log(np.array(rows))
    paces = np.exp(np.median(logs - np.median(logs, axis=1, keepdims=True), axis=0))
    return paces / low(paces)


class _Side:
    """The rows of one side at a place, and their times added up run by run, as if all runs had had the same pace."""

    def __init__(self, rows: Sequence[Row], paces: np.ndarray) -> None:
        self.rows = tuple(rows)
        count = min((len(row.seconds) for row in self.rows), default=0)
        runs = np.sum([row.seconds[:count] for row in self.rows], axis=0) if count else np.zeros(0)
        self._paces = paces if len(paces) == count else np.ones(1)
        self._runs = runs / self._paces
        self.time = low(self._runs)
        self._ticks = _TICK * len(self.rows)

    def noise(self, shared: bool) -> float:
        """The deviation of its time; the pace's own only where what rows share is not taken out later."""
        own = _noise(self._runs, self.time, self._ticks)
        return own if shared else math.hypot(own, deviation(self._paces))


def _noise(runs: np.ndarray, time: float, ticks: float = 0.0) -> float:
    """The deviation of the logarithm of a time."""
    return math.hypot(deviation(runs), _BETWEEN, ticks / time) if time > 0 else _BETWEEN


def _judged(a: _Side, b: _Side, judge: _Judge) -> tuple[Verdict, float, float]:
    if min(a.time, b.time) <= 0:
        return "small", 1.0, 0.0
    move = judge.left(math.log(b.time / a.time))
    noise = math.hypot(a.noise(judge.shared), b.noise(judge.shared))
    return judge.verdict(move, noise), math.exp(move), noise


class _Whole:
    """Whole runs without timers, by CPU time where a single thread waited for its turn; `noise` is None without any.

    `waited` is the logarithm of how much longer they took by the clock.
    """

    def __init__(self, before: Profile, after: Profile) -> None:
        known = bool(before.cpu_runs) and bool(after.cpu_runs)
        runs = [np.array(undisturbed(p.bare_runs, p.cpu_runs if known else ())) for p in (before, after)]
        self.times = [low(r) for r in runs]
        clock = [low(p.bare_runs) for p in (before, after)]
        self.waited = max((math.log(c / t) for c, t in zip(clock, self.times) if min(c, t) > 0), default=0.0)
        self.move = 0.0
        self.noise: float | None = None
        if min(self.times) > 0:
            self.move = math.log(self.times[1] / self.times[0])
            self.noise = math.hypot(*(_noise(r, t) for r, t in zip(runs, self.times)))

    def change(self, judge: _Judge) -> Change:
        """What is left of the change when neither what all rows share nor the machine explains it."""
        before, after = self.times
        if self.noise is None:
            return Change("the whole", "", "", before, after, 1.0, 1.0, 0.0, "small")
        left = self.move - min(max(self.move, judge.least), judge.most)
        verdict = judge.verdict(left, self.noise)
        return Change("the whole", "", "", before, after, 1.0, math.exp(left), self.noise, verdict)


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
