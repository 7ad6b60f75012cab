"""What a check found: the one form that terminal, report, JSON, pytest and the debugger all read.

`result.json` in a run folder is exactly this, versioned by `SCHEMA`. Everything here is plain data; who fills it
lives in `twinnet.judge`, who shows it in `twinnet.report`.
"""

from __future__ import annotations

from twinnet.result.evidence import Coverage, Guard, InputsInfo, SideInfo, TaskMetric
from twinnet.result.facts import Fact, coded, fact, said
from twinnet.result.finding import Advice, AdviceStep, Cause, Finding
from twinnet.result.pair import Difference, Judged, PairResult, Status
from twinnet.result.staged import Stage, StagedResult, Step
from twinnet.result.whole import SCHEMA, Result, ResultSet, Verdict, worst

__all__ = [
    "SCHEMA",
    "Advice",
    "AdviceStep",
    "Cause",
    "Coverage",
    "Difference",
    "Fact",
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
    "coded",
    "fact",
    "said",
    "worst",
]
