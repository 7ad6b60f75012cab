"""Padding."""

from __future__ import annotations

from twinnet.report.sentences.registry import sayings, sentence

sayings(
    {
        "padding.pads": "the twin pads {twin} where the network pads {network}",
        "padding.of_axis": "the twin pads axis {axis} by {twin} where the network pads {network}",
        "padding.clipped": "the twin pads with {twin:.4g} where the network pads with {network:g}: the range of the "
        "tensor that it pads ends there",
        "padding.value": "the twin pads with {twin} where the network pads with {network}",
    }
)


@sentence("padding.mode")
def _(network: str, twin: str) -> str:
    return f"the twin pads by {twin} where the network pads {'with zeros' if network == 'zeros' else f'by {network}'}"
