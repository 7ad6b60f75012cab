"""What a check found: the one form that terminal, report, JSON, pytest and the debugger all read.

`result.json` in a run folder is exactly this, versioned by `SCHEMA`. Everything here is plain data; who fills it
lives in `twinnet.judge`, who shows it in `twinnet.report`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from twinnet.site import Site

__all__ = [
    "SCHEMA",
    "Advice",
    "AdviceStep",
    "Cause",
    "Coverage",
    "Difference",
    "Finding",
    "Guard",
    "InputsInfo",
    "Judged",
    "PairResult",
    "Result",
    "ResultSet",
    "SideInfo",
    "Stage",
    "StagedResult",
    "Status",
    "Step",
    "TaskMetric",
    "Verdict",
    "worst",
]

SCHEMA = 1

Verdict = Literal["PASS", "FAIL", "ERROR"]
Status = Literal["pass", "fail", "excused", "untested", "not judged"]


def worst(verdicts: list[Verdict]) -> Verdict:
    """The verdict of several checks together: any FAIL is FAIL, else any ERROR is ERROR.

    >>> worst(["PASS", "ERROR", "FAIL"])
    'FAIL'
    """
    return "FAIL" if "FAIL" in verdicts else "ERROR" if "ERROR" in verdicts else "PASS"


@dataclass(frozen=True, slots=True)
class Difference:
    """How far one tensor is from its counterpart; every figure over all elements of the worst input.

    The figures that a tolerance can name (hull, ulp, snr, psnr, cosine) are each the worst over all inputs.

    `relative` is `max_abs` over the reference's range, `ulp` the distance in units in the last place (None for
    integers), decibel figures are infinite where nothing differs. `channel` is the channel (axis 1 of a tensor with
    three or more axes, else the last axis) with the largest error, `index` the element. `hull` holds the points
    (|reference|, |difference|) that decide every tolerance of the form atol + rtol * |reference|.
    """

    elements: int = 0
    max_abs: float = 0.0
    mean_abs: float = 0.0
    relative: float = 0.0
    mse: float = 0.0
    snr: float = float("inf")
    psnr: float = float("inf")
    cosine: float = 1.0
    ulp: int | None = None
    differing: int = 0
    nan_reference: int = 0
    nan_twin: int = 0
    inf_reference: int = 0
    inf_twin: int = 0
    nonfinite_mismatch: int = 0
    channel: int | None = None
    channel_max_abs: float | None = None
    index: tuple[int, ...] = ()
    value_reference: float | None = None
    value_twin: float | None = None
    range_reference: tuple[float, float] = (0.0, 0.0)
    hull: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Judged:
    """A status, why, and by which rule."""

    status: Status
    reason: str = ""
    rule: str = "noise floor"


@dataclass(frozen=True, slots=True)
class PairResult:
    """One pair and its judgement.

    `difference` is the plain end-to-end comparison of the two captured tensors. `born` is the error this segment
    creates from the inputs the twin itself gave it (absolute, at the worst element), `floor` what rounding may
    create there, `ratio` the largest born error in floor units; `limit` is the ratio that is allowed. `segment`
    names the network's layers that were evaluated, last one first. `reason` says why a status is not "pass".
    """

    site: Site
    twin_site: Site
    status: Status
    how: str = "provenance"
    confidence: float = 1.0
    transform: str = ""
    reason: str = ""
    order: int = 0
    born: float | None = None
    floor: float | None = None
    ratio: float | None = None
    limit: float = 4.0
    rule: str = "noise floor"
    segment: tuple[str, ...] = ()
    sample: int = 0
    difference: Difference = field(default_factory=Difference)
    automatic: Judged | None = None
    """What holds without stated tolerances, where these decided; None where the status is that already."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a finding differs; `kind` from one documented enumeration, `explains` the share of the born error."""

    kind: str
    sentence: str
    explains: float
    network_value: Any = None
    twin_value: Any = None


@dataclass(frozen=True, slots=True)
class Finding:
    """A segment whose born error exceeds its budget.

    `error` is the end-to-end difference at the site, `born` the part created here, `floor` what rounding explains,
    `ratio` = born over floor. `inherited_by` counts the later failing sites that lie downstream of it.

    `confirmed` tells whether the twin's segment, run alone on the inputs it had, shows it too (`confirmation` says that
    in words); None where it cannot be run alone. `also` are further places with the same fault in a weight that they
    share, or in other rotations of the same term of tables. `merged` names the segments that, together with this one,
    explain the share `explained` of the output error, where the findings by themselves explain less than 90 % of it.
    """

    site: Site
    twin_site: Site
    error: float
    floor: float
    ratio: float
    born: float
    impact: float | None = None
    born_share: float | None = None
    cause: Cause | None = None
    segment: tuple[str, ...] = ()
    inherited_by: int = 0
    reason: str = ""
    confirmed: bool | None = None
    confirmation: str = ""
    also: tuple[Site, ...] = ()
    merged: tuple[str, ...] = ()
    explained: float | None = None


@dataclass(frozen=True, slots=True)
class AdviceStep:
    """The outputs with some segments kept in float: how many, which (tensors of the network), and how near they come.

    `snr` and `psnr` are of the worst output over all inputs that were run, `max_abs` is its largest difference.
    """

    kept: int
    tensors: tuple[str, ...]
    places: tuple[str, ...]
    snr: float
    psnr: float
    max_abs: float


@dataclass(frozen=True, slots=True)
class Advice:
    """Which segments to keep in float, and what that was seen to give.

    `steps` begin with the twin as it is. `best` is the number of segments advised, one of the steps. `how` tells
    whether the twin was run that way or only simulated with the network's layers, and `note` why. `file` is the
    improved twin, where one was written.
    """

    steps: tuple[AdviceStep, ...]
    best: int
    how: Literal["run", "simulated"]
    samples: int
    note: str = ""
    target: float | None = None
    reached: bool = True
    file: str = ""

    @property
    def chosen(self) -> AdviceStep:
        """The step that is advised."""
        return next((s for s in self.steps if s.kept == self.best), AdviceStep(0, (), (), 0.0, 0.0, 0.0))


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
        "note",
    ]
    message: str
    weakens: bool = False


@dataclass(frozen=True, slots=True)
class SideInfo:
    """One side of the comparison, in words and numbers."""

    name: str
    engine: str
    spec: str = ""
    version: str = ""
    format: str = ""
    parameters: int | None = None
    description: str = ""
    sites: int = 0
    precision: str = "float32"


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
    """How much of the network was compared: `paired` of `sites`; `unmatched` names the rest of the network's side."""

    sites: int = 0
    paired: int = 0
    twin_sites: int = 0
    judged: int = 0
    unmatched: tuple[str, ...] = ()
    unmatched_twin: tuple[str, ...] = ()
    note: str = ""

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


@dataclass(frozen=True)
class Result:
    """The answer of one check. Its `repr` is the one-screen report.

    `evidence` is "weak" when the data could not have shown a fault (the guard says why). `error` is set for the
    verdict ERROR only: what could not run, in the engine's words, and at which `stage`.
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

    @property
    def exit_code(self) -> int:
        """0 PASS, 1 FAIL, 3 ERROR."""
        return {"PASS": 0, "FAIL": 1, "ERROR": 3}[self.verdict]

    def __repr__(self) -> str:
        from twinnet.report.terminal import render_text

        return render_text(self)

    def _repr_html_(self) -> str:
        from twinnet.report.html import render_fragment

        return render_fragment(self)

    def to_json(self) -> str:
        """The text of result.json."""
        from twinnet.report.json_file import dump_result

        return dump_result(self)

    @staticmethod
    def load(folder: str | Path) -> Result | ResultSet:
        """Read `result.json` of a run folder back."""
        from twinnet.report.json_file import load_result

        return load_result(folder)


@dataclass(frozen=True)
class ResultSet:
    """Several twins of one network, checked in one go."""

    results: tuple[Result, ...]
    schema: int = SCHEMA

    @property
    def verdict(self) -> Verdict:
        return worst([r.verdict for r in self.results])

    @property
    def exit_code(self) -> int:
        return {"PASS": 0, "FAIL": 1, "ERROR": 3}[self.verdict]

    def __repr__(self) -> str:
        from twinnet.report.terminal import render_text

        return render_text(self)

    def __iter__(self):
        return iter(self.results)


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
