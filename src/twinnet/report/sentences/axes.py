"""Axes, layouts and the order of channels."""

from __future__ import annotations

from typing import Any

from twinnet.report.sentences.registry import plain, sentence, spaced


@sentence("axis.another")
def _(operator: str, network: int, twin: int) -> str:
    return f"{spaced(operator)} over axis {twin} where the network uses axis {network}"


@sentence("axis.running")
def _(operator: str, attribute: str, network: bool, twin: bool) -> str:
    state, other = (name if on else f"not {name}" for on, name in ((network, attribute), (twin, attribute)))
    return f"{operator} {other} where the network has it {state}"


@sentence("axis.reduced")
def _(network: tuple[int, ...], twin: tuple[int, ...]) -> str:
    return f"the twin reduces over axes {plain(twin)} where the network reduces over {plain(network)}"


@sentence("layout.blocks")
def _(operator: str, network: str, twin: str) -> str:
    return f"{operator} in {twin} order where the network uses {network}"


@sentence("layout.permuted")
def _(network: tuple[int, ...], twin: tuple[int, ...]) -> str:
    return f"the twin permutes the axes by {plain(twin)} where the network permutes by {plain(network)}"


@sentence("layout.not_transposed")
def _(network: tuple[int, ...], twin: tuple[int, ...]) -> str:
    return "the twin leaves the transposition out"


@sentence("layout.read_in_order")
def _(network: str | tuple[int, ...], twin: str | tuple[int, ...]) -> str:
    return f"the twin reads the data in the order {plain(twin)} where the network reads {plain(network)}"


@sentence("layout.result_swapped")
def _(axes: tuple[int, int]) -> str:
    return f"the twin has axes {axes[0]} and {axes[1]} of the result swapped"


@sentence("layout.result_mirrored")
def _(axis: int) -> str:
    return f"the twin has the result mirrored along axis {axis}"


@sentence("layout.operand_swapped")
def _(operand: int) -> str:
    return f"the twin reads operand {operand} with its last two axes swapped"


@sentence("layout.data_mirrored")
def _(axis: int) -> str:
    return f"the twin reads the data mirrored along axis {axis}"


@sentence("channels.read_reversed")
def _(network: str, twin: str, count: int) -> str:
    return f"the twin reads the channels in reverse order{' (BGR for RGB)' if count == 3 else ''}"


@sentence("channels.exchanged")
def _(channels: tuple[int, int], network: Any = None, twin: Any = None) -> str:
    return f"channels {channels[0]} and {channels[1]} are exchanged"


@sentence("channels.reversed")
def _(network: Any, twin: Any) -> str:
    return "the channels are in reverse order"


@sentence("channels.moved")
def _(network: Any, twin: tuple[int, ...] | None, moved: int, count: int) -> str:
    shown = plain(twin) if twin is not None and count <= 8 else f"{moved} of {count} moved"
    return f"the channels are in another order: {shown}"


@sentence("channels.weights_moved")
def _(moved: int) -> str:
    return f"{moved} output channels of the weights are in another order"
