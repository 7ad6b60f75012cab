"""A score of a classifier."""

from __future__ import annotations


def top1(outputs, twin_outputs, inputs):
    """Share of samples for which both sides choose the same class."""
    (ours,), (theirs,) = outputs.values(), twin_outputs.values()
    return float((ours.argmax(-1) == theirs.argmax(-1)).mean())
