"""Padding."""

from __future__ import annotations

from twinnet.report.sentences.registry import plain, sentence


@sentence("padding.mode")
def _(network: str, twin: str) -> str:
    return f"the twin pads by {twin} where the network pads by {network}"
