"""Event blocks as one HTML page that works offline, and as a fragment for notebooks.

Names in recordings are untrusted: the template escapes every text, and the page's content policy forbids any request.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from twinnet.inspector.events import WRAPPERS, EventBlock
from twinnet.inspector.table import cells, head, tensors
from twinnet.report.figures import clean

__all__ = ["as_fragment", "as_page"]


def as_page(path: Path, blocks: Sequence[EventBlock], missing: Sequence[str]) -> str:
    """A whole page."""
    return _template().render(whole=True, **_context(path, blocks, missing))


def as_fragment(path: Path, blocks: Sequence[EventBlock], missing: Sequence[str]) -> str:
    """What a notebook shows."""
    return _template().render(whole=False, **_context(path, blocks, missing))


def _context(path: Path, blocks: Sequence[EventBlock], missing: Sequence[str]) -> dict[str, Any]:
    shown = []
    for block in blocks:
        kept = [event for event in block.events if event.name not in WRAPPERS]
        longest = max((e.perf_data.p50 for e in kept if e.perf_data and e.module), default=0.0)
        rows = [
            {
                "cells": [clean(cell) for cell in cells(event)],
                "share": 100 * event.perf_data.p50 / longest
                if event.perf_data and event.module and longest
                else 0,
                "trace": "\n\n".join(f"{n}\n{t}" for n, t in event.stack_traces.items() if t),
            }
            for event in kept
        ]
        shown.append(
            {
                "name": clean(block.name),
                "runs": block.runs,
                "head": head(block.unit),
                "rows": rows,
                "output": clean(tensors(block.run_output)),
            }
        )
    return {"path": clean(path), "blocks": shown, "missing": [clean(m) for m in missing]}


@cache
def _template() -> Any:
    import jinja2

    home = jinja2.FileSystemLoader(Path(__file__).parent)
    return jinja2.Environment(
        loader=home, autoescape=True, trim_blocks=True, lstrip_blocks=True
    ).get_template("page.html.j2")
