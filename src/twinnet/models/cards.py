"""The card of a model: what it is, what it was made from, what it reaches, where it fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from twinnet.models.recipes import TERMS

__all__ = ["card", "scores"]

Restore = Callable[[np.ndarray], np.ndarray]

_FAILS = {
    "sr": "Regular fine texture (fences, cloth, far bricks) is not made up where the small image has lost it, and may "
    "come out smooth or at a wrong angle; JPEG artefacts of the input are taken for detail and sharpened. Inputs are "
    "expected to be shrunk by a bicubic filter; sharper or blurrier ones come out over- or under-sharpened.",
    "denoise": "Made for Gaussian noise of this strength on gray or single planes, rounded to 8 bit: weaker noise is "
    "smoothed too much, stronger noise stays in part, and noise that is not independent from pixel to pixel stays.",
    "deblock": "Made for luma at this JPEG quality with blocks aligned to the image; cropped or resized JPEGs have "
    "their blocks elsewhere and lose detail instead.",
}


def scores(folder: Path, tables: Path) -> dict[str, dict[str, dict[str, float]]]:
    """By test set and candidate: all metrics of the task. Classical filters stand beside the tables."""
    from twinnet.restore.benchmarks import find_benchmarks
    from twinnet.restore.candidates import Candidate, tables_candidate
    from twinnet.restore.evaluate import score
    from twinnet.restore.experiment import open_experiment
    from twinnet.restore.tasks import task_of

    experiment = open_experiment(folder)
    task = task_of(experiment.config)
    models = [Candidate(task.plain_name, task.plain), tables_candidate(tables, "tables", task)]
    if task.name in ("denoise", "deblock"):
        models += [
            Candidate(name, restore) for name, restore in filters(experiment.config.data.sigma).items()
        ]
    found, _ = find_benchmarks(experiment)
    rows, _ = score(task, found, models)
    table: dict[str, dict[str, dict[str, float]]] = {}
    for row in rows:
        cells = {metric: round(value, 4) for metric, value in row.scores.items()}
        cells["s/megapixel"] = round(row.seconds_per_megapixel, 4)
        table.setdefault(row.benchmark, {})[row.model] = cells
    return table


def filters(sigma: float) -> dict[str, Restore]:
    """Filters of OpenCV at their customary settings for noise of this strength."""
    import cv2

    from twinnet.restore.tasks import pixels

    return {
        "Gaussian 3x3": lambda low: cv2.GaussianBlur(pixels(low), (3, 3), 0),
        "bilateral": lambda low: cv2.bilateralFilter(pixels(low), 5, 2.5 * sigma, 2),
        "non-local means": lambda low: cv2.fastNlMeansDenoising(pixels(low), None, float(sigma) * 0.8, 7, 21),
    }


def card(facts: dict[str, Any]) -> str:
    """The card as markdown."""
    name, task = facts["name"], facts["name"].partition("-")[0]
    lines = [
        f"# {name}",
        "",
        f"Lookup tables of int8, {facts['bytes']:,} bytes, {facts['lookups']} lookups per input pixel and plane. "
        "Fitted by least squares, stage by stage, without a network.",
        "",
        f"- made in {facts['cpu_seconds']:.0f} s of CPU ({facts['seconds']:.0f} s on the clock of a shared machine); "
        f"again with `python -m twinnet.models.build --force {name}`",
        f"- training data: {'; '.join(TERMS)}",
        "- selection: validation part of CID22 (21 images, CC BY-SA 4.0); no test set was used for it",
        f"- held-out images, all planes: {facts['validation_psnr']:.2f} dB; without tables "
        f"{facts['validation_plain']:.2f} dB",
        "- terms of the tables: CC BY-SA 4.0, with attribution to Cloudinary (CID22)",
        "",
        "## Recipe",
        "",
        "| stage | patterns | output per site | cell | nodes | band | error on validation |",
        "|---|---|---|---|---|---|---|",
    ]
    for stage, report in zip(facts["recipe"]["stages"], facts["stages"]):
        patterns = stage["patterns"]
        words = patterns if isinstance(patterns, str) else " ".join(map(str, patterns))
        nodes = (256 >> stage["interval"]) + 1
        lines.append(
            f"| {report['name']} | {words} | {stage['upscale']}x{stage['upscale']} | {stage['cell']} | {nodes} | "
            f"{stage['band'] or ''} | {report['error']:.3f} |"
        )
    lines += ["", "## Scores", ""]
    for bench, models in facts["scores"].items():
        metrics = list(next(iter(models.values())))
        lines += [f"| {bench} | {' | '.join(metrics)} |", "|---" * (len(metrics) + 1) + "|"]
        lines += [
            f"| {model} | {' | '.join(_number(cells[m]) for m in metrics)} |"
            for model, cells in models.items()
        ]
        lines.append("")
    lines += ["## Known failures", "", _FAILS[task], ""]
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:.2f}" if abs(value) >= 5 else f"{value:.4f}"
