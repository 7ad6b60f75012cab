"""A network climbed rung by rung, until its twin breaks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from twinnet.result.whole import Verdict, exit_code, worst

__all__ = ["Climb", "Fault", "Ladder", "Rung"]


@dataclass(frozen=True, slots=True)
class Rung:
    """One cut of the network, converted and checked.

    `cut` is "prefix" for everything up to a place and "block" for the place alone, on the inputs it has in the network.
    `parameters` are those of the cut, `ops` the kinds of operators that the rungs before do not have. `ratio` is the
    largest error in floor units, `memory` the most that this process and those of the engine held together, in bytes.
    `where` and `cause` tell what was blamed, `error` and `stage` why it could not run.
    """

    name: str
    cut: Literal["prefix", "block"]
    kind: str
    parameters: int
    ops: tuple[str, ...]
    verdict: Verdict
    weak: bool = False
    ratio: float | None = None
    seconds: float = 0.0
    memory: int = 0
    where: str = ""
    cause: str = ""
    error: str = ""
    stage: str = ""
    folder: str = ""

    @property
    def bad(self) -> bool:
        """Whether the twin breaks here, in one way or the other."""
        return self.verdict != "PASS"


@dataclass(frozen=True, slots=True)
class Fault:
    """Whether a fault is in conversion or in execution; `tried` are the specs that were run to tell."""

    kind: Literal["conversion", "execution", "quantisation", "unknown"]
    sentence: str
    tried: tuple[tuple[str, Verdict], ...] = ()


@dataclass(frozen=True, slots=True)
class Climb:
    """The rungs of one twin, in the order they were checked.

    `bad` is the first prefix that breaks, `smallest` the smallest block that still does, by itself; None where only the
    whole of `bad` does. `order` are all places of the network, from the bottom up.
    """

    twin: str
    order: tuple[str, ...]
    rungs: tuple[Rung, ...]
    bad: Rung | None = None
    smallest: Rung | None = None
    fault: Fault | None = None

    @property
    def verdict(self) -> Verdict:
        return worst([rung.verdict for rung in self.rungs])

    @property
    def culprit(self) -> Rung | None:
        """The smallest cut that breaks."""
        return self.smallest or self.bad


@dataclass(frozen=True)
class Ladder:
    """A network climbed for each of its twins."""

    network: str
    format: str
    parameters: int
    inputs: str
    climbs: tuple[Climb, ...]
    command: str = ""
    folder: str = ""

    @property
    def verdict(self) -> Verdict:
        return worst([climb.verdict for climb in self.climbs])

    @property
    def exit_code(self) -> int:
        return exit_code(self.verdict)
