"""Axes, layouts and the order of channels."""

from __future__ import annotations

from typing import Any

from twinnet.report.sentences.registry import plain, sayings, sentence

sayings(
    {
        "axis.reduced": "the twin reduces over axes {twin} where the network reduces over {network}",
        "layout.blocks": "{operator} in {twin} order where the network uses {network}",
        "layout.permuted": "the twin permutes the axes by {twin} where the network permutes by {network}",
        "layout.not_transposed": "the twin leaves the transposition out",
        "layout.read_in_order": "the twin reads the data in the order {twin} where the network reads {network}",
        "layout.as_stored": "the twin reads an image whose channels come last in memory as if they came first",
        "layout.result_mirrored": "the twin has the result mirrored along axis {axis}",
        "layout.operand_swapped": "the twin reads operand {operand} with its last two axes swapped",
        "layout.data_mirrored": "the twin reads the data mirrored along axis {axis}",
        "channels.reversed": "the channels are in reverse order",
        "channels.weights_moved": "{moved} output channels of the weights are in another order",
        "axis.another": "{operator:words} over axis {twin} where the network uses axis {network}",
        "layout.result_swapped": "the twin has axes {axes[0]} and {axes[1]} of the result swapped",
        "channels.exchanged": "channels {channels[0]} and {channels[1]} are exchanged",
    }
)


@sentence("axis.running")
def _(operator: str, attribute: str, network: bool, twin: bool) -> str:
    state, other = (name if on else f"not {name}" for on, name in ((network, attribute), (twin, attribute)))
    return f"{operator} {other} where the network has it {state}"


@sentence("channels.read_reversed")
def _(network: str, twin: str, count: int) -> str:
    return f"the twin reads the channels in reverse order{' (BGR for RGB)' if count == 3 else ''}"


@sentence("channels.moved")
def _(network: Any, twin: tuple[int, ...] | None, moved: int, count: int) -> str:
    shown = plain(twin) if twin is not None and count <= 8 else f"{moved} of {count} moved"
    return f"the channels are in another order: {shown}"
