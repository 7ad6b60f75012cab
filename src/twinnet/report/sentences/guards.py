"""What weakens an answer, and what limits it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from twinnet.report.sentences.registry import sayings, sentence, words
from twinnet.result import Fact

sayings(
    {
        "data.empty": "is empty",
        "data.nothing_finite": "holds no finite number",
        "data.small": "is as small as what rounding may change",
        "data.output": "output {output} {why}: this data cannot show a fault in it",
        "data.nan": "output {output} is NaN or infinite in {count} of {elements} elements on both sides: what the twin "
        "computes there is unknown",
        "outputs.precision": "output {output} is {network} on both sides, but no more exact than {twin}: the twin is "
        "assumed to compute in {twin}",
        "baseline.refused": "the twin cannot run the same input with its values in another order, though the network "
        "can: it may work on this one input only",
        "files.attribute": "{layer}: {name} is {network:g} in the network, {twin:g} in the twin",
        "files.weight": "{layer}: {count} of {elements} numbers of a constant differ",
        "sizes.batch": "two samples as one batch: output {output} differs by {error:.2g}, though each alone agrees",
        "recordings.same": "both recordings are the same folder: nothing was compared with anything else",
        "baseline.same": "a different input gives the same output: agreement proves nothing",
        "watching.unjudged": "watching the twin changes what {tensor} reads, so that it could not be judged",
        "training_mode": "the module was in training mode; it was set to eval for the check",
        "coverage.no_layers": "the network's layers are not known: only outputs are judged, by the size of the "
        "difference",
        "coverage.not_judged": "{pairs} pairs could not be judged: {why}",
        "coverage.long_segment": "the longest segment judged as one has {layers} layers: small faults inside it can "
        "hide",
        "data.doubtful": "in output {output} {count} of {elements} elements differ by more than rounding of their own "
        "size; only larger ones beside them could explain that, which is unknown without the network's layers",
        "coverage.far": "output {output} differs by {ratio:.3g} x the network's own rounding, and nothing inside the "
        "{layers} layers before it was compared: a small fault can hide there",
        "outputs.dtype": "output {output} is {twin} in the twin, {network} in the network: code that reads it may not "
        "accept that",
        "note.no_ir": "{engine} has no intermediate representation to write",
        "note.unsought": "causes were looked for in {looked} findings, but not in {findings} more",
        "cause.unsought": "no cause was looked for here: {looked} findings before it used up the time",
        "note.ranked": "contributors are ranked by the first {samples} of {of} samples",
        "data.constant": "is {value:g} everywhere",
        "data.input": "input {input} is {value:g} everywhere: it hardly tests the network",
        "baseline.close": "a different input moves the output by {moved:.2g}, the twin by {differs:.2g}: "
        "this data hardly tells them apart",
        "baseline.follows": "a different input moves the output by {moved:.2g}, and there the twin is off by "
        "{differs:.2g}: it hardly reacts to its input",
        "watching.output": "watching the {side} changes its output by {effect:.2g}; the output is judged "
        "unwatched",
    }
)


@sentence("data.parts")
def _(output: str, shown: int, elements: int) -> str:
    small = "is 0, or too small to show a fault"
    return (
        f"in output {output} this data could show a fault in {shown} of {elements} elements; the rest {small}"
    )


_SIDES_SHOWN = 3
"""Layers of which a sentence tells the sides that were not reached; the file has them all."""


@sentence("exercise.side")
def _(layer: str, kind: str, side: str, bound: float, source: str = "") -> str:
    return f"{layer} never {_unseen(kind, side, bound)}"


def _unseen(kind: str, side: str, bound: float) -> str:
    if side in ("true", "false"):
        return f"takes its {side} branch" if kind == "if" else f"sees {side}"
    if side == "masked":
        return "sees two positions, so that its causal mask hides nothing"
    if side == "halfway":
        return "sees a number halfway between two whole ones"
    if side == "border":
        return "sees a border of negative numbers, where it matters what it is padded with"
    if side == "nan":
        return "sees NaN or infinity"
    if side == "equal":
        return f"sees {bound:g} itself"
    if side == "unequal":
        return f"sees anything but {bound:g}"
    return f"sees a value {side} {bound:g}"


@sentence("exercise.rows")
def _(layer: str, read: int, rows: int) -> str:
    return f"{layer} reads {read} of {rows} rows"


@sentence("exercise.missing")
def _(sides: tuple[Fact, ...], more: int) -> str:
    return f"not exercised by this data: {_not_seen(sides, more)}"


@sentence("exercise.twin")
def _(sides: tuple[Fact, ...], more: int) -> str:
    return f"not exercised by this data, in the twin alone: {_not_seen(sides, more)}"


def _not_seen(sides: Sequence[Fact], more: int) -> str:
    """The first layers with all their sides, and in how many more there are some."""
    layers: dict[tuple[str, str], list[Fact]] = {}
    for side in sides:
        layers.setdefault((side.params["layer"], side.params.get("source", "")), []).append(side)
    labels = Counter(label for label, _ in layers)
    told = []
    for (label, source), (first, *others) in list(layers.items())[:_SIDES_SHOWN]:
        named = f"{label} ({source})" if source and labels[label] > 1 else label
        first = replace(first, params={**first.params, "layer": named})
        told.append(" or ".join([words(first), *map(_again, others)]))
    rest = max(len(layers) - _SIDES_SHOWN, 0) + more
    return "; ".join(told) + (f"; and {rest} more, in result.json" if rest else "")


def _again(side: Fact) -> str:
    """One more side of a layer, behind "a never sees a value below 0"."""
    if side.params.get("side") in ("below", "above"):
        return f"{side.params['side']} {side.params['bound']:g}"
    return words(side)


@sentence("outputs.missing")
def _(outputs: tuple[str, ...], of: int) -> str:
    return f"the twin lacks {len(outputs)} of {of} outputs: {', '.join(outputs)}"


@sentence("steps.otherwise")
def _(tensor: str, network: tuple[float, int] | None, twin: tuple[float, int] | None) -> str:
    told = f"the twin reads {tensor} with other steps than it writes it with"
    if network is None or twin is None:
        return told
    if network[1] != twin[1]:
        return f"{told}: zero point {twin[1]}, not {network[1]}"
    return f"{told}: scale {twin[0]:.6g}, not {network[0]:.6g}"


@sentence("files.differ")
def _(changes: tuple[Fact, ...], more: int) -> str:
    rest = f"; and {more} more" if more else ""
    return f"the files differ where this data does not show it: {'; '.join(map(words, changes))}{rest}"


@sentence("inputs.sizes")
def _(sizes: tuple[tuple[str, str, int], ...]) -> str:
    said = ", ".join(f"{dim} of input {name} was {size}" for dim, name, size in sizes)
    return f"{said} in every run: other sizes are not exercised"


@sentence("watching.shown")
def _(tensor: str, more: int) -> str:
    rest = f" and {more} more" if more else ""
    return f"{tensor}{rest}: wrong where watched, but what reads it computes with the right one; judged across it"


@sentence("outputs.still")
def _(outputs: tuple[str, ...]) -> str:
    one = len(outputs) == 1
    which = f"output{'' if one else 's'} {', '.join(outputs)}"
    return (
        f"{which} of the network {'was' if one else 'were'} the same in every run: a constant would pass, too"
    )


@sentence("tolerance.outputs")
def _(outputs: tuple[str, ...]) -> str:
    one = len(outputs) == 1
    which = f"output{'' if one else 's'} {', '.join(outputs)}"
    return f"no rule applies to {which}: nothing checks {'it' if one else 'them'}"


@sentence("inputs.still")
def _(inputs: tuple[str, ...]) -> str:
    one = len(inputs) == 1
    which = f"input{'' if one else 's'} {', '.join(inputs)}"
    return f"{which} held the same values in every run: a twin that ignores {'it' if one else 'them'} would pass, too"


@sentence("inputs.overwritten")
def _(inputs: tuple[str, ...]) -> str:
    return f"the twin writes over its input{'' if len(inputs) == 1 else 's'} {', '.join(inputs)}"


@sentence("outputs.exchanged")
def _(network: str, twin: str, count: int) -> str:
    others = f", and {count - 1} more are named differently" if count > 2 else ""
    return f"outputs have exchanged names: what is {network} in the network is {twin} in the twin{others}"


@sentence("data.saturated")
def _(share: float, low: float, high: float) -> str:
    return f"is saturated: {100 * share:.1f} % of it is either {low:g} or {high:g}"


@sentence("data.untested")
def _(count: int, sites: int) -> str:
    which, are = "site" if sites == 1 else "sites", "is" if count == 1 else "are"
    return f"{count} of {sites} inner {which} {are} not tested by this data (see the report)"


@sentence("determinism")
def _(side: str, spread: float) -> str:
    allowed = "; added to what is allowed" if side == "twin" else ""
    return f"two equal runs of the {side} differ by {spread:.2g}{allowed}"


@sentence("watching.infinite")
def _(tensor: str, more: int) -> str:
    which = f"{tensor} and {more} more" if more else tensor
    told = f"watching the twin makes {which} infinite, though not where it is used"
    return f"{told}; what reads it is judged together with what makes it"


@sentence("coverage.nothing")
def _(why: Fact | None) -> str:
    return f"nothing was judged{'' if why is None else f': {words(why)}'}"
