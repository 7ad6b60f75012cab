"""Recurrent layers."""

from __future__ import annotations

from twinnet.report.sentences.registry import sayings, sentence

sayings(
    {
        "recurrent.gates": "the twin reads the gates in the order {twin} where the network has {network}",
        "recurrent.direction": "the twin runs {twin} where the network runs {network}",
        "recurrent.one_bias": "the twin uses only the {used} bias",
        "recurrent.from_zero": "the twin starts from zero where the network is given an {network}",
    }
)


@sentence("recurrent.reset")
def _(network: bool, twin: bool) -> str:
    ours, theirs = (("before", "after")[after] for after in (network, twin))
    return f"the twin resets {theirs} the product where the network resets {ours} it"
