"""Narrow floats and quantised values."""

from __future__ import annotations

from twinnet.report.sentences.registry import plain, sayings, sentence

sayings(
    {
        "precision.computed": "computed in {twin}",
        "quantisation.coarse": "its scale is far too large: the values fill {used:.0%} of its range",
        "quantisation.coarse_weights": "the scale of its weights is far too large: they fill {used:.0%} of their range",
        "quantisation.rounding": "the twin rounds {twin} where the network rounds {network}",
        "quantisation.overflows": "the twin overflows where the network saturates",
        "quantisation.zero_point": "zero point {twin} where the network has {network}",
        "quantisation.scale": "a scale {twin}x that of the network",
        "quantisation.read_zero_point": "the twin reads the values with zero point {twin} instead of {network}",
        "quantisation.read_scale": "the twin reads the values with a scale {twin}x that of the network",
        "quantisation.grid": "the result is rounded to steps of {twin} ({bits} bits)",
        "steps.read_scale": "the twin reads its data with a scale {twin}x the one they were written with",
        "steps.read_zero_point": "the twin reads its data with zero point {twin} where they were written with "
        "{network}",
        "steps.read_otherwise": "the twin reads its data with other steps than they were written with",
        "quantisation.weights": "the weights are rounded to {bits} bits per {per}",
        "steps.by_engine": "the engine rounds the weights to {bits} bits per {per}, though the file holds them in "
        "full precision",
        "steps.below": "with zero point {twin} the range that replaces the ReLU begins at {low:.4g}, not at 0 "
        "(zero point {network})",
        "steps.softmax": "the engine's 8-bit softmax counts {twin} steps up to 1 where there are {network:.6g}: so "
        "does QLinearSoftmax of ONNX Runtime; use opt=basic, or keep the softmax in float",
        "steps.pairs": "the engine adds up products of 8-bit numbers in pairs of 16 bits, which saturate: so do "
        "processors without VNNI; quantise with reduce_range=1, or run it on another processor",
        "precision.overflow": "the twin overflows {format}, which ends at {end:.6g}: the network has "
        "{network}",
        "steps.range": "the twin saturates at [{twin[0]:.4g}, {twin[1]:.4g}] where the network's values "
        "reach [{network[0]:.4g}, {network[1]:.4g}]: the range is too small",
    }
)


@sentence("precision.rounded")
def _(network: str, twin: str, what: str) -> str:
    if what == "product":
        return f"the twin multiplies in {twin}"
    return f"the {what} {'is' if what == 'result' else 'are'} rounded to {twin}"


@sentence("precision.weights")
def _(network: str, twin: str, channel: int | None) -> str:
    which = "the weights" if channel is None else f"weights of channel {channel}"
    return f"{which} are rounded to {twin}"


@sentence("precision.read")
def _(network: str, twin: str, tensor: str | None) -> str:
    return f"the twin reads {tensor or 'its data'} rounded to {twin}"


@sentence("quantisation.saturates")
def _(network: tuple[float, float], twin: tuple[float, float]) -> str:
    theirs = f"[{plain(twin[0])}, {plain(twin[1])}]"
    return f"the twin saturates at {theirs} where the network saturates at [{network[0]}, {network[1]}]"


@sentence("steps.saturated")
def _(of: str, channel: int | None, network: float, twin: float) -> str:
    where = _where(of, channel)
    return f"the twin saturates: {where} end at {plain(twin)} where the network has {plain(network)}"


@sentence("steps.scale")
def _(of: str, channel: int | None, network: float, twin: float) -> str:
    return f"the twin has a scale of the {_where(of, channel)} {plain(twin)}x that of the network"


@sentence("steps.zero_point")
def _(of: str, channel: int | None, network: int, twin: int) -> str:
    return f"the twin has a zero point of the {_where(of, channel)} that is off by {twin}"


@sentence("steps.one")
def _(of: str, channel: int | None, network: float, twin: float) -> str:
    where = _where(of, channel)
    return f"the twin has one of the {where} at {plain(twin)} where the network has {plain(network)}"


@sentence("steps.beyond")
def _(of: str, channel: int | None, count: int, network: float, twin: float) -> str:
    return f"the twin has {count} {_where(of, channel)} further than half a step from the network's"


@sentence("steps.data")
def _(network: str, twin: str, block: int | None) -> str:
    how = "row by row" if block is None else f"in blocks of {block}"
    return f"the twin rounds the data to 8 bits {how}, where only weights are declared to be rounded"


def _where(of: str, channel: int | None) -> str:
    return of if channel is None else f"{of} of channel {channel}"
