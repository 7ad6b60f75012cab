"""NaN and infinity."""

from __future__ import annotations

from typing import Any

from twinnet.report.sentences.registry import sayings, sentence

sayings(
    {
        "nan.bounded": "the twin has the largest float where the network has infinity",
    }
)


_VALUES = {"not a number": "NaN", "zero": "0"}


@sentence("nan.replaced")
def _(network: Any, twin: float) -> str:
    return f"the twin has {'the largest float' if twin else '0'} where the network has NaN"


@sentence("nan.made")
def _(network: Any, twin: Any, operand: int, value: str) -> str:
    return f"the twin makes NaN where operand {operand} is {_VALUES.get(value, value)}"
