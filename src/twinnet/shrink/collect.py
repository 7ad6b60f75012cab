"""What the repros of a check's findings start from, taken sample by sample while the tensors are there.

A check says what it saw; nothing in `judge` knows who listens. What makes seeds loads only when something fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from twinnet.errors import EngineError

if TYPE_CHECKING:
    from twinnet.judge.judgement import Judgement
    from twinnet.judge.seen import Seen
    from twinnet.result import PairResult, Result
    from twinnet.shrink.seed import Seed

__all__ = ["Seeds"]


class Seeds:
    """The seeds of one check. Listens to its judgement: a worse sample takes the place of an earlier one."""

    def __init__(self, judgement: Judgement) -> None:
        self._judgement = judgement
        self._found: dict[str, Seed] = {}
        self._wanted = judgement.settings.keep != "none"
        if self._wanted:
            judgement.listeners.append(self.add)

    def add(self, judged: Sequence[PairResult], seen: Seen) -> None:
        """Take seeds from what fails in one sample."""
        if not any(p.status == "fail" for p in judged):
            return
        try:
            from twinnet.shrink.gather import Gatherer
        except ImportError:  # two recordings are compared without onnx and torch
            return
        check = self._judgement
        net, twin = check.sides.net, check.sides.twin
        assert net is not None and twin is not None
        check.settings.progress("keeping the findings for a repro", None)
        with check.job.step("repro"):
            traces = (seen.trace, seen.twin_trace)
            gatherer = Gatherer(
                check, (net, twin), seen.graph, seen.test, seen.pairing, traces, seen.sample, seen.unit
            )
            gatherer.add(judged, self._found)

    def of(self, result: Result) -> tuple[Seed, ...]:
        """All of them, in the order of the findings they belong to."""
        order = {f.site.tensor: i for i, f in enumerate(result.findings)}
        return tuple(self._found[n] for n in sorted(self._found, key=lambda n: order.get(n, len(order))))

    def of_error(self, error: EngineError) -> tuple[Seed, ...]:
        """The network that an engine refused."""
        if not self._wanted:
            return ()
        try:
            from twinnet.shrink.gather import error_seed
        except ImportError:  # without onnx there is nothing to cut
            return ()
        seed = error_seed(self._judgement, error)
        return () if seed is None else (seed,)

    @staticmethod
    def save(folder: Path, seeds: Sequence[Seed]) -> None:
        """Keep seeds in a run folder; those of an earlier run there go."""
        from twinnet.shrink.seed import FOLDER, save_seeds

        if seeds or (folder / FOLDER).exists():
            save_seeds(folder, seeds)
