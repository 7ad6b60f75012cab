"""Activations and their bounds."""

from __future__ import annotations

from twinnet.report.sentences.registry import plain, sayings, sentence

sayings(
    {
        "activation.left_out": "the twin leaves out the {network}",
        "activation.added": "the twin applies a {twin} that the network does not have",
    }
)


Bounds = tuple[float | None, float | None]
_GELU = {"GELU erf": "erf", None: "erf", "none": "erf", "tanh": "tanh approximation"}


@sentence("activation.another")
def _(network: str, twin: str) -> str:
    return f"{twin} instead of {_GELU.get(network, network) if 'GELU' in twin else network}"


@sentence("activation.approximation")
def _(network: str | None, twin: str | None) -> str:
    return f"GELU {_GELU.get(twin, twin)} instead of {_GELU.get(network, network)}"


@sentence("activation.bounded")
def _(network: None, twin: Bounds) -> str:
    return f"the twin clamps to {_span(twin)} where the network has no bound"


@sentence("activation.bounds")
def _(network: Bounds, twin: Bounds) -> str:
    return f"the twin clamps to {_span(twin)} where the network clamps to {_span(network)}"


def _span(bounds: Bounds) -> str:
    low, high = bounds
    return f"[{'-inf' if low is None else plain(low)}, {'inf' if high is None else plain(high)}]"
