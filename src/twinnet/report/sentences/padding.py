"""Padding."""

from __future__ import annotations

from typing import Any

from twinnet.report.sentences.registry import plain, sentence


@sentence("padding.pads")
def _(network: tuple[Any, ...], twin: tuple[Any, ...]) -> str:
    return f"the twin pads {plain(twin)} where the network pads {plain(network)}"


@sentence("padding.mode")
def _(network: str, twin: str) -> str:
    return f"the twin pads by {twin} where the network pads {'with zeros' if network == 'zeros' else f'by {network}'}"


@sentence("padding.of_axis")
def _(axis: int, network: tuple[int, int], twin: tuple[int, int]) -> str:
    return f"the twin pads axis {axis} by {plain(twin)} where the network pads {plain(network)}"


@sentence("padding.value")
def _(network: float, twin: float) -> str:
    return f"the twin pads with {plain(twin)} where the network pads with {plain(network)}"
