"""The result of a check, as terminal, report, JSON, pytest and the debugger all read it.

`result.json` in a run folder holds the same, versioned by `SCHEMA`. Everything here is plain data, made by
`twinnet.judge` and shown by `twinnet.report`.
"""

from __future__ import annotations

from twinnet.result.cost import Cost
from twinnet.result.evidence import Coverage, Guard, InputsInfo, SideInfo, TaskMetric
from twinnet.result.facts import Fact, coded, fact, said
from twinnet.result.finding import Advice, AdviceStep, Cause, Finding
from twinnet.result.ladder import Climb, Fault, Ladder, Rung
from twinnet.result.pair import Difference, Judged, PairResult, Status
from twinnet.result.staged import Stage, StagedResult, Step
from twinnet.result.whole import SCHEMA, Result, ResultSet, Verdict, worst

__all__ = [
    "SCHEMA",
    "Advice",
    "AdviceStep",
    "Cause",
    "Climb",
    "Cost",
    "Coverage",
    "Difference",
    "Fact",
    "Fault",
    "Finding",
    "Guard",
    "InputsInfo",
    "Judged",
    "Ladder",
    "PairResult",
    "Result",
    "ResultSet",
    "Rung",
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
