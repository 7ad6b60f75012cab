"""What a hypothesis is, and the registry of families."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from twinnet.blame.causes.kinds import KINDS
from twinnet.blame.problem import NotApplicable, Patch, Problem
from twinnet.result import Fact, said

__all__ = ["FAMILIES", "Candidate", "Family", "NotApplicable", "family", "in_words", "plain", "spoken"]


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One thing the twin may have done instead: the kind of cause, the fact, and how to compute it.

    `change` builds the patch for a problem; it may be asked for a smaller version of the problem (fewer
    channels) unless `whole`. `cost` says how much freedom the hypothesis took: 1 for another value from a
    short list, 2 for one fitted round number, 3 for any fitted number, more for vectors. Of two that fit,
    the cheaper one is believed. `static` marks what the twin's own graph says. `close` marks hypotheses
    that round: where a value lies next to a tie its last step may fall either way, so that a few elements
    may be left over. `unit` is the unit roundoff of the format the twin is said to compute in. `fitted`
    counts the numbers that were solved for: they must explain several elements each. `what` tells apart kinds of
    hypotheses within one kind of cause; `floors` is how many noise floors may be left of the error.
    """

    kind: str
    fact: Fact
    change: Callable[[Problem], Patch]
    cost: float = 1.0
    whole: bool = False
    static: bool = False
    close: bool = False
    unit: float | None = None
    fitted: int = 0
    what: str = ""
    floors: float = 16.0

    def __post_init__(self) -> None:
        assert self.kind in KINDS, self.kind


_VERBS = {
    "pads", "leaves", "adds", "applies", "clamps", "reads", "takes", "permutes", "resizes", "rounds",
    "normalises", "multiplies", "slices", "joins", "reduces", "has", "keeps", "counts", "sums", "averages",
    "scales", "divides", "saturates", "overflows", "runs", "resets", "uses", "starts", "ignores", "looks",
    "masks", "samples", "writes", "makes", "prepares", "changes", "turns", "blends", "requantises", "says",
}  # fmt: skip


def spoken(sentence: str) -> str:
    return f"the twin {sentence}" if sentence.split(" ", 1)[0] in _VERBS else sentence


def in_words(kind, sentence, change, network=None, twin=None, cost=1.0, whole=False, static=False, close=False,
             unit=None, fitted=0, what="", floors=16.0) -> Candidate:  # fmt: skip
    """Not yet converted."""
    return Candidate(
        kind=kind, fact=said(spoken(sentence), network=network, twin=twin), change=change, cost=cost, whole=whole,
        static=static, close=close, unit=unit, fitted=fitted, what=what, floors=floors,
    )  # fmt: skip


Family = Callable[[Problem], Iterable[Candidate]]
FAMILIES: dict[str, Family] = {}
"""Every family by the name of its file."""


def family(propose: Family) -> Family:
    """Register a family: a function from a problem to candidates, the likely ones first.

    >>> sorted(FAMILIES)[:2]  # doctest: +SKIP
    ['activation', 'attention']
    """
    FAMILIES[propose.__module__.rsplit(".", 1)[-1]] = propose
    return propose


def plain(value: Any) -> str:
    """A value as a person would write it.

    >>> plain((1, 1)), plain(0.1 + 0.2), plain(1.0000000131302e-05), plain(3.0)
    ('(1,1)', '0.3', '1e-05', '3')
    """
    if isinstance(value, tuple | list):
        return "(" + ",".join(plain(v) for v in value) + ")"
    if isinstance(value, bool) or not isinstance(value, float):
        return str(value)
    return f"{value:.6g}"
