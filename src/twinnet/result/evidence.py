"""What was compared: the two sides, their inputs, how much of them, and what weakens the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from twinnet.result.facts import Fact

__all__ = ["Coverage", "Guard", "InputsInfo", "SideInfo", "TaskMetric"]


@dataclass(frozen=True, slots=True)
class Guard:
    """Something about the evidence that the reader must know. `weakens` marks what makes agreement prove less."""

    name: Literal[
        "degenerate data",
        "null baseline",
        "observer effect",
        "determinism",
        "coverage",
        "training mode",
        "structure",
        "note",
    ]
    fact: Fact
    weakens: bool = False

    @property
    def message(self) -> str:
        """The fact in words."""
        return str(self.fact)


@dataclass(frozen=True, slots=True)
class SideInfo:
    """One side of the comparison, in words and numbers; `given` is what the user called it, where it was a name."""

    name: str
    engine: str
    spec: str = ""
    version: str = ""
    format: str = ""
    parameters: int | None = None
    description: str = ""
    sites: int = 0
    precision: str = "float32"
    given: str = ""


@dataclass(frozen=True, slots=True)
class InputsInfo:
    """What was fed: how many samples, from where, and how they were prepared."""

    samples: int
    source: str
    synthetic: bool
    shapes: Mapping[str, str] = field(default_factory=dict)
    preprocessing: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of the network was compared: `paired` of `sites`; `unmatched` names the rest of the network's side.

    `note` is what limits the judgement, if anything does.
    """

    sites: int = 0
    paired: int = 0
    twin_sites: int = 0
    judged: int = 0
    unmatched: tuple[str, ...] = ()
    unmatched_twin: tuple[str, ...] = ()
    note: Fact | None = None

    @property
    def share(self) -> float:
        """Paired share of the network's sites."""
        return self.paired / self.sites if self.sites else 0.0


@dataclass(frozen=True, slots=True)
class TaskMetric:
    """The user's own measure (`--metric file.py:fn`) on the outputs of both sides, averaged over samples."""

    name: str
    network: float | None
    twin: float | None
    between: float | None = None
