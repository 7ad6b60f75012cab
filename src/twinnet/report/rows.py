"""What the one screen says, paragraph by paragraph: of one check, of several twins, of the stages of a network."""

from __future__ import annotations

from collections.abc import Sequence

from twinnet.report import figures, staged, words
from twinnet.report.advice import advice_rows, advice_words
from twinnet.report.layout import LABEL, Row, width_of, wrap
from twinnet.report.next_steps import next_command
from twinnet.report.sentences import words as said
from twinnet.result import Advice, Fact, Finding, Result, ResultSet, StagedResult

__all__ = ["rows_of"]

_FINDINGS_SHOWN = 3
_LOG_LINES = 6
_VERDICT_STYLE = {"PASS": "bold green", "FAIL": "bold red", "ERROR": "bold yellow"}


def rows_of(result: Result | ResultSet, *, verbose: bool, width: int) -> list[Row]:
    """All paragraphs of the screen; `width` is what the table of several twins has to fit into."""
    if isinstance(result, Result):
        return _result_rows(result, verbose)
    if isinstance(result, StagedResult):
        return _staged_rows(result, verbose)
    ordered = sorted(result.results, key=_badness)
    if not ordered:
        return [Row("", ("no twin was checked",))]
    rows = _matrix(result, width)
    if len(ordered) > 1:
        head = f"details of the worst, {words.side_words(ordered[-1].twin)}:"
        rows += [Row("", ("",)), Row("", (head,), "bold")]
    else:
        rows.append(Row("", ("",)))
    return rows + _result_rows(ordered[-1], verbose)


def _staged_rows(result: StagedResult, verbose: bool) -> list[Row]:
    rows = [
        Row("network", (words.side_words(result.network), figures.clean(result.twin)), labels=("twin",)),
        Row("inputs", (words.inputs_words(result.inputs),)),
        Row("", ("",)),
        *(Row("", (line,), "", verbatim=True) for line in staged.table(result)),
        Row("", ("",)),
        Row(result.verdict, (staged.verdict_words(result),), _VERDICT_STYLE[result.verdict]),
    ]
    entered = result.entered
    whole = result.result_of(entered) if entered is not None else None
    if whole is not None:
        rows += _finding_rows(whole, verbose)
        if sides := staged.sides_words(entered):
            rows.append(Row("", (f"{' ' * LABEL}{sides}",)))
    rows += [Row("reason", (f"{name}: {reason}",), "yellow") for name, reason in staged.reasons(result)]
    if verbose:
        rows += [
            Row("stage", (f"{figures.clean(s.name)}: {figures.clean(s.what)}",))
            for s in result.stages
            if s.what
        ]
        rows += [Row("file", (figures.clean(s.file),)) for s in result.stages if s.file]
    return rows + _closing_rows(result, *staged.next_command(result))


def _badness(result: Result) -> tuple[int, float]:
    return {"PASS": 0, "ERROR": 1, "FAIL": 2}[result.verdict], words.worst_ratio(result) or 0.0


def _result_rows(result: Result, verbose: bool) -> list[Row]:
    rows = [
        Row("network", (words.side_words(result.network), words.side_words(result.twin)), labels=("twin",)),
        Row("inputs", (words.inputs_words(result.inputs), words.pairs_words(result)), labels=("pairs",))
        if result.coverage.sites
        else Row("inputs", (words.inputs_words(result.inputs),)),
    ]
    if result.tolerance not in ("", "automatic"):
        rows.append(Row("limits", (figures.clean(result.tolerance),)))
    rows.append(Row("", ("",)))
    rows.append(Row(result.verdict, (words.verdict_words(result),), _VERDICT_STYLE[result.verdict]))
    if weak := words.weak_words(result):
        rows.append(Row("evidence", (weak,), "bold yellow"))
    if result.verdict == "ERROR":
        rows += _error_rows(result, verbose)
    for rule, pairs in words.broken_rules(result).items():
        for pair in pairs[:_FINDINGS_SHOWN]:
            where = figures.clean(pair.site.label), figures.clean(f"{said(pair.reason)} (rule {rule})")
            rows.append(Row("breaks", where, "bold"))
        if (rest := len(pairs) - _FINDINGS_SHOWN) > 0:
            rows.append(Row("", (f"{' ' * LABEL}+ {rest} more in pairs.csv",)))
    rows += _finding_rows(result, verbose)
    if inherited := words.inherited_words(result):
        rows.append(Row("", (inherited,)))
    if recalibrate := words.recalibrate_words(result):
        rows.append(Row("so", (recalibrate,), "bold"))
    if known := words.known_words(result):
        rows.append(Row("known", (known,), "yellow"))
    rows += [Row("guard", (words.guard_words(g),), "yellow" if g.weakens else "dim") for g in result.guards]
    rows += [Row("metric", (words.metric_words(m),)) for m in result.metrics]
    if result.advice is not None:
        rows += _advice_rows(result.advice)
    if verbose:
        rows += _verbose_rows(result)
    return rows + _closing_rows(result, *next_command(result))


def _error_rows(result: Result, verbose: bool) -> list[Row]:
    message = [figures.clean(line) for line in result.error.strip().splitlines()] or ["no message was given"]
    rows = [
        Row("reason", (message[0],), "yellow"),
        *(Row("", (" " * LABEL + line,)) for line in message[1:]),
    ]
    log = [figures.clean(line.expandtabs()) for line in result.log.strip().splitlines()]
    if " ".join(log) in " ".join(message):
        log = []  # said already
    shown = log if verbose else log[-_LOG_LINES:]
    for i, line in enumerate(shown):
        rows.append(Row("" if i else "log", ((" " * LABEL if i else "") + line,)))
    return rows


def _finding_rows(result: Result, verbose: bool) -> list[Row]:
    rows: list[Row] = []
    groups = [[f] for f in result.findings] if verbose else _by_cause(result.findings)
    for first, *others in groups[:_FINDINGS_SHOWN]:
        rows += _one_finding(result, first, verbose)
        if others:
            places = [figures.clean(other.place.label) for other in others[:_FINDINGS_SHOWN]]
            places += [f"{len(others) - _FINDINGS_SHOWN} more"] if len(others) > _FINDINGS_SHOWN else []
            rows.append(Row("also in", (f"{', '.join(places)}, for the same cause",)))
    if (rest := sum(map(len, groups[_FINDINGS_SHOWN:]))) > 0:
        rows.append(Row("", (f"{' ' * LABEL}+ {rest} more in the report",)))
    if result.verdict == "FAIL" and not result.findings and result.first_failing is not None:
        site = result.first_failing
        rows.append(Row("first at", _present(figures.clean(site.label), figures.clean(site.source)), "bold"))
    return rows


def _by_cause(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Findings in their order; one of which only the place is new stands with the first that has its cause."""
    groups: list[list[Finding]] = []
    ByCause: dict[Fact, list[Finding]] = {}
    for finding in findings:
        more = finding.also or finding.merged or finding.confirmed is False or _broken(finding)
        if finding.cause is None or finding.cause.fact not in ByCause or more:
            groups.append([finding])
        else:
            ByCause[finding.cause.fact].append(finding)
        if finding.cause is not None:
            ByCause.setdefault(finding.cause.fact, groups[-1])
    return groups


def _broken(finding: Finding) -> bool:
    """Whether it is there for a stated limit."""
    return finding.reason is not None and finding.reason.code.startswith("tolerance.")


def _one_finding(result: Result, finding: Finding, verbose: bool) -> list[Row]:
    source = figures.clean(finding.place.source)
    parts = _present(words.place_words(finding), source, words.share_words(finding))
    rows = [Row("born in", parts, "bold")]
    if finding.also:
        places = ", ".join(figures.clean(site.label) for site in finding.also)
        rows.append(Row("and in", (f"{places}   ({words.also_words(finding)})",)))
    if finding.merged:
        share = figures.percent(finding.explained)
        rows.append(
            Row(
                "with", (f"{figures.clean(', '.join(finding.merged))}: together {share} of the output error",)
            )
        )
    if finding.cause is not None:
        explains = f"[explains{figures.NBSP}{figures.percent(finding.cause.explains, 2)}]"
        rows.append(Row("cause", (f"{figures.clean(finding.cause.sentence)}   {explains}",), "bold"))
    if (finding.cause is None or _broken(finding)) and (reason := words.reason_words(result, finding)):
        rows.append(Row("because", (reason,)))
    if finding.confirmed is False or (verbose and finding.confirmation is not None):
        rows.append(Row("alone", (figures.clean(said(finding.confirmation)),)))
    if verbose:
        size = f"error here {figures.figure(finding.error)}, born {figures.figure(finding.born)}"
        rows.append(
            Row("size", (f"{size}, floor {figures.figure(finding.floor)}, {figures.times(finding.ratio)}",))
        )
        rows.append(Row("twin at", (figures.clean(finding.twin_site.label),)))
        if len(finding.segment) > 1:
            rows.append(Row("segment", (figures.clean(", ".join(finding.segment)),)))
    return rows


def _advice_rows(advice: Advice) -> list[Row]:
    rows = [Row("advise", (advice_words(advice),), "bold")]
    if len(advice.steps) > 1:
        head = ("kept", "SNR", "PSNR", "largest", "time", "in float")
        timed = any(step.seconds is not None for step in advice.steps)
        for kept, snr, psnr, most, spent, added in (head, *advice_rows(advice)):
            shown = f"  {spent:>8}" if timed else ""
            line = f"{kept:<4}  {snr:>8}  {psnr:>8}  {most:>8}{shown}   {added}"
            rows.append(Row("", (" " * LABEL + line.rstrip(),)))
    return rows


def _verbose_rows(result: Result) -> list[Row]:
    rows = []
    for finding in result.contributors[:5]:
        parts = _present(figures.clean(finding.site.label), words.share_words(finding))
        rows.append(Row("adds", parts))
    if result.timings:
        rows.append(
            Row("time", (", ".join(f"{figures.clean(k)} {v:.2f} s" for k, v in result.timings.items()),))
        )
    if result.environment:
        rows.append(
            Row("with", (", ".join(figures.clean(f"{k} {v}") for k, v in result.environment.items()),))
        )
    if result.command:
        rows.append(Row("command", (figures.clean(result.command),)))
    return rows


def _closing_rows(result: Result | StagedResult, command: str, does: str) -> list[Row]:
    """Where the report is, and what to type next."""
    rows = []
    if result.folder:
        rows.append(Row("report", (figures.clean(f"{result.folder.rstrip('/')}/report.html"),)))
    if command:
        rows.append(Row("next", (command, f"({does})"), "bold"))
    return [Row("", ("",)), *rows] if rows else []


def _present(*parts: str) -> tuple[str, ...]:
    return tuple(part for part in parts if part) or ("(unnamed)",)


def _matrix(result: ResultSet, width: int) -> list[Row]:
    """One line per twin: verdict, worst ratio, time, birthplace and cause; paragraphs where that is too narrow."""
    head = ("twin", "verdict", "worst", "time", "born in")
    body = [_matrix_cells(one) for one in result.results]
    fixed = [max(width_of(row[i]) for row in (head, *body)) for i in (1, 2, 3)]
    free = width - sum(fixed) - 2 * 4
    if free < 24:
        return [
            Row(
                one.verdict,
                (f"{twin}: {worst} at worst, {time}, born in {born}",),
                _VERDICT_STYLE[one.verdict],
            )
            for one, (twin, _, worst, time, born) in zip(result.results, body)
        ]
    twin = min(max(width_of(row[0]) for row in (head, *body)), free // 2)
    widths = (twin, *fixed, free - twin)
    lines = []
    for row in (head, *body):
        cells = [wrap(text, w, w) for text, w in zip(row, widths)]
        for i in range(max(len(c) for c in cells)):
            pieces = []
            for k, (cell, w) in enumerate(zip(cells, widths)):
                piece = cell[i] if i < len(cell) else ""
                pad = " " * (w - width_of(piece))
                pieces.append(pad + piece if k in (2, 3) else piece + pad)
            lines.append("  ".join(pieces).rstrip().replace(figures.NBSP, " "))
    return [Row("", (line,), "", verbatim=True) for line in lines]


def _matrix_cells(one: Result) -> tuple[str, str, str, str, str]:
    seconds = words.total_time(one)
    ratio = words.worst_ratio(one)
    site = one.findings[0].place if one.findings else one.first_failing if one.verdict == "FAIL" else None
    reason = figures.clean((one.error or "").partition("\n")[0])
    place = f"({figures.clean(one.stage)}) {reason}".rstrip() if one.verdict == "ERROR" and one.stage else "-"
    cause = one.findings[0].cause if one.findings else None
    return (
        figures.clean(one.twin.spec or one.twin.name),
        one.verdict + (" (weak)" if one.evidence == "weak" else ""),
        "-" if one.verdict == "ERROR" or ratio is None else figures.times(ratio),
        "-" if seconds is None else f"{seconds:.1f}{figures.NBSP}s",
        figures.clean(site.label) + (f": {figures.clean(cause.sentence)}" if cause else "")
        if site
        else place,
    )
