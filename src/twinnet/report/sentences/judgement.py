"""Why a pair has its status, and whether a segment alone shows a finding."""

from __future__ import annotations

from typing import Any

from twinnet.report.sentences.registry import counted, few, sayings, sentence, spaced, words
from twinnet.result import Fact
from twinnet.signature import dims

sayings(
    {
        "born.too_large": "more than rounding can explain",
        "born.within_rounding": "the values are as small as what rounding may change",
        "watching.apart": "what reads it did not compute with what was shown: the compiler gives it wrong as an output",
        "born.within_steps": "the values are as small as its quantisation steps",
        "born.nothing_finite": "no element of it is a finite number on both sides",
        "born.zero": "it is 0 everywhere",
        "born.no_layer": "not made by a layer of the network",
        "born.no_layers": "the network's layers cannot be evaluated",
        "born.no_value": "no value for {tensor}",
        "born.elements": "{count} of {elements} elements differ",
        "type.differs": "{twin} where the network has {network}",
        "output.numbers": "{count} of {elements} whole numbers differ",
        "output.unwatched": "off by {error:.3g} from what it gives while it is watched",
        "output.uncaught": "{what}, though no segment could be caught creating it",
        "nonfinite.nan": "{twin} NaN where the network has {network}",
        "tolerance.none": "no tolerance is stated for it",
        "tolerance.unused": "the rule '{rule}' fits no site that is compared: it checks nothing",
        "alone.shows": "the twin's segment alone shows it",
        "alone.context": "only in context: the twin's segment alone does not show it",
        "alone.not_judged": "what its segment gives alone could not be judged: {why}",
        "alone.failed": "its segment could not be run alone: {error}",
        "evidence.constant": "the twin's result is {value:g} everywhere",
        "cause.samples": "sample {found} looks as if {first}, but sample {sample} does not",
        "tie.layer": "they share {layer}, whose own tensor is not compared",
        "tie.weight": "they share the weight",
        "born.not_evaluated": "{error}",
        "born.overflow": "a number too large for the twin became infinite: the network has {network:.3g}, "
        "and its format ends at {end:.6g}",
        "watching.changed": "watching this tensor changed it: it is infinite where the network has "
        "{network:.3g}, and what reads it had a number there",
        "shape.differs": "shape {twin:dims} where the network has {network:dims}",
        "tolerance.size": "differs by {differs:.3g} where atol {atol:g} + rtol {rtol:g} x |{level:.3g}| "
        "allows {allowed:.3g}",
        "tolerance.ulp": "{apart} ULP apart, {allowed:g} allowed",
        "tolerance.cosine": "cosine {value:.6f}, at least {least:g} required",
        "alone.no_time": "not run alone: the {seconds:g} s for confirming findings are used up",
        "alone.not_cut": "{error}",
    }
)


@sentence("nonfinite.places")
def _(count: int) -> str:
    return f"NaN or Inf in other places than in the network ({counted(count, 'element')})"


@sentence("tolerance.nonfinite")
def _(count: int) -> str:
    return f"NaN or Inf in other places ({counted(count, 'element')})"


Form = tuple[tuple[int, ...], str]


@sentence("born.beyond_steps")
def _(clipped: float) -> str:
    told = "more than the steps of its quantisation can explain"
    return f"{told}; its range clips {100 * clipped:.2g} % of the values" if clipped > 0 else told


@sentence("born.flips")
def _(count: int) -> str:
    return f"{count} {'flip' if count == 1 else 'flips'} where the network's own margin is within rounding"


@sentence("born.visible")
def _(why: Fact | None, what: Fact | None = None) -> str:
    told = "visibly different" if what is None else words(what)
    return told + (f" ({words(why)})" if why is not None else "")


@sentence("watching.across")
def _(tensor: str, why: Fact | None) -> str:
    return f"watching changed what it reads ({tensor}){'' if why is None else f', and {words(why)}'}"


@sentence("output.part")
def _(where: tuple[int, ...], error: float, scale: float) -> str:
    place = f" at index {where[1]} of axis {where[0]}" if where else ""
    return f"off by {error:.3g}{place}, where its values reach {scale:.3g}"


@sentence("output.form")
def _(network: Form, twin: Form) -> str:
    ours, theirs = (f"{dims(shape)} {dtype}" for shape, dtype in (network, twin))
    return f"{theirs} where the network has {ours}"


@sentence("tolerance.decibels")
def _(figure: str, value: float, least: float) -> str:
    return f"{figure.upper()} {value:.2f} dB, at least {least:g} dB required"


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
        parts.append(f"only in channel{'' if len(which) == 1 else 's'} {few(which)} of {of}")
    for positions, size, axis, border in places:
        edge = " (the border)" if border else ""
        parts.append(f"only at {few(positions)} of {size} along axis {axis}{edge}")
    return ", ".join(parts)


@sentence("layers.apart")
def _(network: tuple[str, ...], twin: tuple[str, ...]) -> str:
    told = [(side, kinds) for side, kinds in (("twin", twin), ("network", network)) if kinds]
    return ", ".join(f"only the {side} has here: {_listed(kinds)}" for side, kinds in told)


def _listed(kinds: tuple[str, ...]) -> str:
    return ", ".join(spaced(kind) for kind in kinds[:6]) + (" ..." if len(kinds) > 6 else "")


@sentence("pairing.moved")
def _(tensors: tuple[str, ...]) -> str:
    they, them = ("has", "it") if len(tensors) == 1 else ("have", "them")
    return (
        f"{_first(tensors)} {they} no counterpart in the twin, whose later weights make up for it; "
        f"what reads {them} is judged in one piece with {them}"
    )


@sentence("recording.channels_last")
def _(count: int, name: str) -> str:
    if count == 1:
        return f"the recording holds {name} with channels last; it is compared with channels first"
    return f"the recording holds {count} tensors with channels last ({name} ...); they are compared with channels first"


@sentence("recording.output_by_shape")
def _(pairs: tuple[tuple[str, str], ...]) -> str:
    told = ", ".join(f"{array} is taken for the output {name}" for array, name in pairs)
    return f"{told}: no other array has its shape (--names overrides this)"


@sentence("recording.no_outputs")
def _(names: tuple[str, ...]) -> str:
    return f"the recording holds no array for the network's output {_first(names)}; say with --names which one it is"


@sentence("recording.unpaired")
def _(names: tuple[str, ...]) -> str:
    count = "1 array" if len(names) == 1 else f"{len(names)} arrays"
    return (
        f"{count} of the recording without a partner: {_first(names)} (--names-out FILE writes a map to edit)"
    )


def _first(names: tuple[str, ...]) -> str:
    return ", ".join(names[:4]) + (" ..." if len(names) > 4 else "")


@sentence("names.unknown")
def _(option: str, side: str, name: str, close: str) -> str:
    hint = f"did you mean {close}?" if close else "`twinnet inspect --sites` lists them"
    return f"{option}: the {side} has nothing called {name}; {hint}"
