"""report.html: one self-contained page that works offline, and its small form for notebooks.

Names in networks are untrusted: the templates escape every text, and the page's content policy forbids any other script
and any request.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from twinnet.report import figures, next_steps, staged, words
from twinnet.report.advice import advice_rows, advice_words
from twinnet.report.sentences import words as said
from twinnet.report.source import excerpt_at
from twinnet.result import Finding, PairResult, Result, ResultSet, StagedResult
from twinnet.signature import dims

if TYPE_CHECKING:
    import jinja2
    import numpy as np

__all__ = ["FILE_NAME", "render_fragment", "render_page", "render_report", "screen_parts", "template_folder"]

FILE_NAME = "report.html"

_TEMPLATES = Path(__file__).parent / "templates"
_STATUSES = ("fail", "pass", "excused", "untested", "not judged")


def render_report(
    result: Result | ResultSet,
    tensors: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None,
    folder: str | Path = "",
) -> str:
    """The text of report.html."""
    if isinstance(result, StagedResult):
        return render_page("stages.html.j2", **_staged(result, folder))
    if isinstance(result, ResultSet):
        twins = [
            {"base": screen_parts(r), "link": _link(r, folder), "cells": _cells(r)} for r in result.results
        ]
        return render_page("several.html.j2", verdict=result.verdict, twins=twins, network=_network(result))
    return render_page("report.html.j2", **_context(result, tensors or {}))


def render_fragment(result: Result | ResultSet) -> str:
    """The notebook's form: the one screen as HTML, without script.

    >>> from twinnet.result import InputsInfo, Result, SideInfo
    >>> fragment = render_fragment(Result("PASS", SideInfo("<net>", "torch"), SideInfo("ort", "onnxruntime"),
    ...                                   InputsInfo(1, "synthetic", True)))
    >>> "&lt;net&gt;" in fragment, "<script" in fragment
    (True, False)
    """
    several = result.results if isinstance(result, ResultSet) else (result,)
    return render_page("fragment.html.j2", results=[screen_parts(one) for one in several])


def _staged(result: StagedResult, folder: str | Path) -> dict[str, Any]:
    """The page of a network followed through its stages."""
    entered = result.entered
    whole = result.result_of(entered) if entered is not None else None
    rows = []
    for stage in result.stages:
        own = result.result_of(stage)
        rows.append({"stage": stage, "cells": staged.cells(stage), "link": _link(own, folder) if own else ""})
    command, does = staged.next_command(result)
    return {
        "verdict": result.verdict,
        "sentence": staged.verdict_words(result),
        "network": words.side_words(result.network),
        "twin": figures.clean(result.twin),
        "inputs": words.inputs_words(result.inputs),
        "rows": rows,
        "head": staged.HEAD,
        "entered": figures.clean(entered.name) if entered else "",
        "sides": staged.sides_words(entered),
        "reasons": staged.reasons(result),
        "box": screen_parts(whole) if whole is not None else None,
        "command": command,
        "does": does,
    }


@cache
def _environment() -> jinja2.Environment:
    import jinja2

    loader = jinja2.FileSystemLoader(_TEMPLATES)
    environment = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters.update(
        figure=figures.figure,
        times=figures.times,
        clean=figures.clean,
        percent=figures.percent,
        grouped=figures.grouped,
    )
    return environment


def render_page(template: str, **context: Any) -> str:
    """A page from a template: every text in `context` is escaped, and nothing is loaded from elsewhere."""
    css, script = ((_TEMPLATES / name).read_text("utf-8") for name in ("report.css", "report.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return _environment().get_template(template).render(css=css, script=script, script_hash=digest, **context)


def template_folder() -> Path:
    """Templates, styles and script of the reports, for pages that look like them."""
    return _TEMPLATES


def screen_parts(result: Result, *, excerpts: bool = True) -> dict[str, Any]:
    """The one screen in pieces, as page, fragment and dashboard share it.

    `excerpts` reads the lines of source that findings name: leave them out where the result is somebody else's.
    """
    command, does = next_steps.next_command(result)
    return {
        "verdict": result.verdict,
        "sentence": words.verdict_words(result),
        "network": words.side_words(result.network),
        "twin": words.side_words(result.twin),
        "inputs": words.inputs_words(result.inputs),
        "pairs": words.pairs_words(result) if result.coverage.sites else "",
        "tolerance": result.tolerance,
        "weak": words.weak_words(result),
        "guards": [(words.guard_words(guard), guard.weakens) for guard in result.guards],
        "findings": [_finding(result, f, excerpts) for f in result.findings],
        "first": ""
        if result.findings or not result.first_failing
        else figures.clean(result.first_failing.label),
        "inherited": words.inherited_words(result),
        "metrics": [words.metric_words(metric) for metric in result.metrics],
        "command": command,
        "does": does,
        "error": [figures.clean(line) for line in result.error.strip().splitlines()],
        "log": [figures.clean(line.expandtabs()) for line in result.log.strip().splitlines()],
        "in_python": next_steps.next_in_python(result),
        "report": figures.clean(f"{result.folder.rstrip('/')}/{FILE_NAME}") if result.folder else "",
    }


def _context(result: Result, tensors: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> dict[str, Any]:
    from twinnet.report.chart import NARROW, WIDTH, chart_of
    from twinnet.report.pictures import picture_of, worst_tensors

    order = {pair.site.tensor: i for i, pair in enumerate(result.pairs)}
    pictures = [
        picture_of(name, *tensors[name], anchor=f"pair-{order[name]}" if name in order else "")
        for name in worst_tensors(result, tensors)
    ]
    counts = Counter(pair.status for pair in result.pairs)
    timings = [
        (figures.clean(stage), seconds) for stage, seconds in result.timings.items() if stage != "total"
    ]
    base = screen_parts(result)
    return {
        **base,
        "box": base,
        "charts": [chart_of(result.pairs, width) for width in (WIDTH, NARROW)]
        if len(result.pairs) > 2
        else [],
        "outputs": [_output(result, pair) for pair in result.outputs] if len(result.outputs) > 1 else [],
        "rows": [_row(i, pair) for i, pair in enumerate(result.pairs)],
        "details": [_details(pair) for pair in result.pairs],
        "counts": [(status, counts[status]) for status in _STATUSES if counts[status]],
        "contributors": [_finding(result, f) for f in result.contributors],
        "advice": None
        if result.advice is None
        else (advice_words(result.advice), advice_rows(result.advice)),
        "pictures": pictures,
        "anchors": order,
        "unmatched": [figures.clean(name) for name in result.coverage.unmatched],
        "unmatched_twin": [figures.clean(name) for name in result.coverage.unmatched_twin],
        "known": [figures.clean(name) for name in result.known],
        "timings": timings,
        "longest": max((seconds for _, seconds in timings), default=0.0) or 1.0,
        "total": words.total_time(result),
        "environment": [(figures.clean(k), figures.clean(v)) for k, v in result.environment.items()],
        "typed": figures.clean(result.command),
        "source_of_inputs": figures.clean(result.inputs.source),
    }


def _finding(result: Result, finding: Finding, excerpts: bool = True) -> dict[str, Any]:
    cause = finding.cause
    return {
        "tensor": finding.site.tensor,
        "label": figures.clean(finding.place.label),
        "place": words.place_words(finding),
        "source": figures.clean(finding.place.source),
        "twin": figures.clean(finding.twin_site.label),
        "share": words.share_words(finding),
        "excerpt": excerpt_at(finding.place.source) if excerpts else None,
        "cause": cause and figures.clean(cause.sentence),
        "kind": cause and figures.clean(cause.kind),
        "explains": cause and figures.percent(cause.explains, 2),
        "values": cause
        and [figures.clean(v) for v in (cause.network_value, cause.twin_value) if v is not None],
        "reason": words.reason_words(result, finding),
        "segment": [figures.clean(name) for name in finding.segment],
        "notes": words.finding_notes(finding),
        "inherited": figures.grouped(finding.inherited_by),
        "figures": [
            ("difference here", figures.figure(finding.error)),
            ("created here", figures.figure(finding.born)),
            ("noise floor", figures.figure(finding.floor)),
            ("created / floor", figures.times(finding.ratio)),
            *(
                [("output error it causes", figures.figure(finding.impact))]
                if finding.impact is not None
                else []
            ),
        ],
    }


def _output(result: Result, pair: PairResult) -> dict[str, Any]:
    return {
        "name": figures.clean(pair.site.own_name),
        "agrees": not words.differs(result, pair),
        "size": figures.figure(pair.difference.max_abs) if pair.difference.elements else "",
        "ratio": figures.times(pair.ratio) if pair.ratio is not None else "",
        "reason": figures.clean(said(pair.reason)),
    }


def _row(index: int, pair: PairResult) -> dict[str, Any]:
    return {
        "id": index,
        "place": figures.clean(pair.site.module or pair.site.tensor),
        "op": figures.clean(pair.site.op),
        "source": figures.clean(pair.site.source),
        "status": pair.status,
        "find": figures.clean(
            f"{pair.site.label} {pair.site.tensor} {pair.site.source} {pair.twin_site.label} {pair.status}"
        ).lower(),
        "figures": [
            (_sortable(value), figures.figure(value) if value is not None else "")
            for value in (
                pair.ratio,
                pair.born,
                pair.difference.max_abs,
                pair.difference.relative,
                pair.difference.snr,
            )
        ],
    }


def _sortable(value: float | None) -> str:
    """A number the page's script can sort by; an unknown one sorts last."""
    return "" if value is None else "Infinity" if value == float("inf") else repr(float(value))


def _details(pair: PairResult) -> list[tuple[str, str]]:
    d = pair.difference
    odd = d.nan_reference or d.nan_twin or d.inf_reference or d.inf_twin
    ends = f"{figures.figure(d.range_reference[0])} to {figures.figure(d.range_reference[1])}"
    rows = [
        ("tensor", pair.site.tensor),
        ("in the twin", pair.twin_site.label),
        ("twin's tensor", pair.twin_site.tensor if pair.twin_site.tensor != pair.twin_site.label else ""),
        ("why not pass", said(pair.reason) if pair.status != "pass" else ""),
        ("shape", " ".join((pair.site.dtype, dims(pair.site.shape) if pair.site.shape else "")).strip()),
        ("paired by", f"{pair.how}, confidence {pair.confidence:.2f}"),
        ("transform", pair.transform),
        ("judged by", f"{pair.rule}, limit {pair.limit:g}"),
        ("noise floor", figures.figure(pair.floor) if pair.floor is not None else ""),
        ("segment", " <- ".join(pair.segment) if len(pair.segment) > 1 else ""),
        ("worst input", str(pair.sample)),
        ("worst element", _element(pair)),
        ("worst channel", str(d.channel) if d.channel is not None else ""),
        (
            "differing",
            f"{figures.grouped(d.differing)} of {figures.grouped(d.elements)} elements" if d.elements else "",
        ),
        ("mean, MSE", f"{figures.figure(d.mean_abs)}, {figures.figure(d.mse)}"),
        ("PSNR, cosine", f"{figures.figure(d.psnr)} dB, {d.cosine:.9g}"),
        ("ULP", figures.grouped(d.ulp) if d.ulp is not None else ""),
        ("network's range", ends),
        ("NaN network/twin", f"{d.nan_reference} / {d.nan_twin}" if odd else ""),
        ("Inf network/twin", f"{d.inf_reference} / {d.inf_twin}" if odd else ""),
    ]
    return [(label, figures.clean(text)) for label, text in rows if text]


def _element(pair: PairResult) -> str:
    d = pair.difference
    if d.value_reference is None or d.value_twin is None:
        return ""
    place = ", ".join(str(i) for i in d.index)
    return f"[{place}]: network {d.value_reference:.7g}, twin {d.value_twin:.7g}"


def _network(result: ResultSet) -> str:
    return words.side_words(result.results[0].network) if result.results else ""


def _cells(result: Result) -> dict[str, str]:
    ratio, seconds = words.worst_ratio(result), words.total_time(result)
    site = result.findings[0].place if result.findings else result.first_failing
    return {
        "worst": "" if ratio is None or result.verdict == "ERROR" else figures.times(ratio),
        "born": figures.clean(site.label) if site else "",
        "time": "" if seconds is None else f"{seconds:.1f} s",
    }


def _link(result: Result, folder: str | Path) -> str:
    """The twin's own report, relative to the page, where it lies below the page's folder."""
    if not result.folder or not folder:
        return ""
    own, page = Path(result.folder).absolute() / FILE_NAME, Path(folder).absolute()
    return quote(own.relative_to(page).as_posix()) if own.is_relative_to(page) else ""
