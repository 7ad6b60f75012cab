"""Climb a network for one twin: find the first rung that breaks, then the smallest block that does."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from twinnet.check import check_with
from twinnet.checking.options import Options
from twinnet.cutting import Cut
from twinnet.engines import Spec, find_engine
from twinnet.errors import EngineError
from twinnet.ladder.fault import tell_fault
from twinnet.ladder.journal import Journal
from twinnet.ladder.refused import first_refused, opens, refusing_modules
from twinnet.ladder.source import Place, Source
from twinnet.memory import MemoryWatch
from twinnet.report.words import worst_ratio
from twinnet.result import Climb, Result, Rung

__all__ = ["Climber", "Way"]

Way = Literal["halves", "up", "every"]
"""How the bad rung is found: by bisection, from the bottom up, or by checking every rung and every block."""

_NAMED = re.compile(r"in ([\w.]+) \(\w+\)|node (\S+) \(\w+\)")
"""How messages name a module or a node: "in features.2 (Block), net.py:7", "node pad (Pad)"."""


def _said(source: Source, message: str) -> list[int]:
    """Places with an operator that no place before them has, if the message of an engine names it."""
    words = set(re.findall(r"[a-z]\w{2,}", message.lower().replace("_", "")))
    return [
        i
        for i, place in enumerate(source.places)
        if words & {op.lower().replace("_", "") for op in place.ops}
    ]


@dataclass
class _Probe:
    """A rung that was checked, with what was found."""

    rung: Rung
    result: Result


class Climber:
    """Climbs a network for one twin. `tell` is called with every rung as soon as it is checked."""

    def __init__(
        self, twin: Spec, options: Options, journal: Journal, tell: Callable[[Rung], None], way: Way
    ) -> None:
        self._twin = twin
        self._options = replace(options, shapes=None, preprocess=None, samples=None, seed=0)
        self._journal = journal
        self._tell = tell
        self._rungs: list[Rung] = []
        self._probes: dict[tuple[str, str], _Probe] = {}
        engine = find_engine(twin.engine)
        # Where only outputs are seen, a wrong rung may look right further up.
        seen = options.level == "intermediates" and engine.abilities.capture
        self._way: Way = "up" if way == "halves" and not seen else way

    def climb(self, source: Source) -> Climb:
        """Find the first bad rung, and the smallest block in it that is bad by itself."""
        order = tuple(place.name for place in source.places)
        index = self._first_bad(source, "")
        if index is None:
            return Climb(str(self._twin), order, tuple(self._rungs))
        bad = self._prefix(source, index, "")
        smallest, cut = self._descend(source, index, "")
        culprit = cut if smallest is not None and cut is not None else source.prefix(index)
        found = smallest or bad
        lean = replace(self._options, keep="none")
        fault = tell_fault(found.rung, self._twin, lambda spec: self._check(culprit, spec, lean))
        return Climb(
            str(self._twin),
            order,
            tuple(self._rungs),
            bad.rung,
            None if smallest is None else smallest.rung,
            fault,
        )

    # -- search --------------------------------------------------------------------------------------------------

    def _first_bad(self, source: Source, within: str) -> int | None:
        """The first place whose prefix is bad."""
        last = len(source.places) - 1
        if self._way == "every":
            bad = [self._prefix(source, i, within).rung.bad for i in range(last + 1)]
            for i in range(last + 1) if not within else ():
                self._block(source, i, within)
            return bad.index(True) if True in bad else None
        if self._way == "up":
            return next((i for i in range(last + 1) if self._prefix(source, i, within).rung.bad), None)
        top = self._prefix(source, last, within)
        if not top.rung.bad:
            return None
        guess = self._guess(source, top)
        if guess is None and top.rung.verdict == "ERROR":
            last = self._refused(source, within, last)
            guess = last
        return self._by_halves(source, within, last, guess)

    def _refused(self, source: Source, within: str, last: int) -> int:
        """A place at or below `last` that the engine refuses, mostly the first: parts are opened, and not judged."""
        modules = refusing_modules(source.prefix(last), self._twin, self._options)
        known = [p for p in map(source.index_of, modules) if p is not None]
        if known:
            found = min(known)
        else:
            found = first_refused(last, lambda i: opens(source.prefix(i), self._twin, self._options))
        return found if self._prefix(source, found, within).rung.bad else last

    def _by_halves(self, source: Source, within: str, high: int, guess: int | None) -> int:
        """The first bad place; `high` is bad. A finding says where to look first.

        What breaks a rung is in all rungs above it, too: they contain it, and every tensor is judged by its own inputs.
        """
        low = -1
        while high - low > 1:
            tries = [] if guess is None else [guess - 1, guess]
            middle = next((i for i in tries if low < i < high), (low + high) // 2)
            probe = self._prefix(source, middle, within)
            if probe.rung.bad:
                high = middle
                guess = self._guess(source, probe)
            else:
                low = middle
        return high

    def _guess(self, source: Source, probe: _Probe) -> int | None:
        """The place of the first finding, or of the module that a message names."""
        sites = [f.place for f in probe.result.findings]
        names = [name for site in sites for name in (site.module, site.node) if name]
        names += [name for found in _NAMED.findall(probe.rung.error) for name in found if name]
        known = [p for p in map(source.index_of, names) if p is not None]
        if probe.rung.verdict == "ERROR" and not known:
            known = _said(source, probe.rung.error)
        return min(known, default=None)

    def _descend(self, source: Source, index: int, within: str) -> tuple[_Probe | None, Cut | None]:
        """The smallest block inside a bad rung that is bad alone."""
        probe, cut = self._block(source, index, within)
        if probe is None or cut is None or not probe.rung.bad:
            return None, None
        inside = source.inside(index, cut)
        if inside is None:
            return probe, cut
        name = source.places[index].name
        path = f"{within}.{name}" if within else name
        # The whole of the inner ladder is this block, which was just checked.
        key = ("prefix", f"{path}/{inside.places[-1].name}")
        self._probes[key] = probe
        inner = self._first_bad(inside, path)
        if inner is None:
            return probe, cut
        smaller, part = self._descend(inside, inner, path)
        return (smaller, part) if smaller is not None else (probe, cut)

    # -- one rung ------------------------------------------------------------------------------------------------

    def _prefix(self, source: Source, index: int, within: str) -> _Probe:
        place = source.places[index]
        return self._probe("prefix", place, place.parameters, within, lambda: source.prefix(index))

    def _block(self, source: Source, index: int, within: str) -> tuple[_Probe | None, Cut | None]:
        place = source.places[index]
        if source.starts_at(index):
            return self._prefix(source, index, within), source.prefix(index)
        try:
            cut = source.block(index)
        except EngineError:  # what comes before it does not run, or it is not always called
            cut = None
        if cut is None:
            return None, None
        return self._probe("block", place, place.own, within, lambda: cut), cut

    def _probe(
        self,
        kind: Literal["prefix", "block"],
        place: Place,
        parameters: int,
        within: str,
        cut: Callable[[], Cut],
    ) -> _Probe:
        key = (kind, f"{within}/{place.name}")
        if key not in self._probes:
            name = f"{within}.{place.name}" if within else place.name
            self._probes[key] = self._checked(kind, name, place, parameters, cut)
            self._rungs.append(self._probes[key].rung)
            self._tell(self._probes[key].rung)
        return self._probes[key]

    def _checked(
        self,
        kind: Literal["prefix", "block"],
        name: str,
        place: Place,
        parameters: int,
        cut: Callable[[], Cut],
    ) -> _Probe:
        known = self._journal.find(self._twin, kind, name)
        if known is not None:
            return _Probe(*known)
        start = time.perf_counter()
        folder = self._journal.place(self._twin, kind, name)
        with MemoryWatch() as memory:
            result = self._check(cut(), self._twin, self._options, folder)
        finding = result.findings[0] if result.findings else None
        site = finding.place if finding is not None else result.first_failing
        rung = Rung(
            name,
            kind,
            place.kind,
            parameters,
            place.ops,
            result.verdict,
            weak=result.evidence == "weak",
            ratio=None if result.verdict == "ERROR" else worst_ratio(result),
            seconds=time.perf_counter() - start,
            memory=memory.peak,
            where="" if site is None else site.label,
            cause="" if finding is None or finding.cause is None else finding.cause.sentence,
            error=result.error.strip(),
            stage=result.stage,
            folder="" if folder is None else str(folder),
        )
        self._journal.note(self._twin, rung)
        return _Probe(rung, result)

    def _check(self, cut: Cut, twin: Spec, options: Options, folder: Path | None = None) -> Result:
        result = check_with(options, cut.network, list(cut.samples), str(twin), out=folder)
        assert isinstance(result, Result)
        return result
