"""Recurrent layers."""

from __future__ import annotations

from twinnet.report.sentences.registry import sentence


@sentence("recurrent.gates")
def _(network: str, twin: str) -> str:
    return f"the twin reads the gates in the order {twin} where the network has {network}"


@sentence("recurrent.reset")
def _(network: bool, twin: bool) -> str:
    ours, theirs = (("before", "after")[after] for after in (network, twin))
    return f"the twin resets {theirs} the product where the network resets {ours} it"


@sentence("recurrent.direction")
def _(network: str, twin: str) -> str:
    return f"the twin runs {twin} where the network runs {network}"


@sentence("recurrent.one_bias")
def _(network: str, twin: str, used: str) -> str:
    return f"the twin uses only the {used} bias"


@sentence("recurrent.from_zero")
def _(network: str, twin: str) -> str:
    return f"the twin starts from zero where the network is given an {network}"
