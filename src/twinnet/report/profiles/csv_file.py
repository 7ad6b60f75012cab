"""profile.csv and compile.csv: one line for each step or layer, seconds and bytes as plain numbers."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

from twinnet.profile.building import CompileProfile
from twinnet.profile.model import Profile
from twinnet.report.profiles.words import BETWEEN
from twinnet.report.quoting import cell

__all__ = ["COLUMNS", "COMPILE_COLUMNS", "render_compile_csv", "render_csv"]

COLUMNS = (
    "name",
    "op",
    "kernel",
    "network_ops",
    "module",
    "modules",
    "source",
    "sites",
    "shape",
    "calls",
    "p10",
    "p50",
    "p90",
    "share",
    "flops",
    "bytes",
    "intensity",
    "limit",
    "efficiency",
    "helps",
)

COMPILE_COLUMNS = ("name", "op", "module", "source", "shape", "flops", "bytes", "seconds", "limit", "by")


def render_compile_csv(profile: CompileProfile) -> str:
    """The text of compile.csv: every layer, as estimated."""
    return _table(COMPILE_COLUMNS, profile.estimates)


def render_csv(profile: Profile) -> str:
    """The text of profile.csv, in execution order; what the engine does between its steps comes last."""
    between = {"name": BETWEEN, "kernel": profile.engine, "p50": profile.between, "share": profile.gap}
    return _table(COLUMNS, profile.rows, between if profile.between else {})


def _table(columns: Sequence[str], rows: Iterable[object], last: Mapping[str, object] | None = None) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(getattr(row, name)) for name in columns] for row in rows)
    if last:
        writer.writerow([_cell(last.get(name)) for name in columns])
    return buffer.getvalue()


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, tuple):
        return cell(" ".join(str(v) for v in value))
    return cell(value)
