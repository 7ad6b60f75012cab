"""`twinnet judge`: judge a finished run again."""

from __future__ import annotations

from typing import Annotated

import typer

from twinnet.cli import options as o

__all__ = ["command"]


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Run folder of a check.")],
    rtol: o.Rtol = None,
    atol: o.Atol = None,
    ulp: o.Ulp = None,
    snr: o.Snr = None,
    psnr: o.Psnr = None,
    cosine: o.Cosine = None,
    tolerance: o.ToleranceFile = None,
    baseline: Annotated[
        str | None,
        typer.Option("--baseline", metavar="RUN", help="Fail only on what this earlier run did not show."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="A PASS on data that could not show a fault exits with 1.")
    ] = False,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
    as_json: o.Json = False,
) -> None:
    """Judge a finished run under other tolerances, or against a baseline, without running anything."""
    from twinnet.cli._screen import answer, exit_code
    from twinnet.judge.again import against_baseline, judge_again, stages_again
    from twinnet.judge.tolerance import Tolerance, Tolerances, read_rules
    from twinnet.result import Result, ResultSet, StagedResult

    rules = read_rules(tolerance) if tolerance else ()
    tolerances = Tolerances.of(Tolerance(rtol, atol, ulp, snr, psnr, cosine), rules)

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
    answer(result, quiet=quiet, verbose=verbose, as_json=as_json)
    raise typer.Exit(exit_code(result, strict=strict))
