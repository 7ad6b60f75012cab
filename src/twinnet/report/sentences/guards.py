"""What weakens an answer, and what limits it."""

from __future__ import annotations

from twinnet.report.sentences.registry import sentence, words
from twinnet.result import Fact


@sentence("data.empty")
def _() -> str:
    return "is empty"


@sentence("data.nothing_finite")
def _() -> str:
    return "holds no finite number"


@sentence("data.constant")
def _(value: float) -> str:
    return f"is {value:g} everywhere"


@sentence("data.saturated")
def _(share: float, low: float, high: float) -> str:
    return f"is saturated: {100 * share:.1f} % of it is either {low:g} or {high:g}"


@sentence("data.small")
def _() -> str:
    return "is as small as what rounding may change"


@sentence("data.output")
def _(output: str, why: Fact) -> str:
    return f"output {output} {words(why)}: this data cannot show a fault in it"


@sentence("data.untested")
def _(count: int, sites: int) -> str:
    which = "site is" if count == 1 else "sites are"
    return f"{count} of {sites} inner {which} not tested by this data (see the report)"


@sentence("data.input")
def _(input: str, value: float) -> str:
    return f"input {input} is {value:g} everywhere: it hardly tests the network"


@sentence("baseline.same")
def _() -> str:
    return "a different input gives the same output: agreement proves nothing"


@sentence("baseline.close")
def _(moved: float, differs: float) -> str:
    told = f"a different input moves the output by {moved:.2g}, the twin by {differs:.2g}"
    return f"{told}: this data hardly tells them apart"


@sentence("determinism")
def _(side: str, spread: float) -> str:
    allowed = "; added to what is allowed" if side == "twin" else ""
    return f"two equal runs of the {side} differ by {spread:.2g}{allowed}"


@sentence("watching.output")
def _(side: str, effect: float) -> str:
    return f"watching the {side} changes its output by {effect:.2g}; the output is judged unwatched"


@sentence("watching.infinite")
def _(tensor: str, more: int) -> str:
    which = f"{tensor} and {more} more" if more else tensor
    told = f"watching the twin makes {which} infinite, though it is not where it is used"
    return f"{told}; what reads it is judged in one with what makes it"


@sentence("watching.unjudged")
def _(tensor: str) -> str:
    return f"watching the twin changes what {tensor} reads, so that it could not be judged"


@sentence("training_mode")
def _() -> str:
    return "the module was in training mode; it was set to eval for the check"


@sentence("coverage.nothing")
def _(why: Fact | None) -> str:
    return f"nothing was judged{'' if why is None else f': {words(why)}'}"


@sentence("coverage.no_layers")
def _() -> str:
    return "the network's layers are not known: only outputs are judged, by the size of the difference"


@sentence("coverage.not_judged")
def _(pairs: int, why: Fact) -> str:
    return f"{pairs} pairs could not be judged: {words(why)}"


@sentence("coverage.long_segment")
def _(layers: int) -> str:
    return f"the longest segment judged as one has {layers} layers: small faults inside it can hide"


@sentence("note.no_ir")
def _(engine: str) -> str:
    return f"{engine} has no intermediate representation to write"


@sentence("note.ranked")
def _(samples: int, of: int) -> str:
    return f"contributors are ranked by the first {samples} of {of} samples"
