"""What weakens an answer, and what limits it."""

from __future__ import annotations

from twinnet.report.sentences.registry import sayings, sentence, words
from twinnet.result import Fact

sayings(
    {
        "data.empty": "is empty",
        "data.nothing_finite": "holds no finite number",
        "data.small": "is as small as what rounding may change",
        "data.output": "output {output} {why}: this data cannot show a fault in it",
        "baseline.same": "a different input gives the same output: agreement proves nothing",
        "watching.unjudged": "watching the twin changes what {tensor} reads, so that it could not be judged",
        "training_mode": "the module was in training mode; it was set to eval for the check",
        "coverage.no_layers": "the network's layers are not known: only outputs are judged, by the size of the "
        "difference",
        "coverage.not_judged": "{pairs} pairs could not be judged: {why}",
        "coverage.long_segment": "the longest segment judged as one has {layers} layers: small faults inside it can "
        "hide",
        "note.no_ir": "{engine} has no intermediate representation to write",
        "note.ranked": "contributors are ranked by the first {samples} of {of} samples",
        "data.constant": "is {value:g} everywhere",
        "data.input": "input {input} is {value:g} everywhere: it hardly tests the network",
        "baseline.close": "a different input moves the output by {moved:.2g}, the twin by {differs:.2g}: "
        "this data hardly tells them apart",
        "watching.output": "watching the {side} changes its output by {effect:.2g}; the output is judged "
        "unwatched",
    }
)


@sentence("data.saturated")
def _(share: float, low: float, high: float) -> str:
    return f"is saturated: {100 * share:.1f} % of it is either {low:g} or {high:g}"


@sentence("data.untested")
def _(count: int, sites: int) -> str:
    which = "site is" if count == 1 else "sites are"
    return f"{count} of {sites} inner {which} not tested by this data (see the report)"


@sentence("determinism")
def _(side: str, spread: float) -> str:
    allowed = "; added to what is allowed" if side == "twin" else ""
    return f"two equal runs of the {side} differ by {spread:.2g}{allowed}"


@sentence("watching.infinite")
def _(tensor: str, more: int) -> str:
    which = f"{tensor} and {more} more" if more else tensor
    told = f"watching the twin makes {which} infinite, though it is not where it is used"
    return f"{told}; what reads it is judged in one with what makes it"


@sentence("coverage.nothing")
def _(why: Fact | None) -> str:
    return f"nothing was judged{'' if why is None else f': {words(why)}'}"
