"""Operators and their operands."""

from __future__ import annotations

from twinnet.report.sentences.registry import plain, sayings, sentence, spaced

sayings(
    {
        "operator.passed_on": "the twin leaves out the {network} and passes its operand {operand} on",
        "operands.branches": "the twin takes the branches of the choice the other way round",
        "operands.joined": "the twin joins the operands in the order {twin}, not as they come",
        "operands.part": "the twin takes part {twin} of the split where the network takes part {network}",
        "rounding.another": "the twin rounds {twin} where the network rounds {network}",
        "rounding.left_out": "the twin leaves out the rounding",
        "operator.another": "{twin:words} where the network has {network:words}",
        "operands.other": "{operator:words} of other operands than in the network",
        "operands.reordered": "{operator:words} with its operands in another order",
        "operands.of_attention": "the twin takes {operands[0]} and {operands[1]} the other way round",
    }
)


_SWAPPED = {"sub": "b - a where the network has a - b", "div": "b / a where the network has a / b"}


@sentence("operator.left_out")
def _(network: str, twin: str, constant: float | str | None = None) -> str:
    what = "an operand" if network == "operand" else f"the {spaced(network)}"
    return f"the twin leaves out {what}{'' if constant is None else f' with {plain(constant)}'}"


@sentence("operands.swapped")
def _(operator: str, network: str, twin: str) -> str:
    return _SWAPPED.get(operator, f"{operator} with its two operands swapped")


@sentence("groups.interleaved")
def _(of: str, network: str, twin: str) -> str:
    if of == "input":
        return (
            "the twin takes the input channels of a group interleaved where the network takes them in blocks"
        )
    return "the twin writes the output channels of the groups interleaved where the network writes them in blocks"
