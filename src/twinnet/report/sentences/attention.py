"""Attention."""

from __future__ import annotations

from twinnet.report.sentences.registry import plain, sentence


@sentence("attention.causal")
def _(network: bool, twin: bool) -> str:
    if twin:
        return "the twin masks later positions, which the network sees"
    return "the twin looks at later positions, which the network masks"


@sentence("attention.no_mask")
def _(network: str, twin: str) -> str:
    return "the twin ignores the mask"


@sentence("attention.scale")
def _(network: float, twin: float) -> str:
    return f"the twin scales the scores by {plain(twin)} where the network scales by {plain(network)}"
