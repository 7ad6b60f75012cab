"""Attention."""

from __future__ import annotations

from twinnet.report.sentences.registry import sayings, sentence

sayings(
    {
        "attention.heads": "the twin's attention has {twin} heads where the network's has {network}",
        "attention.no_mask": "the twin ignores the mask",
        "attention.scale": "the twin scales the scores by {twin} where the network scales by {network}",
    }
)


@sentence("attention.causal")
def _(network: bool, twin: bool) -> str:
    if twin:
        return "the twin masks later positions, which the network sees"
    return "the twin looks at later positions, which the network masks"
