"""index.html of a session: models against engines, then the layers of each, with links to their own pages."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from twinnet.report import html
from twinnet.suite.groups import grouped
from twinnet.suite.outcome import Outcome
from twinnet.suite.summary import commands_of, rows_of

__all__ = ["render_page"]


def render_page(outcomes: Sequence[Outcome], folder: Path) -> str:
    """The text of index.html, which works offline and looks like the reports."""
    rows = rows_of(outcomes)
    models = list(dict.fromkeys(row.model for row in rows))
    columns = list(dict.fromkeys(row.column for row in rows))
    cells = {(row.model, row.column): row for row in rows}
    layers: dict[str, dict[str, dict[str, Any]]] = {}
    for outcome in outcomes:
        if outcome.case.layer:
            label = outcome.case.layer + (" (random)" if outcome.case.random else "")
            cell = _cell(outcome, folder)
            layers.setdefault(outcome.case.model, {}).setdefault(label, {})[outcome.case.column] = cell
    counts = {v: sum(o.verdict == v for o in outcomes) for v in ("PASS", "FAIL", "ERROR", "SKIP")}
    troubled = [_cell(o, folder) for o in outcomes if not o.good]
    verdict = "PASS" if not troubled else "FAIL" if any(c["verdict"] == "FAIL" for c in troubled) else "ERROR"
    told = f"{len(troubled)} of {len(outcomes)} to look at" if troubled else "every case is as expected"
    return html.render_page(
        "suite.html.j2",
        verdict=verdict,
        told=told,
        models=models,
        columns=columns,
        cells=cells,
        full={key: _cell(row.full, folder) for key, row in cells.items() if row.full},
        layers=layers,
        groups=grouped(outcomes),
        troubled=troubled,
        counts=counts,
        expected=sum(o.expected == "yes" for o in outcomes),
        total=len(outcomes),
    )


def _cell(outcome: Outcome, folder: Path) -> dict[str, Any]:
    run = Path(outcome.folder) if outcome.folder else None
    link = ""
    if run is not None:
        file = next((n for n in ("report.html", "error.txt") if (run / n).exists()), "")
        link = os.path.relpath(run / file, folder) if file else ""
    return {
        "name": outcome.name,
        "kind": outcome.kind,
        "verdict": outcome.verdict,
        "link": link.replace(os.sep, "/"),
        "message": outcome.message.partition("\n")[0],
        "expected": outcome.expected,
        "wanted": outcome.wanted,
        "reason": outcome.reason,
        "href": outcome.link if outcome.link.startswith(("https://", "http://")) else "",
        "covers": outcome.covers,
        "same_as": outcome.same_as,
        "seconds": outcome.seconds,
        "weak": outcome.verdict == "PASS" and outcome.evidence == "weak",
        "commands": commands_of(outcome) if not outcome.good else [],
    }
