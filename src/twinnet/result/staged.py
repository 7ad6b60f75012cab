"""A network followed through its stages, from the module to the engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from twinnet.result.evidence import InputsInfo, SideInfo
from twinnet.result.whole import Result, ResultSet, Verdict, worst

__all__ = ["Stage", "StagedResult", "Step"]


@dataclass(frozen=True, slots=True)
class Step:
    """A stage compared with another one, named by `against`.

    `error` is the largest difference of an output, `ratio` the largest error in floor units. `result` counts in
    `results` of the whole; None where only these figures were kept.
    """

    against: str
    verdict: Verdict
    error: float | None = None
    ratio: float | None = None
    result: int | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """One form of the network on its way to the engine.

    `state` is "start" for the network itself, "ran", "error" (it could not run, `reason` says why) or "skipped" (it is
    not on the way to this twin). `before` is the step from the last stage that ran, `network` the one from the start.
    """

    name: str
    what: str = ""
    state: Literal["start", "ran", "error", "skipped"] = "ran"
    reason: str = ""
    file: str = ""
    before: Step | None = None
    network: Step | None = None


@dataclass(frozen=True, repr=False)
class StagedResult(ResultSet):
    """A network followed through its stages. `results` holds the whole result of each step, in order."""

    stages: tuple[Stage, ...] = ()
    network: SideInfo = field(default_factory=lambda: SideInfo("", ""))
    twin: str = ""
    inputs: InputsInfo = field(default_factory=lambda: InputsInfo(0, "", False))
    command: str = ""
    folder: str = ""

    @property
    def verdict(self) -> Verdict:
        steps = [s for stage in self.stages for s in (stage.before, stage.network) if s is not None]
        return worst([s.verdict for s in steps])

    @property
    def entered(self) -> Stage | None:
        """The stage where the difference enters: the first that differs from the one before it.

        Where no step exceeds its own budget but all of them together do, the first that differs from the network.
        """
        for kind in ("before", "network"):
            for stage in self.stages:
                step: Step | None = getattr(stage, kind)
                if step is not None and step.verdict == "FAIL":
                    return stage
        return None

    def result_of(self, stage: Stage) -> Result | None:
        """The whole result of the step into a stage, where it was kept."""
        step = stage.before if stage.before is not None and stage.before.verdict != "PASS" else stage.network
        step = step if step is not None and step.result is not None else stage.before
        return None if step is None or step.result is None else self.results[step.result]
