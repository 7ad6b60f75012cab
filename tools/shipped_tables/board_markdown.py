"""A board as rows of text: what cards and the page on shipped tables show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twinnet.restore.results import count, ratio

__all__ = ["board_table", "by_metric", "markdown"]

_DIGITS = {"SSIM": 4}


def by_metric(board: dict[str, Any]) -> list[str]:
    """The metrics of a board."""
    scores = next((row["scores"] for row in board["rows"] if row["scores"]), {})
    return list(next(iter(scores.values()), ()))


def board_table(
    board: dict[str, Any], metrics: Sequence[str], *, costs: bool = True, kinds: Sequence[str] = ()
) -> list[list[str]]:
    """Header and rows: some metrics on every test set, and what it costs; all kinds of candidates, or some."""
    sets = list(board["benchmarks"])
    unit = (board["unit"] or "").partition(" ")[0]
    columns = [(bench, metric) for bench in sets for metric in metrics]
    names = [bench if len(metrics) == 1 else f"{bench} {metric}" for bench, metric in columns]
    header = ["", *(["bytes on disk", "lookups, parameters", f"time / {unit}"] if costs else []), *names]
    body = []
    for row in board["rows"]:
        if kinds and row["kind"] not in kinds:
            continue
        cells = [f"`{row['name']}`" if row["kind"] == "ours" else row["name"]]
        if costs:
            size = "" if row["bytes"] is None else f"{row['bytes']:,}"
            cells += [
                size,
                count(row["lookups"], row["parameters"]),
                "" if row["failed"] else ratio(row["ratio"]),
            ]
        if row["failed"]:
            cells += [f"not run: {row['failed']}", *[""] * (len(columns) - 1)]
        else:
            cells += [f"{row['scores'][b][m]:.{_DIGITS.get(m, 2)}f}" for b, m in columns]
        body.append(cells)
    return [header, *body]


def markdown(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as a markdown table.

    >>> markdown([["a", "b"], ["1", "2"]])
    ['| a | b |', '|---|---|', '| 1 | 2 |']
    """
    header, *body = rows
    return [f"| {' | '.join(header)} |", "|---" * len(header) + "|", *(f"| {' | '.join(r)} |" for r in body)]
