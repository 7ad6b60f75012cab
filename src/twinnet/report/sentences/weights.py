"""Weights."""

from __future__ import annotations

from twinnet.report.sentences.registry import plain, sayings, sentence

sayings(
    {
        "weights.by_column": "the weights are read in the other order (column by column)",
        "weights.other_channel": "other weights in channel {channel} of {count}",
        "weights.checkpoint": "other weights throughout, as from another checkpoint ({differing} of {elements} differ)",
        "weights.apart": "other weights, {share:.2%} apart from the network's ({differing} of {elements} differ)",
        "weights.axes_exchanged": "axes {axes[0]} and {axes[1]} of the weights are exchanged",
    }
)


_TRANSPOSED = {
    "kernel": "the kernel is transposed",
    "matrix": "the weights are transposed",
    "channels": "input and output channels of the weights are exchanged",
}


@sentence("weights.of_another_layer")
def _(network: None, twin: str, bias: bool) -> str:
    return f"the twin has the weights of {twin}{', and its bias' if bias else ''}"


@sentence("weights.several")
def _(of: tuple[str, ...], differing: int, elements: int, share: float | None) -> str:
    what = f"{', '.join(of[:-1])} and {of[-1]}"
    far = "as from another checkpoint" if share is None else f"{share:.2%} apart from the network's"
    return f"other {what}, {far} ({differing} of {elements} numbers differ)"


@sentence("weights.grid")
def _(step: float, truncated: bool) -> str:
    return f"the weights are {'truncated' if truncated else 'rounded'} to multiples of 1/{round(1 / step)}"


@sentence("constant.rolled")
def _(of: str, axis: int, shift: int, length: int) -> str:
    by = shift if shift <= length // 2 else shift - length
    return f"the {of} of the twin {'are' if of == 'weights' else 'is'} rolled by {by} along axis {axis}"


@sentence("weights.mirrored")
def _(axes: tuple[int, ...], both: bool) -> str:
    along = axes[0] if len(axes) == 1 else plain(axes)
    return f"the kernel is mirrored {'both ways' if both else f'along axis {along}'}"


@sentence("weights.transposed")
def _(what: str) -> str:
    return _TRANSPOSED[what]


@sentence("weights.one")
def _(index: tuple[int, ...], network: float, twin: float, bit: int | None) -> str:
    flipped = "" if bit is None else f" (bit {bit} flipped)"
    return f"weight {plain(index)} is {plain(twin)} where the network has {plain(network)}{flipped}"


@sentence("weights.other")
def _(channels: int, count: int) -> str:
    if channels == count:
        return "other weights throughout"
    return f"other weights in {channels} of {count} channels"
