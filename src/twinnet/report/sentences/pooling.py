"""Pooling and resizing."""

from __future__ import annotations

from twinnet.report.sentences.registry import sayings, sentence, spaced

sayings(
    {
        "pooling.window": "a window of {twin} where the network has {network}",
        "pooling.counts_beyond": "the twin divides by the whole window at the edge, where a size rounded up reaches "
        "beyond the padding; the network counts what is there",
        "pooling.sum": "the twin sums where the network averages",
        "resize.sampled": "the twin samples with {attribute} {twin} where the network has {network}",
        "resize.unchecked": "places more than a pixel outside the picture are read from the {twin}, where the network "
        "has {network}: the twin's engine checks them against one side only",
        "resize.cubic": "cubic coefficient {twin} where the network has {network}",
    }
)


@sentence("pooling.size_rounded")
def _(network: bool, twin: bool) -> str:
    ours, theirs = (("down", "up")[up] for up in (network, twin))
    return f"the twin rounds the size {theirs} where the network rounds {ours}"


@sentence("pooling.counts_padding")
def _(network: bool, twin: bool, instead_of_max: bool) -> str:
    if instead_of_max:
        return "the twin averages, counting the padding, where the network takes the maximum"
    told = "counts the padding in the mean" if twin else "leaves the padding out of the mean"
    return f"the twin {told} where the network {'counts it' if network else 'leaves it out'}"


@sentence("resize.another")
def _(attributes: tuple[str, ...], network: str, twin: str) -> str:
    return f"the twin resizes with {' and '.join(attributes)} {twin} where the network has {network}"


@sentence("resize.switched")
def _(attribute: str, network: bool, twin: bool) -> str:
    ours, theirs = (("off", "on")[on] for on in (network, twin))
    return f"{spaced(attribute)} {theirs} where the network has it {ours}"
