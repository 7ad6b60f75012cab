"""Twins that do not repeat themselves."""

from __future__ import annotations

from twinnet.report.sentences.registry import plain, sentence


@sentence("nondeterminism")
def _(network: float, twin: float, count: int, elements: int) -> str:
    by = plain(float(f"{twin:.2g}"))
    return f"two equal runs of the twin differ here by {by}, in {count} of {elements} elements"
