"""Collects the seeds of repros sample by sample, before the tensors are freed.

The code that makes seeds is imported only when something fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from twinnet.errors import EngineError

if TYPE_CHECKING:
    from twinnet.engines import Spec
    from twinnet.engines.base import Session
    from twinnet.engines.spec import Twin
    from twinnet.job import Job
    from twinnet.judge.plan import Plan
    from twinnet.judge.sample import Seen
    from twinnet.network import Network
    from twinnet.result import PairResult, Result
    from twinnet.shrink.seed import Seed

__all__ = ["Seeds", "Source", "save", "seeds_of_error"]


@dataclass(frozen=True)
class Source:
    """Where the two sides come from, for the repro to start them. `derived`: the twin is made from the network."""

    network: Network
    reference: Spec | Session
    twin: Twin
    derived: bool
    job: Job


class Seeds:
    """The seeds of one check; a worse sample replaces an earlier one. `known` are tensors that a baseline knows."""

    def __init__(
        self, plan: Plan, source: Source, *, wanted: bool = True, known: frozenset[str] = frozenset()
    ) -> None:
        self._plan = plan
        self._known = known
        self._source = source
        self._wanted = wanted
        self._found: dict[str, Seed] = {}

    def add(self, seen: Seen, judged: Sequence[PairResult]) -> None:
        """Take seeds of the failing pairs of one sample."""
        if not self._wanted or not any(p.status == "fail" for p in judged):
            return
        try:
            from twinnet.shrink.gather import Gatherer
        except ImportError:  # two recordings are compared without onnx and torch
            return
        self._source.job.progress("keeping the findings for a repro")
        with self._source.job.step("repro", ours=True):
            gatherer = Gatherer(self._plan, self._source, seen)
            # Those that a baseline knows come last: room for the new ones first.
            for old in (False, True):
                gatherer.add([p for p in judged if (p.site.tensor in self._known) is old], self._found)

    def of(self, result: Result) -> tuple[Seed, ...]:
        """All seeds, in the order of their findings."""
        order = {f.site.tensor: i for i, f in enumerate(result.findings)}
        return tuple(self._found[n] for n in sorted(self._found, key=lambda n: order.get(n, len(order))))


def seeds_of_error(source: Source, error: EngineError, *, opened: bool) -> tuple[Seed, ...]:
    """The seed of an engine's refusal, if there is one; `opened`: the network's own side had been opened by then."""
    try:
        from twinnet.shrink.error_seed import error_seed
    except ImportError:  # without onnx there is nothing to cut
        return ()
    seed = error_seed(source, error, opened=opened)
    return () if seed is None else (seed,)


def save(folder: Path, seeds: Sequence[Seed]) -> None:
    """Save seeds in a run folder."""
    if seeds:
        from twinnet.shrink.seed import save_seeds

        save_seeds(folder, seeds)
