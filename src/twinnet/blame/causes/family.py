"""The class of hypotheses, and the registry of their families."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from twinnet.blame.causes.kinds import KINDS
from twinnet.blame.problem import NotApplicable, Patch, Problem
from twinnet.errors import UsageError, foreign_as
from twinnet.plugins import Plugin, plugins
from twinnet.result import Fact

__all__ = ["FAMILIES", "Candidate", "Family", "NotApplicable", "changed", "families", "family"]


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


def changed(kind: str, found: Fact, index: int, /, **changes: Any) -> Candidate:
    """The candidate that layer `index` has other attributes, operands or another kind; see `Problem.change`."""
    return Candidate(kind=kind, fact=found, change=lambda problem: problem.change(index, **changes))


Family = Callable[[Problem], Iterable[Candidate]]
FAMILIES: dict[str, Family] = {}
"""twinnet's own families by the names of their files."""


@cache
def families() -> Mapping[str, Family]:
    """All families, those of other packages (`twinnet.causes`) last. One that fails to load is a warning."""
    found = dict(FAMILIES)
    for name, plugin in plugins("cause", FAMILIES).items():
        try:
            found[name] = _of_package(plugin, plugin.load())
        except UsageError as error:
            warnings.warn(str(error), stacklevel=2)
    return found


def _of_package(plugin: Plugin, propose: Family) -> Family:
    """A family whose errors name the package that provides it."""

    def named(problem: Problem) -> Iterator[Candidate]:
        with foreign_as(lambda error: plugin.broken(f"failed: {type(error).__name__}: {error}")):
            try:
                yield from propose(problem)
            except NotApplicable:
                return

    return named


def family(propose: Family) -> Family:
    """Register a family: a function from a problem to candidates, the likely ones first.

    >>> sorted(FAMILIES)[:2]  # doctest: +SKIP
    ['activation', 'attention']
    """
    FAMILIES[propose.__module__.rsplit(".", 1)[-1]] = propose
    return propose
