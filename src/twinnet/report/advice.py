"""Advice in words: which segments to keep in float, and what that gives."""

from __future__ import annotations

import math
import shlex

from twinnet.report import figures
from twinnet.report.words import takes_network
from twinnet.result import Advice, Result

__all__ = ["advice_rows", "advice_words", "next_with_advice"]

_OPTIONS = ("--advise-target", "--advise-out")


def decibels(value: float) -> str:
    """Decibels with one digit.

    >>> decibels(54.26), decibels(float("inf"))
    ('54.3 dB', 'exact')
    """
    return f"{value:.1f} dB" if math.isfinite(value) else "exact" if value > 0 else "-"


def advice_words(advice: Advice) -> str:
    """The advice in one sentence.

    >>> from twinnet.result import AdviceStep
    >>> steps = (AdviceStep(0, (), (), 40.0, 50.0, 0.1), AdviceStep(1, ("a",), ("head",), 52.0, 62.0, 0.02))
    >>> advice_words(Advice(steps, 1, "run", 3)).replace("\\u00a0", " ")
    'keep 1 segment in float: SNR 40.0 dB becomes 52.0 dB (run that way on 3 samples)'
    """
    if not advice.steps:
        return "nothing was tried"
    before, after = advice.steps[0], advice.chosen
    if advice.how == "run":
        how = f"run that way on {figures.count(advice.samples, 'sample')}"
    else:
        how = f"simulated, not run: {figures.clean(advice.note)}"
    if not after.kept:
        enough = advice.target is not None and before.snr >= advice.target
        why = "is enough as it is" if enough else "gains nothing by segments in float"
        return f"the twin {why}: SNR {decibels(before.snr)} ({how})"
    kept = figures.count(after.kept, "segment")
    text = f"keep {kept} in float: SNR {decibels(before.snr)} becomes {decibels(after.snr)} ({how})"
    if advice.target is not None and not advice.reached:
        text += f"; {decibels(advice.target)} is not reached"
    return text


def advice_rows(advice: Advice) -> list[tuple[str, str, str, str, str]]:
    """One row per step: segments in float, SNR, PSNR, largest difference, which were added."""
    rows, known = [], 0
    for step in advice.steps:
        added = ", ".join(figures.clean(place) for place in step.places[known:])
        mark = "*" if step.kept == advice.best else ""
        rows.append(
            (
                f"{step.kept}{mark}",
                decibels(step.snr),
                decibels(step.psnr),
                figures.figure(step.max_abs),
                added,
            )
        )
        known = step.kept
    return rows


def next_with_advice(result: Result) -> tuple[str, str]:
    """The command that makes the advised twin, or checks it once it is there."""
    advice = result.advice
    typed = result.argv
    if advice is None or not advice.best or not typed or result.findings:
        return "", ""
    if advice.file:
        said: list[str] = []
        skip = False
        for word in typed:
            if skip or word == "--advise" or word.startswith(tuple(f"{o}=" for o in _OPTIONS)):
                skip = False
            elif word in _OPTIONS:
                skip = True
            else:
                said.append(word)
        for i, word in enumerate(said):
            if word in ("--twin", "-t") and i + 1 < len(said):
                said[i + 1] = advice.file
            elif word.startswith("--twin="):
                said[i] = f"--twin={advice.file}"
        return figures.clean(shlex.join(said)), "checks the improved twin"
    if advice.how == "run" and not takes_network(result.twin):
        return figures.clean(
            shlex.join([*typed, "--advise-out", "improved.onnx"])
        ), "writes the improved twin"
    return "", ""
