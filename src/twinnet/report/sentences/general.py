"""Words of others, and facts made of facts."""

from __future__ import annotations

from typing import Any

from twinnet.report.sentences.registry import sentence, words
from twinnet.result import Fact


@sentence("said")
def _(text: str, **values: Any) -> str:
    return text


@sentence("either")
def _(first: Fact, second: Fact, evidence: Fact | None) -> str:
    told = f"either {words(first)}, or {words(second)}: this data cannot tell"
    return f"{told}; {words(evidence)}" if evidence is not None else told


@sentence("because")
def _(what: Fact, why: Fact) -> str:
    told, reason = words(what), words(why)
    return told if told == reason else f"{told}: {reason}"


@sentence("all")
def _(facts: tuple[Fact, ...]) -> str:
    return ", ".join(words(fact) for fact in facts)
