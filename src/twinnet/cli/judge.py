"""`twinnet judge`: judge a finished run again."""

from __future__ import annotations

from typing import Annotated

import typer

from twinnet.cli import options as o
from twinnet.cli._groups import grouped

__all__ = ["command"]


@grouped
def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Run folder of a check.")],
    *,
    stated: o.Stated,
    baseline: o.Baseline = None,
    answer: o.Answer,
) -> None:
    """Judge a finished run by other tolerances, or against a baseline, without running anything."""
    from twinnet.judge.again import against_baseline, judge_again, stages_again
    from twinnet.result import Result, ResultSet, StagedResult

    tolerances = stated.tolerances()

    def again(one: Result) -> Result:
        if one.verdict == "ERROR":
            return one
        one = judge_again(one, tolerances)
        return one if baseline is None else against_baseline(one, baseline)

    loaded = Result.load(run)
    if isinstance(loaded, StagedResult):
        result = stages_again(loaded, again)
    else:
        result = ResultSet(tuple(map(again, loaded))) if isinstance(loaded, ResultSet) else again(loaded)
    answer.give(result)
    answer.leave(result)
