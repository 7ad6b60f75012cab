"""All trials, the clean pairs, and the table."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.bar import Bar
from benchmarks.faults.clean import Clean, clean_pairs
from benchmarks.faults.edit import INJECTORS, OPAQUE
from benchmarks.faults.executorch import installed, run_executorch
from benchmarks.faults.litert import run_litert
from benchmarks.faults.networks import Subject, subjects
from benchmarks.faults.tables import run_tables
from benchmarks.faults.trial import Outcome, plant, run_trial

__all__ = ["Report", "run_all"]

_TWINS = ("file", "opaque", "fused", "opaque")
_TABLES = 4
"""One trial in so many is planted in a network of lookup tables."""
_LITERT = 10
"""One trial in so many is planted in a TFLite file."""
_LOWERED = 15
"""One in so many is a program that ExecuTorch lowered, where it is installed: each takes seconds to convert."""
_MOST = 3
"""Rounds for each trial that is wanted: some faults change nothing, or give a network that does not run."""


@dataclass(frozen=True)
class Report:
    """Everything that was measured."""

    outcomes: tuple[Outcome, ...]
    clean: tuple[Clean, ...]
    wanted: int
    everything: bool = True
    """Whether all networks took part; with only some of them fewer clean pairs are promised."""

    def table(self) -> str:
        """One row per kind of twin, then the naive rules beside it."""
        lines = [
            "twin      trials  found  first  layer  cause  wrong  none  alarms  s/check  s/blame  | >1e-3  cosine"
        ]
        groups = [
            ("all", self.scored),
            *(
                (t, [o for o in self.scored if o.twin == t])
                for t in dict.fromkeys(o.twin for o in self.scored)
            ),
        ]
        for name, rows in groups:
            if rows:
                lines.append(_row(name, rows))
        states = {s: sum(o.state == s for o in self.outcomes) for s in ("no effect", "does not run")}
        lines.append(
            f"apart: {states['no effect']} that change nothing beyond the noise floor (computed in float64), "
            f"{states['does not run']} that do not run"
        )
        lines.append(f"clean pairs: {len(self.compared)}, false alarms: {len(self.alarms)}")
        kinds = dict.fromkeys(c.what for c in self.clean)
        for what in kinds:
            states = Counter(c.state for c in self.clean if c.what == what)
            broken = f", {states['does not run']} do not run" if states["does not run"] else ""
            lines.append(f"  {what}: {states['agrees']} agree, {states['alarm']} alarms{broken}")
            lines += [
                f"    {c.network}: {c.said}"
                for c in self.clean
                if c.what == what and c.state == "does not run"
            ]
        lines += [f"  alarm: {c.network}, {c.what}: {c.said}" for c in self.alarms]
        return "\n".join(lines)

    @property
    def compared(self) -> list[Clean]:
        return [c for c in self.clean if c.state != "does not run"]

    @property
    def alarms(self) -> list[Clean]:
        return [c for c in self.clean if c.state == "alarm"]

    @property
    def scored(self) -> list[Outcome]:
        return [o for o in self.outcomes if o.state == "scored"]

    def bars(self) -> list[Bar]:
        """The promises."""
        rows = self.scored
        hidden = [o for o in rows if o.twin == "opaque"]
        return [
            Bar("trials", len(rows), self.wanted, True),
            Bar("right layer first", _share(o.first for o in rows), 0.98, True),
            Bar(
                "right layer first, opaque twin",
                _share(o.first for o in hidden),
                0.95 if hidden else None,
                True,
            ),
            Bar("planted layer named", _share(o.layer for o in rows)),
            Bar("right cause", _share(o.right for o in rows if o.wanted), 0.85, True),
            Bar("no cause to name, left unknown", _share(o.right for o in rows if not o.wanted)),
            Bar("wrong cause", _share(o.wrong for o in rows), 0.01),
            *self._phone_bars(),
            *self._clean_bars(),
        ]

    def _phone_bars(self) -> list[Bar]:
        """Each engine of phones and boards by itself, so that the many trials of others do not hide its misses."""
        found = []
        for name, family, one_in in (("LiteRT", "litert", _LITERT), ("ExecuTorch", "et-", _LOWERED)):
            rows = [o for o in self.scored if o.twin.startswith(family)]
            if rows or self.everything:
                share = self.wanted // one_in if self.everything else None
                found += [
                    Bar(f"trials, {name}", len(rows), share, True),
                    Bar(f"right layer first, {name}", _share(o.first for o in rows), 0.95, True),
                    Bar(f"right cause, {name}", _share(o.right for o in rows if o.wanted), 0.85, True),
                ]
        return found

    def _clean_bars(self) -> list[Bar]:
        if not self.clean:
            return []
        return [
            Bar("clean pairs", len(self.compared), 60 if self.everything else None, True),
            Bar("false alarms on clean pairs", len(self.alarms), 0),
        ]


def _share(hits) -> float:
    found = list(hits)
    return sum(found) / max(len(found), 1)


def _row(name: str, rows: Sequence[Outcome]) -> str:
    def percent(hits) -> str:
        return f"{100 * _share(hits):5.1f}%"

    alarms = sum(o.alarms > 0 for o in rows)
    seconds, blame = np.median([o.seconds for o in rows]), np.median([o.blame for o in rows])
    return (
        f"{name:<9} {len(rows):>6} {percent(o.found for o in rows)} {percent(o.first for o in rows)} "
        f"{percent(o.layer for o in rows)} {percent(o.right for o in rows)} {percent(o.wrong for o in rows)} "
        f"{percent(not o.cause for o in rows)} {alarms:>6} {seconds:>8.2f} {blame:>8.2f}  | "
        f"{percent(o.naive for o in rows)} {percent(o.cosine for o in rows)}"
    )


def run_all(
    trials: int,
    seed: int,
    only: Sequence[str] = (),
    faults: Sequence[str] = (),
    clean: bool = True,
    show=None,
) -> Report:
    """Faults in turn, networks at random, every second twin opaque, until so many trials count.

    A quarter of them are faults in lookup tables, a tenth in TFLite files, and some in programs of ExecuTorch; `only`
    names networks ("tables", "litert" and "executorch" among them), `faults` kinds.
    """
    rng = np.random.default_rng(seed)
    outcomes: list[Outcome] = []
    pairs: list[Clean] = []
    takes_tables = not faults and (not only or "tables" in only)
    with tempfile.TemporaryDirectory(prefix="twinnet-faults-") as name:
        folder = Path(name)
        if takes_tables:
            share = trials if list(only) == ["tables"] else trials // _TABLES
            found, checked = run_tables(share, seed, folder, clean, show)
            outcomes += found
            pairs += checked
        if not faults and (not only or "litert" in only):
            share = trials if list(only) == ["litert"] else trials // _LITERT
            found, checked = run_litert(share, seed, folder, clean, show)
            outcomes += found
            pairs += checked
        if not faults and (not only or "executorch" in only) and installed():
            share = trials if list(only) == ["executorch"] else trials // _LOWERED
            found, checked = run_executorch(share, seed, folder, clean, show)
            outcomes += found
            pairs += checked
        alone = len(only) == 1 and only[0] in ("tables", "litert", "executorch")
        known = [] if alone else list(subjects(folder, only))
        names = [n for n in INJECTORS if not faults or any(f in n for f in faults)]
        counted = sum(o.state == "scored" for o in outcomes)
        for number in range(_MOST * trials if known and names else 0):
            if counted >= trials:
                break
            # The same fault meets another kind of twin in the next round.
            twin = _TWINS[(number + number // len(names)) % len(_TWINS)]
            fault = names[number % len(names)]
            outcome = _one(known, fault, "opaque" if fault in OPAQUE else twin, rng, folder)
            if outcome is not None:
                outcomes.append(outcome)
                counted += outcome.state == "scored"
                if show is not None:
                    show(outcome)
        pairs += clean_pairs(known) if clean else ()
    return Report(tuple(outcomes), tuple(pairs), trials, not only)


def _one(
    known: list[Subject], name: str, twin: str, rng: np.random.Generator, folder: Path
) -> Outcome | None:
    for k in rng.permutation(len(known)):
        made = plant(known[k], name, rng)
        if made is not None:
            model, fault = made
            return run_trial(known[k], fault, model, twin, folder)
    return None


def write(report: Report, path: Path) -> None:
    """Everything as data."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {
        "table": report.table().splitlines(),
        "clean": [asdict(c) for c in report.clean],
        "trials": [asdict(o) for o in report.outcomes],
    }
    path.write_text(json.dumps(data, indent=1))
