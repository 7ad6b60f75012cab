"""Advice in words: which segments to keep in float, and what that gives."""

from __future__ import annotations

import math

from twinnet.report import figures
from twinnet.result import Advice

__all__ = ["advice_rows", "advice_words"]


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
    cost = ""
    if before.seconds and after.seconds:
        cost = f", and a run takes {after.seconds / before.seconds:.2f} x as long"
    text = f"keep {kept} in float: SNR {decibels(before.snr)} becomes {decibels(after.snr)}{cost} ({how})"
    if advice.target is not None and not advice.reached:
        text += f"; {decibels(advice.target)} is not reached"
    return text


def advice_rows(advice: Advice) -> list[tuple[str, str, str, str, str, str]]:
    """One row per step: segments in float, SNR, PSNR, largest difference, time if known, which were added."""
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
                "" if step.seconds is None else figures.seconds(step.seconds),
                added,
            )
        )
        known = step.kept
    return rows
