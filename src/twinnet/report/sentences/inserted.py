"""Steps that only the twin has."""

from __future__ import annotations

from twinnet.report.sentences.registry import plain, sayings, sentence, spaced

sayings(
    {
        "inserted.quantiser": "the twin rounds to quantised values, which the network does not do",
        "inserted.cast": "the twin rounds to {to}",
        "inserted.order": "the twin reads {moved} of {count} channels in another order",
        "inserted.mirror": "the twin has the values mirrored",
        "inserted.shift": "the twin has the values moved along an axis",
        "inserted.exchange": "channels {channels[0]} and {channels[1]} are exchanged",
    }
)


Numbers = tuple[tuple[str, float], ...]


@sentence("inserted.steps")
def _(network: str, twin: str, steps: tuple[str, ...]) -> str:
    return f"the twin applies {_listed(steps)} that the network does not have"


@sentence("inserted.numbers")
def _(network: str, twin: str, numbers: Numbers, steps: tuple[str, ...]) -> str:
    return f"the twin applies {_computed(numbers) or _listed(steps)} that the network does not have"


@sentence("inserted.preparation")
def _(network: str, twin: str, numbers: Numbers, steps: tuple[str, ...]) -> str:
    return f"the twin prepares the input differently: {_computed(numbers) or _listed(steps)}"


@sentence("inserted.positions")
def _(network: str, twin: str, steps: tuple[str, ...]) -> str:
    return f"the twin changes the positions by {_listed(steps)}, which the network does not do"


def _listed(steps: tuple[str, ...]) -> str:
    return ", ".join(spaced(step) for step in steps)


def _computed(numbers: Numbers) -> str:
    return " and ".join(f"{operator} {plain(value)}" for operator, value in numbers)
