"""summary.md: the answer for a pull request, in GitHub's Markdown."""

from __future__ import annotations

from twinnet.report import figures, staged, words
from twinnet.report.advice import advice_words
from twinnet.report.quoting import code_block, code_span, prose
from twinnet.report.sentences import words as said
from twinnet.result import Finding, Result, ResultSet, StagedResult

__all__ = ["render_markdown"]

_MARKS = {"PASS": "\u2705", "FAIL": "\u274c", "ERROR": "\u26a0\ufe0f"}
_MOST_FINDINGS = 20
_LOG_LINES = 30


def render_markdown(result: Result | ResultSet) -> str:
    """The text of summary.md: verdict, findings, guards, and the rest folded away."""
    if isinstance(result, Result):
        return _one(result)
    if isinstance(result, StagedResult):
        return _stages(result)
    lines = [f"## {_MARKS[result.verdict]} {result.verdict}: {len(result.results)} twins", ""]
    lines += ["| twin | verdict | worst | born in |", "|---|---|---:|---|"]
    for one in result.results:
        ratio = words.worst_ratio(one)
        site = one.findings[0].place if one.findings else one.first_failing
        worst = "" if ratio is None or one.verdict == "ERROR" else figures.times(ratio)
        verdict = f"{_MARKS[one.verdict]} {one.verdict}{' (weak)' if one.evidence == 'weak' else ''}"
        cells = (
            code_span(one.twin.spec or one.twin.name),
            verdict,
            worst,
            code_span(site.label) if site else "",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", *(_one(one) for one in result.results)])


def _stages(result: StagedResult) -> str:
    """The stages as a table, then the check of the one where the difference enters."""
    title = f"{code_span(result.network.name)} to {code_span(result.twin)}"
    lines = [
        f"## {_MARKS[result.verdict]} {result.verdict}: {title}",
        "",
        f"**{prose(staged.verdict_words(result))}**",
        "",
        f"| {' | '.join(staged.HEAD)} |",
        f"|{'---|' * len(staged.HEAD)}",
        *(f"| {' | '.join(prose(cell) for cell in staged.cells(stage))} |" for stage in result.stages),
    ]
    lines += ["", *(f"- {code_span(name)}: {prose(reason)}" for name, reason in staged.reasons(result))]
    entered = result.entered
    whole = result.result_of(entered) if entered is not None else None
    return "\n".join([*lines, "", _one(whole) if whole is not None else ""])


def _one(result: Result) -> str:
    title = f"{code_span(result.network.name)} and {code_span(result.twin.spec or result.twin.name)}"
    lines = [
        f"### {_MARKS[result.verdict]} {result.verdict}: {title}",
        "",
        f"**{prose(words.verdict_words(result))}**",
    ]
    if weak := words.weak_words(result):
        lines += ["", f"\u26a0\ufe0f Evidence is {prose(weak)}."]
    if result.verdict == "ERROR":
        lines += [
            "",
            code_block(
                "\n".join(
                    [*result.error.strip().splitlines(), *result.log.strip().splitlines()[-_LOG_LINES:]]
                )
            ),
        ]
    if result.findings:
        lines += ["", "| born in | source | x noise floor | share | cause |", "|---|---|---:|---:|---|"]
        lines += [_row(result, finding) for finding in result.findings[:_MOST_FINDINGS]]
        if (rest := len(result.findings) - _MOST_FINDINGS) > 0:
            lines += ["", f"+ {rest} more in the report"]
    if recalibrate := words.recalibrate_words(result):
        lines += ["", f"**{prose(recalibrate)}**"]
    if known := words.known_words(result):
        lines += ["", f"Known from the baseline, not counted: {prose(known)}"]
    if inherited := words.inherited_words(result):
        lines += ["", prose(inherited)]
    if result.guards:
        marks = ((f"{_MARKS['ERROR']} " if guard.weakens else "", guard) for guard in result.guards)
        lines += ["", *(f"- {mark}{prose(words.guard_words(guard))}" for mark, guard in marks)]
    lines += [f"- {prose(words.metric_words(metric))}" for metric in result.metrics]
    if result.advice is not None:
        lines += ["", prose(f"Advice: {advice_words(result.advice)}")]
    return "\n".join([*lines, "", *_folded(result), ""])


def _row(result: Result, finding: Finding) -> str:
    cause = prose(
        finding.cause.sentence if finding.cause else words.reason_words(result, finding) or "unknown"
    )
    if finding.confirmed is False:
        cause += f" ({prose(said(finding.confirmation))})"
    share = figures.percent(finding.born_share) if finding.born_share is not None else ""
    source = code_span(finding.place.source) if finding.place.source else ""
    place = code_span(words.place_words(finding))
    return f"| {place} | {source} | {figures.times(finding.ratio)} | {share} | {cause} |"


def _folded(result: Result) -> list[str]:
    rows = [
        ("network", words.side_words(result.network)),
        ("twin", words.side_words(result.twin)),
        ("inputs", words.inputs_words(result.inputs)),
        ("pairs", words.pairs_words(result) if result.coverage.sites else ""),
        ("tolerance", result.tolerance),
        ("time", ", ".join(f"{stage} {seconds:.2f} s" for stage, seconds in result.timings.items())),
        ("environment", ", ".join(f"{name} {version}" for name, version in result.environment.items())),
    ]
    lines = ["<details><summary>Details</summary>", "", "| | |", "|---|---|"]
    lines += [f"| {label} | {prose(text)} |" for label, text in rows if text]
    if result.command:
        lines += ["", code_block(result.command)]
    return [*lines, "", "</details>"]
