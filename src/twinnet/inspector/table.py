"""Event blocks as a table for a terminal."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from twinnet.inspector.events import WRAPPERS, Event, EventBlock
from twinnet.report.figures import figure
from twinnet.report.quoting import screen
from twinnet.signature import dims

__all__ = ["as_text", "cells", "head"]


_ENDLESS = 10_000
"""Columns where nothing has to be cut: a file, a pipe."""


def head(unit: str) -> tuple[str, ...]:
    """The names of the columns."""
    return (
        "event",
        "op",
        "module",
        "line",
        f"p10 {unit}",
        f"p50 {unit}",
        f"p90 {unit}",
        "delegate",
        "tensors",
    )


def cells(event: Event) -> tuple[str, ...]:
    """One event in the columns of the table."""
    times = event.perf_data
    spent = ("", "", "") if times is None else tuple(f"{t:.4f}" for t in (times.p10, times.p50, times.p90))
    op = event.op or (f"{len(event.op_types)} operators" if len(event.op_types) > 1 else "")
    delegate = event.delegate or ("yes" if event.is_delegated_op else "")
    return (
        event.name.removeprefix("native_call_"),
        op,
        event.module,
        event.source,
        *spent,
        delegate,
        tensors(event.debug_data, event.shapes),
    )


def tensors(data: Sequence[Any], shapes: Sequence[str] = ()) -> str:
    """Shapes and ranges of tensors; NaN and Inf are counted."""
    said = [_tensor(one) for one in data]
    known = [f"{shape} (no values)" if one is None and shape else "" for one, shape in zip(data, shapes)]
    return "; ".join(k or s for k, s in zip(known or [""] * len(said), said))


def _tensor(one: Any) -> str:
    if not isinstance(one, np.ndarray):
        return "list" if isinstance(one, list) else "not recorded" if one is None else str(one)
    said = f"{one.dtype.name} {dims(one.shape)}"
    if not one.size:
        return said
    values = np.asarray(one, np.float64) if one.dtype.kind not in "cV" else np.abs(one)
    finite = values[np.isfinite(values)]
    if finite.size:
        said += f" {figure(float(finite.min()))} to {figure(float(finite.max()))}"
    if odd := values.size - finite.size:
        said += f", {odd} NaN or Inf"
    return said


def as_text(path: Path, blocks: Sequence[EventBlock], missing: Sequence[str], width: int | None) -> str:
    """The whole recording: each block with its events and outputs, then what is missing.

    Without a width it is as wide as the terminal; where there is none nothing is cut.
    """
    room = width or shutil.get_terminal_size((_ENDLESS, 24)).columns
    lines = [f"recording  {path}"]
    for block in blocks:
        runs = f", {block.runs} runs" if block.runs > 1 else ""
        lines += ["", f"{block.name}{runs}"]
        lines += _events(block, room) or ["  no events"]
        if block.run_output:
            lines.append(_cut(f"  output  {tensors(block.run_output)}", max(room, 60)))
    lines += ["", *(f"missing  {what}" for what in missing)] if missing else []
    return screen("\n".join(lines))


def _events(block: EventBlock, room: int) -> list[str]:
    """The events of a block below their heading, without columns that hold nothing; empty if all of them do."""
    rows = [head(block.unit), *(cells(e) for e in block.events if e.name not in WRAPPERS)]
    used = [i for i in range(len(rows[0])) if any(row[i] for row in rows[1:])]
    if not used:
        return []
    *front, last = used
    most = room if room == _ENDLESS else 30
    widths = [min(max(len(row[i]) for row in rows), most) for i in front]
    texts = ("".join(_cut(row[i], w).ljust(w + 2) for i, w in zip(front, widths)) for row in rows)
    return [_cut(f"  {text}{row[last]}".rstrip(), max(room, 60)) for text, row in zip(texts, rows)]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."
