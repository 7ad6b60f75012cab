"""The tables of docs/shipped-tables.md, written between marks from `scores.json`: the page cannot go stale.

A part `<!-- scores: sr-x4 PSNR -->` ... `<!-- end -->` holds metrics of one board; `<!-- scores: models -->` an
overview of all.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tools.shipped_tables.board_markdown import board_table, by_metric, markdown
from tools.shipped_tables.recipes import RECIPES
from twinnet.errors import UsageError
from twinnet.models.evaluate import board_of
from twinnet.restore.results import ratio

__all__ = ["PAGE", "rendered"]

PAGE = Path(__file__).parents[2] / "docs" / "shipped-tables.md"
_PART = re.compile(r"(<!-- scores: (\S+)(?: ([^>]*?))? -->\n).*?(<!-- end -->)", re.DOTALL)


def rendered(text: str, scores: dict[str, Any]) -> str:
    """The page with all marked parts written anew."""

    def part(found: re.Match[str]) -> str:
        board, metrics = found[2], (found[3] or "").split()
        if board == "models":
            lines = markdown(_overview(scores))
        elif board in scores["boards"]:
            data = scores["boards"][board]
            lines = markdown(board_table(data, metrics or by_metric(data)))
        elif board in map(board_of, RECIPES):
            lines = ["Not made yet."]
        else:
            raise UsageError(
                f"{PAGE.name} asks for {board}", hint=f"there are: {', '.join(scores['boards'])}"
            )
        return "\n".join([found[1], *lines, "", found[4]])

    return _PART.sub(part, text)


def _overview(scores: dict[str, Any]) -> list[list[str]]:
    """All of ours: size, lookups, time, fit, and the gain over doing nothing on the first test sets."""
    flat = ("exact", "1 level")
    rows = [
        [
            "tables",
            "bytes on disk",
            "lookups",
            "time",
            "flat areas",
            "fit, s of CPU",
            "test set",
            "dB",
            "gain over",
        ]
    ]
    for data in scores["boards"].values():
        plain = data["rows"][0]
        bench = next(iter(data["benchmarks"]))
        for row in data["rows"]:
            if row["kind"] != "ours":
                continue
            score = row["scores"][bench]["PSNR"]
            gain = score - plain["scores"][bench]["PSNR"]
            unit = (data["unit"] or "").partition(" ")[0]
            rows.append(
                [f"`{row['name']}`", f"{row['bytes']:,}", str(row["lookups"]), f"{ratio(row['ratio'])} x {unit}",
                 flat[scores["models"][row["name"]]["flatness"]["moved"]],
                 f"{scores['models'][row['name']]['cpu_seconds']:.0f}", bench, f"{score:.2f}",
                 f"{plain['name']} {gain:+.2f}"]
            )  # fmt: skip
    return rows
