"""The result of one check, and of several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from twinnet.errors import Accident
from twinnet.result.cost import Cost
from twinnet.result.evidence import Coverage, Guard, InputsInfo, SideInfo, TaskMetric
from twinnet.result.finding import Advice, Finding
from twinnet.result.pair import PairResult
from twinnet.result.speech import speaker
from twinnet.site import Site

__all__ = ["SCHEMA", "Result", "ResultSet", "Verdict", "exit_code", "worst"]

SCHEMA = 2

Verdict = Literal["PASS", "FAIL", "ERROR"]
_EXIT_CODES = {"PASS": 0, "FAIL": 1, "ERROR": 3}


def worst(verdicts: list[Verdict]) -> Verdict:
    """The verdict of several checks together: any FAIL is FAIL, else any ERROR is ERROR.

    >>> worst(["PASS", "ERROR", "FAIL"])
    'FAIL'
    """
    return "FAIL" if "FAIL" in verdicts else "ERROR" if "ERROR" in verdicts else "PASS"


def exit_code(verdict: Verdict) -> int:
    """0 PASS, 1 FAIL, 3 ERROR."""
    return _EXIT_CODES[verdict]


@dataclass(frozen=True)
class Result:
    """The result of one check. Its `repr` is the one-screen report.

    `evidence` is "weak" when the data could not have shown a fault (the guard says why). `error` is set for the
    verdict ERROR only: what could not run, in the engine's words, and at which `stage`; `accident` says why it need not
    come again (time, memory, killed, connection, machine). `argv` are the words of the command line that started the
    check, `command` the same as one string. `known` are the tensors whose failure the
    baseline had, `known_findings` what was found out about them; neither counts.
    """

    verdict: Verdict
    network: SideInfo
    twin: SideInfo
    inputs: InputsInfo
    coverage: Coverage = field(default_factory=Coverage)
    guards: tuple[Guard, ...] = ()
    evidence: Literal["strong", "weak"] = "strong"
    outputs: tuple[PairResult, ...] = ()
    pairs: tuple[PairResult, ...] = ()
    failing: int = 0
    first_failing: Site | None = None
    findings: tuple[Finding, ...] = ()
    contributors: tuple[Finding, ...] = ()
    metrics: tuple[TaskMetric, ...] = ()
    tolerance: str = "automatic"
    known: tuple[str, ...] = ()
    error: str = ""
    stage: str = ""
    log: str = ""
    timings: Mapping[str, float] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    folder: str = ""
    schema: int = SCHEMA
    advice: Advice | None = None
    judged_by: str = "layers"
    """What the sites were judged by: canonical layers, or a network's own meaning ("tables")."""
    argv: tuple[str, ...] = ()
    known_findings: tuple[Finding, ...] = ()
    accident: Accident = ""
    cost: Cost | None = None
    """What the twin costs, if that was measured (`--profile`)."""
    seeds: tuple[Any, ...] = field(default=(), compare=False)
    """What repros of the findings start from, in memory; a run folder keeps them in separate files."""
    tensors: Mapping[str, tuple[Any, Any]] = field(default_factory=dict, compare=False, repr=False)
    """Both sides of the worst tensors, in memory, by the network's names; a run folder keeps them in files."""

    @property
    def exit_code(self) -> int:
        """0 PASS, 1 FAIL, 3 ERROR."""
        return exit_code(self.verdict)

    def __repr__(self) -> str:
        return speaker().screen(self)

    def _repr_html_(self) -> str:
        return speaker().fragment(self)

    def to_json(self) -> str:
        """The text of result.json."""
        return speaker().to_json(self)

    def to_frame(self) -> Any:
        """All pairs with their figures, as a pandas DataFrame; the columns are those of pairs.csv."""
        return speaker().frame(self)

    def show(self, site: str = "") -> Any:
        """Draw the difference at one site: its tensor, module, output, or a part of one; by default the worst.

        In a notebook the answer is drawn as pictures, elsewhere as text.
        """
        return speaker().drawing(self, site)

    def save(self, folder: str | Path) -> Path:
        """Write a run folder after the check. For repros use `out=` in the check, or `twinnet.repro(result)`."""
        return speaker().save(self, folder)

    @staticmethod
    def load(folder: str | Path) -> Result | ResultSet:
        """Read `result.json` of a run folder back."""
        return speaker().load(folder)


@dataclass(frozen=True)
class ResultSet:
    """The results of several twins of one network."""

    results: tuple[Result, ...]
    schema: int = SCHEMA

    @property
    def verdict(self) -> Verdict:
        return worst([r.verdict for r in self.results])

    @property
    def exit_code(self) -> int:
        return exit_code(self.verdict)

    def __repr__(self) -> str:
        return speaker().screen(self)

    def _repr_html_(self) -> str:
        return speaker().fragment(self)

    def to_frame(self) -> Any:
        """All pairs of all twins, as a pandas DataFrame."""
        return speaker().frame(self)

    def save(self, folder: str | Path) -> Path:
        """Write a run folder after the check."""
        return speaker().save(self, folder)

    def __iter__(self):
        return iter(self.results)
