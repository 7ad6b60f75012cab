"""An evaluation as text, CSV, JSON, markdown, and as crops side by side."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

from twinnet.environment import environment
from twinnet.files import atomic_write
from twinnet.restore.evaluate import Evaluation

__all__ = ["count", "lines", "markdown", "ratio", "size", "table", "write_results"]

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


def count(lookups: int | None, parameters: int | None) -> str:
    """Lookups of tables, parameters of networks.

    >>> count(36, None), count(None, 9168), count(None, None)
    ('36 lookups', '9,168 parameters', '')
    """
    if lookups is not None:
        return f"{lookups} lookups"
    return "" if parameters is None else f"{parameters:,} parameters"


def ratio(value: float | None) -> str:
    """A ratio of running times to two digits: clocks of shared machines are no more precise.

    >>> ratio(None), ratio(0.834), ratio(12.34), ratio(542.1)
    ('', '0.83', '12', '540')
    """
    if not value:
        return ""
    return f"{float(f'{value:.2g}'):.0f}" if value >= 10 else f"{value:.2g}"


def table(result: Evaluation, benchmark: str) -> list[list[str]]:
    """Header and rows of one test set."""
    rows = [row for row in result.rows if row.benchmark == benchmark]
    metrics = list(next((row.scores for row in rows if row.scores), ()))
    unit = next((row.model for row in rows if row.ratio == 1), "").partition(",")[0]
    header = [
        "model",
        *metrics,
        "s/megapixel",
        *([f"x {unit}"] if unit else []),
        "size",
        "lookups, parameters",
    ]
    body = []
    for row in rows:
        cells = [f"{row.scores[m]:.{_DIGITS.get(m, 3)}f}" if row.scores else "" for m in metrics]
        cells.append(f"{row.seconds_per_megapixel:.3g}" if row.scores else "")
        cells += [ratio(row.ratio)] if unit else []
        body.append(
            [
                row.model,
                *cells,
                size(row.bytes),
                f"not run: {row.failed}" if row.failed else count(row.lookups, row.parameters),
            ]
        )
    return [header, *body]


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


def _cost(value: float | str | None) -> str:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def _csv(result: Evaluation) -> str:
    text = io.StringIO()
    metrics = list(next((row.scores for row in result.rows if row.scores), ()))
    writer = csv.writer(text, lineterminator="\n")
    costs = ["seconds_per_megapixel", "ratio", "bytes", "lookups", "parameters", "failed"]
    writer.writerow(["benchmark", "image", "model", *metrics, *costs])
    for row in result.rows:
        for image, scores in row.images.items():
            cells = [f"{scores[m]:.6f}" for m in metrics]
            writer.writerow([row.benchmark, image, row.model, *cells, *[""] * len(costs)])
        means = [f"{row.scores[m]:.6f}" if row.scores else "" for m in metrics]
        writer.writerow([row.benchmark, "", row.model, *means, *(_cost(getattr(row, c)) for c in costs)])
    return text.getvalue()


def _plain(data: Any) -> Any:
    """JSON has no infinity: infinite scores (of identical images) become null."""
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
    atomic_write(
        folder / "results.json", json.dumps(_plain(data), indent=1, allow_nan=False).encode(), durable=True
    )
    atomic_write(folder / "results.csv", _csv(result).encode(), durable=True)
    atomic_write(folder / "results.md", markdown(result).encode(), durable=True)
    write_gallery(result, folder)
