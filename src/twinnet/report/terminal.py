"""The one screen: verdict, place, size, cause, next command, in any width and without colour."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twinnet.report import staged, words
from twinnet.report.advice import advice_rows, advice_words, next_with_advice
from twinnet.result import Advice, Finding, Result, ResultSet, StagedResult

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["print_result", "render_text", "render_unmatched"]

_LABEL = 9
_DEFAULT_WIDTH = 80
_NARROWEST = 24
_FINDINGS_SHOWN = 3
_LOG_LINES = 6
_VERDICT_STYLE = {"PASS": "bold green", "FAIL": "bold red", "ERROR": "bold yellow"}


@dataclass(frozen=True, slots=True)
class _Row:
    """A labelled paragraph; its `parts` stand on one line where they fit, else one below the other."""

    label: str
    parts: tuple[str, ...]
    style: str = "dim"
    labels: tuple[str, ...] = ()
    verbatim: bool = False


def render_text(result: Result | ResultSet, width: int | None = None, color: bool = False) -> str:
    """The screen as text, without a newline at its end. The default width is 80, wherever it is called.

    >>> from twinnet.result import InputsInfo, Result, SideInfo
    >>> print(render_text(Result("PASS", SideInfo("net", "torch"), SideInfo("onnxruntime", "onnxruntime"),
    ...                          InputsInfo(1, "synthetic", True))))
    network  net (torch)     twin  onnxruntime
    inputs   1 synthetic sample
    <BLANKLINE>
    PASS     no difference was found
    """
    width = max(_NARROWEST, width or _DEFAULT_WIDTH)
    lines = _lines(_rows(result, verbose=False, width=width), width)
    if not color:
        return "\n".join(label + text for label, _, text in lines)
    from rich.console import Console

    buffer = io.StringIO()
    _print(Console(file=buffer, width=width, force_terminal=True, color_system="standard"), lines)
    return buffer.getvalue().rstrip("\n")


def print_result(result: Result | ResultSet, console: Console, verbose: bool = False) -> None:
    """Print the screen; `verbose` adds contributors, segments, timings, environment and the whole log."""
    width = max(_NARROWEST, min(console.width, 120))
    _print(console, _lines(_rows(result, verbose=verbose, width=width), width))


def render_unmatched(result: Result | ResultSet) -> str:
    """The sites of either side that have no counterpart, one per line (`--unmatched`).

    >>> from twinnet.result import Coverage, InputsInfo, Result, SideInfo
    >>> print(render_unmatched(Result("PASS", SideInfo("net", "torch"), SideInfo("ort", "onnxruntime"),
    ...                               InputsInfo(1, "x", True), Coverage(3, 2, 2, 2, ("conv1.bn",)))))
    network: 1 of 3 sites without a counterpart
      conv1.bn
    """
    blocks = []
    for one in result.results if isinstance(result, ResultSet) else (result,):
        coverage = one.coverage
        twin = f"twin {words.clean(one.twin.name)}" if isinstance(result, ResultSet) else "twin"
        for who, names, total in (
            ("network" if twin == "twin" else f"network ({twin})", coverage.unmatched, coverage.sites),
            (twin, coverage.unmatched_twin, coverage.twin_sites),
        ):
            if names:
                head = f"{who}: {len(names)} of {max(total, len(names))} sites without a counterpart"
                blocks.append("\n".join([head, *(f"  {words.clean(name)}" for name in names)]))
    return "\n".join(blocks) or "every site of both sides has a counterpart"


# ---------------------------------------------------------------------------------------------- what is said


def _rows(result: Result | ResultSet, *, verbose: bool, width: int) -> list[_Row]:
    if isinstance(result, Result):
        return _result_rows(result, verbose)
    if isinstance(result, StagedResult):
        return _staged_rows(result, verbose)
    ordered = sorted(result.results, key=_badness)
    if not ordered:
        return [_Row("", ("no twin was checked",))]
    rows = _matrix(result, width)
    if len(ordered) > 1:
        head = f"details of the worst, {words.side_words(ordered[-1].twin)}:"
        rows += [_Row("", ("",)), _Row("", (head,), "bold")]
    else:
        rows.append(_Row("", ("",)))
    return rows + _result_rows(ordered[-1], verbose)


def _staged_rows(result: StagedResult, verbose: bool) -> list[_Row]:
    rows = [
        _Row("network", (words.side_words(result.network), words.clean(result.twin)), labels=("twin",)),
        _Row("inputs", (words.inputs_words(result.inputs),)),
        _Row("", ("",)),
        *(_Row("", (line,), "", verbatim=True) for line in staged.table(result)),
        _Row("", ("",)),
        _Row(result.verdict, (staged.verdict_words(result),), _VERDICT_STYLE[result.verdict]),
    ]
    entered = result.entered
    whole = result.result_of(entered) if entered is not None else None
    if whole is not None:
        rows += _finding_rows(whole, verbose)
        if sides := staged.sides_words(entered):
            rows.append(_Row("", (f"{' ' * _LABEL}{sides}",)))
    rows += [_Row("reason", (f"{name}: {reason}",), "yellow") for name, reason in staged.reasons(result)]
    if verbose:
        rows += [
            _Row("stage", (f"{words.clean(s.name)}: {words.clean(s.what)}",)) for s in result.stages if s.what
        ]
        rows += [_Row("file", (words.clean(s.file),)) for s in result.stages if s.file]
    command, does = staged.next_command(result)
    closing = []
    if result.folder:
        closing.append(_Row("report", (words.clean(f"{result.folder.rstrip('/')}/report.html"),)))
    if command:
        closing.append(_Row("next", (command, f"({does})"), "bold"))
    return rows + ([_Row("", ("",)), *closing] if closing else [])


def _badness(result: Result) -> tuple[int, float]:
    return {"PASS": 0, "ERROR": 1, "FAIL": 2}[result.verdict], words.worst_ratio(result) or 0.0


def _result_rows(result: Result, verbose: bool) -> list[_Row]:
    rows = [
        _Row("network", (words.side_words(result.network), words.side_words(result.twin)), labels=("twin",)),
        _Row("inputs", (words.inputs_words(result.inputs), words.pairs_words(result)), labels=("pairs",))
        if result.coverage.sites
        else _Row("inputs", (words.inputs_words(result.inputs),)),
    ]
    if result.tolerance not in ("", "automatic"):
        rows.append(_Row("limits", (words.clean(result.tolerance),)))
    rows.append(_Row("", ("",)))
    rows.append(_Row(result.verdict, (words.verdict_words(result),), _VERDICT_STYLE[result.verdict]))
    if weak := words.weak_words(result):
        rows.append(_Row("evidence", (weak,), "bold yellow"))
    if result.verdict == "ERROR":
        rows += _error_rows(result, verbose)
    rows += _finding_rows(result, verbose)
    if inherited := words.inherited_words(result):
        rows.append(_Row("", (inherited,)))
    rows += [_Row("guard", (words.guard_words(g),), "yellow" if g.weakens else "dim") for g in result.guards]
    rows += [_Row("metric", (words.metric_words(m),)) for m in result.metrics]
    if result.advice is not None:
        rows += _advice_rows(result.advice)
    if verbose:
        rows += _verbose_rows(result)
    return rows + _closing_rows(result)


def _error_rows(result: Result, verbose: bool) -> list[_Row]:
    message = [words.clean(line) for line in result.error.strip().splitlines()] or ["no message was given"]
    rows = [
        _Row("reason", (message[0],), "yellow"),
        *(_Row("", (" " * _LABEL + line,)) for line in message[1:]),
    ]
    log = [words.clean(line.expandtabs()) for line in result.log.strip().splitlines()]
    shown = log if verbose else log[-_LOG_LINES:]
    for i, line in enumerate(shown):
        rows.append(_Row("" if i else "log", ((" " * _LABEL if i else "") + line,)))
    return rows


def _finding_rows(result: Result, verbose: bool) -> list[_Row]:
    rows: list[_Row] = []
    for finding in result.findings[:_FINDINGS_SHOWN]:
        rows += _one_finding(result, finding, verbose)
    if (rest := len(result.findings) - _FINDINGS_SHOWN) > 0:
        rows.append(_Row("", (f"{' ' * _LABEL}+ {rest} more in the report",)))
    if result.verdict == "FAIL" and not result.findings and result.first_failing is not None:
        site = result.first_failing
        rows.append(_Row("first at", _present(words.clean(site.label), words.clean(site.source)), "bold"))
    return rows


def _one_finding(result: Result, finding: Finding, verbose: bool) -> list[_Row]:
    site = finding.site
    place = words.clean(site.label)
    if len(finding.segment) > 1:
        place += f" (a segment of {len(finding.segment)} layers)"
    parts = _present(place, words.clean(site.source), words.share_words(finding))
    rows = [_Row("born in", parts, "bold")]
    if finding.also:
        places = ", ".join(words.clean(site.label) for site in finding.also)
        rows.append(_Row("and in", (f"{places}   ({words.also_words(finding)})",)))
    if finding.merged:
        share = words.percent(finding.explained)
        rows.append(
            _Row("with", (f"{words.clean(', '.join(finding.merged))}: together {share} of the output error",))
        )
    if finding.cause is not None:
        explains = f"[explains{words.NBSP}{words.percent(finding.cause.explains, 2)}]"
        rows.append(_Row("cause", (f"{words.clean(finding.cause.sentence)}   {explains}",), "bold"))
    elif reason := words.reason_words(result, finding):
        rows.append(_Row("because", (reason,)))
    if finding.confirmed is False or (verbose and finding.confirmation):
        rows.append(_Row("alone", (words.clean(finding.confirmation),)))
    if verbose:
        size = f"error here {words.figure(finding.error)}, born {words.figure(finding.born)}"
        rows.append(
            _Row("size", (f"{size}, floor {words.figure(finding.floor)}, {words.times(finding.ratio)}",))
        )
        rows.append(_Row("twin at", (words.clean(finding.twin_site.label),)))
        if len(finding.segment) > 1:
            rows.append(_Row("segment", (words.clean(", ".join(finding.segment)),)))
    return rows


def _advice_rows(advice: Advice) -> list[_Row]:
    rows = [_Row("advise", (advice_words(advice),), "bold")]
    if len(advice.steps) > 1:
        head = ("kept", "SNR", "PSNR", "largest", "in float")
        for kept, snr, psnr, most, added in (head, *advice_rows(advice)):
            line = f"{kept:<4}  {snr:>8}  {psnr:>8}  {most:>8}   {added}"
            rows.append(_Row("", (" " * _LABEL + line.rstrip(),)))
    return rows


def _verbose_rows(result: Result) -> list[_Row]:
    rows = []
    for finding in result.contributors[:5]:
        parts = _present(words.clean(finding.site.label), words.share_words(finding))
        rows.append(_Row("adds", parts))
    if result.known:
        rows.append(_Row("known", (words.clean(", ".join(result.known)),)))
    if result.timings:
        rows.append(
            _Row("time", (", ".join(f"{words.clean(k)} {v:.2f} s" for k, v in result.timings.items()),))
        )
    if result.environment:
        rows.append(
            _Row("with", (", ".join(words.clean(f"{k} {v}") for k, v in result.environment.items()),))
        )
    if result.command:
        rows.append(_Row("command", (words.clean(result.command),)))
    return rows


def _closing_rows(result: Result) -> list[_Row]:
    command, does = next_with_advice(result)
    if not command:
        command, does = words.next_command(result)
    rows = []
    if result.folder:
        rows.append(_Row("report", (words.clean(f"{result.folder.rstrip('/')}/report.html"),)))
    if command:
        rows.append(_Row("next", (command, f"({does})"), "bold"))
    return [_Row("", ("",)), *rows] if rows else []


def _present(*parts: str) -> tuple[str, ...]:
    return tuple(part for part in parts if part) or ("(unnamed)",)


# ---------------------------------------------------------------------------------------- how it is laid out


def _print(console: Console, lines: Iterable[tuple[str, str, str]]) -> None:
    from rich.text import Text

    for label, style, text in lines:
        line = Text(label, style=style)
        line.append(text, style="" if label or style == "dim" else style)
        console.print(line, soft_wrap=True, highlight=False)


def _lines(rows: Iterable[_Row], width: int) -> list[tuple[str, str, str]]:
    """Label, style and text of each printed line."""
    lines: list[tuple[str, str, str]] = []
    for row in rows:
        if row.verbatim or row.parts == ("",):
            lines.append(("", row.style, row.parts[0].rstrip()))
            continue
        for i, (label, text) in enumerate(_joined(row, width)):
            indent = _LABEL if label or i else len(text) - len(text.lstrip(" "))
            for j, piece in enumerate(_wrapped(text.strip(), width - indent, width - (indent or _LABEL))):
                head = label.ljust(_LABEL) if label and not j else " " * (indent or (_LABEL if j else 0))
                lines.append((head, row.style, piece.replace(words.NBSP, " ")))
    return lines


def _joined(row: _Row, width: int) -> list[tuple[str, str]]:
    """The row's parts on one line if they fit, else as lines of their own."""
    room = width - (_LABEL if row.label else 0)
    if row.labels:
        one = row.parts[0] + "".join(f"     {name}  {part}" for name, part in zip(row.labels, row.parts[1:]))
        return [(row.label, one)] if _cells(one) <= room else list(zip((row.label, *row.labels), row.parts))
    lines = [row.parts[0]]
    for part in row.parts[1:]:
        if _cells(f"{lines[-1]}   {part}") <= room:
            lines[-1] = f"{lines[-1]}   {part}"
        else:
            lines.append(part)
    return [(row.label if i == 0 else "", text) for i, text in enumerate(lines)]


def _wrapped(text: str, first: int, rest: int) -> list[str]:
    """Pieces of at most `first`, then `rest` cells: broken at spaces, else after / . _ -, else anywhere."""
    pieces: list[str] = []
    line = ""
    gap = ""
    for token in _tokens(text):
        if token.isspace() and words.NBSP not in token:
            gap = token
            continue
        room = rest if pieces else first
        if line and _cells(line + gap + token) > room:
            if _cells(token) > rest and room - _cells(line + gap) >= 12:
                cut = _cut(token, room - _cells(line + gap))
                line, token = line + gap + token[:cut], token[cut:]
            pieces.append(line)
            line, gap, room = "", "", rest
        line, gap = (line + gap if line else "") + token, ""
        while _cells(line) > room:
            cut = _cut(line, room)
            pieces.append(line[:cut])
            line, room = line[cut:], rest
    return [*pieces, line] if line or not pieces else pieces


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    for char in text:
        if tokens and (char == " ") == (tokens[-1][-1] == " "):
            tokens[-1] += char
        else:
            tokens.append(char)
    return tokens


def _cut(token: str, room: int) -> int:
    """Where to break a long word: after the last separator that leaves a fair piece, else at the edge."""
    edge = 0
    used = 0
    for char in token:
        used += _cells(char)
        if used > room:
            break
        edge += 1
    edge = max(edge, 1)
    nice = max((token.rfind(mark, 0, edge) for mark in "/._-:,="), default=-1) + 1
    return nice if nice > edge // 2 else edge


def _cells(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _matrix(result: ResultSet, width: int) -> list[_Row]:
    """One line per twin: verdict, worst ratio, time, birthplace and cause; paragraphs where that is too narrow."""
    head = ("twin", "verdict", "worst", "time", "born in")
    body = [_matrix_cells(one) for one in result.results]
    fixed = [max(_cells(row[i]) for row in (head, *body)) for i in (1, 2, 3)]
    free = width - sum(fixed) - 2 * 4
    if free < 24:
        return [
            _Row(
                one.verdict,
                (f"{twin}: {worst} at worst, {time}, born in {born}",),
                _VERDICT_STYLE[one.verdict],
            )
            for one, (twin, _, worst, time, born) in zip(result.results, body)
        ]
    twin = min(max(_cells(row[0]) for row in (head, *body)), free // 2)
    widths = (twin, *fixed, free - twin)
    lines = []
    for row in (head, *body):
        cells = [_wrapped(text, w, w) for text, w in zip(row, widths)]
        for i in range(max(len(c) for c in cells)):
            pieces = []
            for k, (cell, w) in enumerate(zip(cells, widths)):
                piece = cell[i] if i < len(cell) else ""
                pad = " " * (w - _cells(piece))
                pieces.append(pad + piece if k in (2, 3) else piece + pad)
            lines.append("  ".join(pieces).rstrip().replace(words.NBSP, " "))
    return [_Row("", (line,), "", verbatim=True) for line in lines]


def _matrix_cells(one: Result) -> tuple[str, str, str, str, str]:
    seconds = words.total_time(one)
    ratio = words.worst_ratio(one)
    site = one.findings[0].site if one.findings else one.first_failing if one.verdict == "FAIL" else None
    reason = words.clean((one.error or "").partition("\n")[0])
    place = f"({words.clean(one.stage)}) {reason}".rstrip() if one.verdict == "ERROR" and one.stage else "-"
    cause = one.findings[0].cause if one.findings else None
    return (
        words.clean(one.twin.spec or one.twin.name),
        one.verdict + (" (weak)" if one.evidence == "weak" else ""),
        "-" if one.verdict == "ERROR" or ratio is None else words.times(ratio),
        "-" if seconds is None else f"{seconds:.1f}{words.NBSP}s",
        words.clean(site.label) + (f": {words.clean(cause.sentence)}" if cause else "") if site else place,
    )
