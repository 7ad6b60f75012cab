"""Why a pair has its status, and whether a segment alone shows a finding."""

from __future__ import annotations

from typing import Any

from twinnet.report.sentences.registry import sentence, spaced, words
from twinnet.result import Fact

Form = tuple[tuple[int, ...], str]


@sentence("born.too_large")
def _() -> str:
    return "more than rounding can explain"


@sentence("born.beyond_steps")
def _(clipped: float) -> str:
    told = "more than the steps of its quantisation can explain"
    return f"{told}; its range clips {100 * clipped:.2g} % of the values" if clipped > 0 else told


@sentence("born.within_rounding")
def _() -> str:
    return "the values are as small as what rounding may change"


@sentence("born.within_steps")
def _() -> str:
    return "the values are as small as its quantisation steps"


@sentence("born.nothing_finite")
def _() -> str:
    return "no element of it is a finite number on both sides"


@sentence("born.zero")
def _() -> str:
    return "it is 0 everywhere"


@sentence("born.no_layer")
def _() -> str:
    return "not made by a layer of the network"


@sentence("born.no_layers")
def _() -> str:
    return "the network's layers cannot be evaluated"


@sentence("born.no_value")
def _(tensor: str) -> str:
    return f"no value for {tensor}"


@sentence("born.not_evaluated")
def _(error: str) -> str:
    return error


@sentence("born.flips")
def _(count: int) -> str:
    return f"{count} {'flip' if count == 1 else 'flips'} where the network's own margin is within rounding"


@sentence("born.elements")
def _(count: int, elements: int) -> str:
    return f"{count} of {elements} elements differ"


@sentence("born.overflow")
def _(network: float, end: float) -> str:
    told = "a number too large for the twin became infinite"
    return f"{told}: the network has {network:.3g}, and its format ends at {end:.6g}"


@sentence("born.visible")
def _(why: Fact | None) -> str:
    return "visibly different" + (f" ({words(why)})" if why is not None else "")


@sentence("watching.changed")
def _(network: float) -> str:
    there = f"it is infinite where the network has {network:.3g}"
    return f"watching this tensor changed it: {there}, and what reads it had a number there"


@sentence("watching.across")
def _(tensor: str, why: Fact | None) -> str:
    return f"watching changed what it reads ({tensor}){'' if why is None else f', and {words(why)}'}"


@sentence("shape.differs")
def _(network: tuple[int, ...], twin: tuple[int, ...]) -> str:
    return f"shape {_dims(twin)} where the network has {_dims(network)}"


@sentence("type.differs")
def _(network: str, twin: str) -> str:
    return f"{twin} where the network has {network}"


@sentence("output.form")
def _(network: Form, twin: Form) -> str:
    ours, theirs = (f"{_dims(shape)} {dtype}" for shape, dtype in (network, twin))
    return f"{theirs} where the network has {ours}"


@sentence("output.plainly")
def _() -> str:
    return "plainly different"


@sentence("output.uncaught")
def _(what: Fact) -> str:
    return f"{words(what)}, though no segment could be caught creating it"


@sentence("nonfinite.nan")
def _(network: int, twin: int) -> str:
    return f"{twin} NaN where the network has {network}"


@sentence("nonfinite.places")
def _(count: int) -> str:
    return f"NaN or Inf in other places than in the network ({count} elements)"


@sentence("tolerance.none")
def _() -> str:
    return "no tolerance is stated for it"


@sentence("tolerance.nonfinite")
def _(count: int) -> str:
    return f"NaN or Inf in other places ({count} elements)"


@sentence("tolerance.size")
def _(differs: float, atol: float, rtol: float, level: float, allowed: float) -> str:
    bound = f"atol {atol:g} + rtol {rtol:g} x |{level:.3g}|"
    return f"differs by {differs:.3g} where {bound} allows {allowed:.3g}"


@sentence("tolerance.ulp")
def _(apart: int, allowed: float) -> str:
    return f"{apart} ULP apart, {allowed:g} allowed"


@sentence("tolerance.decibels")
def _(figure: str, value: float, least: float) -> str:
    return f"{figure.upper()} {value:.2f} dB, at least {least:g} dB asked for"


@sentence("tolerance.cosine")
def _(value: float, least: float) -> str:
    return f"cosine {value:.6f}, at least {least:g} asked for"


@sentence("alone.shows")
def _() -> str:
    return "the twin's segment alone shows it"


@sentence("alone.context")
def _() -> str:
    return "only in context: the twin's segment alone does not show it"


@sentence("alone.no_time")
def _(seconds: float) -> str:
    return f"not run alone: the {seconds:g} s for confirming findings are used up"


@sentence("alone.not_judged")
def _(why: Fact | None) -> str:
    return f"what its segment gives alone could not be judged: {words(why)}"


@sentence("alone.not_cut")
def _(error: str) -> str:
    return error


@sentence("alone.failed")
def _(error: str) -> str:
    return f"its segment could not be run alone: {error}"


@sentence("tie.layer")
def _(layer: str) -> str:
    return f"they share {layer}, whose own tensor is not compared"


@sentence("tie.weight")
def _() -> str:
    return "they share the weight"


@sentence("evidence")
def _(count: int, elements: int, sign: str | None, channels: Any, places: tuple[Any, ...]) -> str:
    share = count / elements
    parts = [
        f"{count} of {elements} elements differ"
        if share < 0.01
        else f"{round(100 * share)} % of the elements differ"
    ]
    parts += [f"all {sign}"] if sign is not None else []
    if channels is not None:
        which, of = channels
        parts.append(f"only in channel{'' if len(which) == 1 else 's'} {_few(which)} of {of}")
    for positions, size, axis, border in places:
        edge = " (the border)" if border else ""
        parts.append(f"only at {_few(positions)} of {size} along axis {axis}{edge}")
    return ", ".join(parts)


@sentence("layers.apart")
def _(network: tuple[str, ...], twin: tuple[str, ...]) -> str:
    told = [(side, kinds) for side, kinds in (("twin", twin), ("network", network)) if kinds]
    return ", ".join(f"only the {side} has here: {_listed(kinds)}" for side, kinds in told)


def _listed(kinds: tuple[str, ...]) -> str:
    return ", ".join(spaced(kind) for kind in kinds[:6]) + (" ..." if len(kinds) > 6 else "")


def _few(positions: tuple[int, ...]) -> str:
    return ", ".join(map(str, positions[:4])) + (" ..." if len(positions) > 4 else "")


def _dims(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"
