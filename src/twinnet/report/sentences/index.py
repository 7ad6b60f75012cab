"""Positions."""

from __future__ import annotations

from twinnet.report.sentences.registry import sayings, sentence

sayings(
    {
        "index.position": "the twin takes position {twin} where the network takes {network}",
        "index.reversed": "the twin reads the positions in reverse order along axis {axis}",
        "index.rolled": "the twin has the result rolled by {twin} along axis {axis}",
        "index.slice": "the twin slices axis {axis} from {twin[0]} to {twin[1]} where the network slices "
        "from {network[0]} to {network[1]}",
    }
)


@sentence("index.triangle")
def _(network: bool, twin: bool) -> str:
    kept, other = (("lower", "upper")[upper] for upper in (network, twin))
    return f"the twin keeps the {other} triangle where the network keeps the {kept}"


@sentence("index.shifted")
def _(network: str, twin: str, around: bool) -> str:
    return f"the twin reads position {twin}{', around the end' if around else ''} where the network reads {network}"
