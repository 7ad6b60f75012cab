"""An evaluation as text, CSV, JSON, markdown, and as crops side by side."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

from twinnet.environment import environment
from twinnet.restore.evaluate import Evaluation, Row
from twinnet.restore.experiment import write_whole

__all__ = ["lines", "markdown", "table", "write_results"]

_DIGITS = {"PSNR": 2, "PSNR-B": 2, "SSIM": 4}


def size(count: int | None) -> str:
    """Bytes in words.

    >>> size(None), size(900), size(426768), size(4259571)
    ('', '900 B', '417 kB', '4.06 MB')
    """
    if count is None:
        return ""
    if count < 1024:
        return f"{count} B"
    return f"{count / 1024:.0f} kB" if count < 1 << 20 else f"{count / (1 << 20):.2f} MB"


def _cells(row: Row) -> list[str]:
    scores = [f"{value:.{_DIGITS.get(name, 3)}f}" for name, value in row.scores.items()]
    return [row.model, *scores, f"{row.seconds_per_megapixel:.3g}", size(row.bytes)]


def table(result: Evaluation, benchmark: str) -> list[list[str]]:
    """Header and rows of one test set."""
    rows = [row for row in result.rows if row.benchmark == benchmark]
    return [["model", *rows[0].scores, "s/megapixel", "size"], *(_cells(row) for row in rows)]


def _benchmarks(result: Evaluation) -> list[str]:
    return list(dict.fromkeys(row.benchmark for row in result.rows))


def lines(result: Evaluation) -> list[str]:
    """For a terminal."""
    out = [f"task      {result.task}"]
    for name in _benchmarks(result):
        cells = table(result, name)
        images = len(next(row for row in result.rows if row.benchmark == name).images)
        widths = [max(len(row[k]) for row in cells) for k in range(len(cells[0]))]
        out += ["", f"{name} ({images} images)"]
        for row in cells:
            out.append(
                "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:]))])
            )
    if result.missing:
        out += ["", f"skipped   {', '.join(result.missing)}: no such folder of images"]
    return out


def markdown(result: Evaluation) -> str:
    """For a page."""
    out = [f"Task: {result.task}", ""]
    for name in _benchmarks(result):
        header, *rows = table(result, name)
        out += [f"**{name}**", "", f"| {' | '.join(header)} |", f"|---{'|---:' * (len(header) - 1)}|"]
        out += [f"| {' | '.join(row)} |" for row in rows] + [""]
    if result.missing:
        out += [f"Skipped: {', '.join(result.missing)}", ""]
    return "\n".join(out)


def _csv(result: Evaluation) -> str:
    text = io.StringIO()
    metrics = list(result.rows[0].scores)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["benchmark", "image", "model", *metrics, "seconds_per_megapixel", "bytes"])
    for row in result.rows:
        for image, scores in row.images.items():
            writer.writerow([row.benchmark, image, row.model, *(f"{scores[m]:.6f}" for m in metrics), "", ""])
        means = [f"{row.scores[m]:.6f}" for m in metrics]
        used = "" if row.bytes is None else row.bytes
        writer.writerow([row.benchmark, "", row.model, *means, f"{row.seconds_per_megapixel:.6g}", used])
    return text.getvalue()


def _plain(data: Any) -> Any:
    """Infinite scores (of identical images) are no JSON numbers: they become null."""
    if isinstance(data, dict):
        return {key: _plain(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_plain(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def write_results(result: Evaluation, folder: Path) -> None:
    """results.csv (every image, then means), results.json, results.md, crops as PNG, and index.html."""
    from twinnet.restore.gallery import write_gallery

    data = {
        "version": 1,
        "task": result.task,
        "missing": result.missing,
        "rows": [vars(row) for row in result.rows],
        "config": result.config,
        "environment": environment(),
    }
    write_whole(folder / "results.json", json.dumps(_plain(data), indent=1, allow_nan=False).encode())
    write_whole(folder / "results.csv", _csv(result).encode())
    write_whole(folder / "results.md", markdown(result).encode())
    write_gallery(result, folder)
