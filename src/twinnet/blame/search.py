"""Tries all hypotheses on a problem; one is believed if it explains the error and no other does so as simply."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from twinnet.blame.causes import Candidate
from twinnet.blame.definitions import by_definition
from twinnet.blame.evidence import constant, describe, layers_apart
from twinnet.blame.problem import NotApplicable, Patch, Problem, Score
from twinnet.blame.repertoire import GENERAL
from twinnet.errors import EngineError
from twinnet.layers import kinds
from twinnet.result import Cause, Fact, fact
from twinnet.site import Site

__all__ = ["Explanation", "holds", "proposals", "solve"]

_PROMISING = 0.95
_AS_SIMPLE = 0.2
_PER_NUMBER = 4


@dataclass(frozen=True)
class Explanation:
    """The cause, or None with the evidence in `reason`.

    `patch` is what the cause changes in the segment, `candidate` the hypothesis that was confirmed.
    """

    cause: Cause | None
    reason: Fact | None = None
    patch: Patch | None = None
    candidate: Candidate | None = field(default=None, compare=False, repr=False)


class _Confirmed(NamedTuple):
    """A hypothesis that explains the error, how well, and what it changes."""

    candidate: Candidate
    score: Score
    patch: Patch


def solve(problem: Problem) -> Explanation:
    """The one cause that explains the error of a segment, if there is one."""
    longest = (problem.repertoire or GENERAL).longest
    if (longest is not None and _length(problem) > longest) or problem.has_complex:
        return Explanation(None, _evidence(problem))
    if problem.agrees:
        return Explanation(None)
    if _undefined(problem):
        return Explanation(None, _evidence(problem))
    confirmed = list(_confirmed(problem))
    if not confirmed:
        return Explanation(None, _evidence(problem))
    found = min(confirmed, key=lambda c: (not c.candidate.static, c.candidate.cost, -c.score.explains))
    best = found.candidate
    rivals = [
        c.candidate
        for c in confirmed
        if _other(c.candidate, best)
        and c.candidate.static == best.static
        and c.candidate.cost <= best.cost + _AS_SIMPLE
    ]
    if rivals:
        reason = fact("either", first=best.fact, second=rivals[0].fact, evidence=_evidence(problem))
        return Explanation(None, reason)
    explains = min(max(found.score.explains, 0.0), 1.0)
    cause = Cause(best.kind, best.fact, explains, _guilty(problem, found, confirmed))
    return Explanation(cause, patch=found.patch, candidate=best)


def holds(cause: Cause, candidate: Candidate, problem: Problem) -> bool:
    """Whether a cause that was found on one sample explains another one too.

    Numbers that were fitted to the first sample may be others here: what is proposed for this one counts as well.
    """
    if problem.agrees:
        return True
    same = (c for c in proposals(problem) if (c.kind, c.fact.code) == (cause.kind, cause.fact.code))
    for tried in (candidate, *same):
        found = _tried(problem, tried)
        if found is not None and found.score.named(_PROMISING, 4 * tried.floors):
            return True
    return False


def _undefined(problem: Problem) -> bool:
    """Whether they differ only at places without an agreed result: many a hypothesis would fit that."""
    if by_definition(problem, surely=True) is not None:
        return True
    if not problem.same_shape or not problem.is_float:
        return False
    off = ~(problem.error.abs() <= problem.slack * problem.floor)
    numbers = problem.wanted.isfinite() & problem.expected.isfinite()
    return not bool((off & numbers).any()) and by_definition(problem) is not None


def _guilty(problem: Problem, found: _Confirmed, confirmed: Sequence[_Confirmed]) -> Site | None:
    """The guilty layer; None if the patch changes several, or if the same fact also fits another layer."""
    start, stop = found.patch.start, found.patch.stop
    others = (c.patch.start for c in confirmed if c.candidate.fact == found.candidate.fact)
    if stop - start != 1 or any(other != start for other in others):
        return None
    layer = problem.layers[start]
    return replace(layer.site(), node=layer.node, op=layer.op or layer.kind)


def _length(problem: Problem) -> int:
    """How many layers compute something; the others only move or select values."""
    return sum(not kinds.get(layer.kind).exact for layer in problem.layers)


def _evidence(problem: Problem) -> Fact | None:
    """Where the error is and which way it goes, and what the kind of network adds to it."""
    own = (problem.repertoire or GENERAL).evidence(problem)
    parts = (by_definition(problem), constant(problem), describe(problem), layers_apart(problem), own)
    known = tuple(part for part in parts if part is not None)
    return fact("all", facts=known) if known else None


def _other(a: Candidate, b: Candidate) -> bool:
    """Whether two hypotheses differ: in their kind of cause, in what they are about, or in the twin's value."""
    return a.kind != b.kind or a.what != b.what or (bool(a.what) and a.fact.twin_value != b.fact.twin_value)


def proposals(problem: Problem) -> Iterator[Candidate]:
    """Every hypothesis about a problem, tried or not."""
    for propose in (problem.repertoire or GENERAL).families().values():
        found = iter(propose(problem))
        while True:
            try:
                candidate = next(found, None)
            except (NotApplicable, EngineError):
                break  # the family does not apply to this segment
            if candidate is None:
                break
            yield candidate


def _confirmed(problem: Problem) -> Iterator[_Confirmed]:
    few = (problem.repertoire or GENERAL).fewer(problem)
    off = (
        int((problem.error.abs() > problem.slack * problem.floor).sum())
        if problem.same_shape and problem.is_float
        else None
    )
    best: Candidate | None = None
    one_number = constant(problem) is not None
    # The simplest first: one that is less simple than a confirmed one can neither beat it nor cast doubt on
    # it.
    for candidate in sorted(proposals(problem), key=lambda c: (not c.static, c.cost)):
        if best is not None and (candidate.static != best.static or candidate.cost > best.cost + _AS_SIMPLE):
            break
        if one_number and not candidate.static:
            continue
        if candidate.fitted and off is not None and off < _PER_NUMBER * candidate.fitted:
            continue
        if few is not None and not candidate.whole:
            first = _tried(few, candidate)
            if first is None or first.score.explains < _PROMISING:
                continue
        found = _tried(problem, candidate)
        if found is not None and found.score.named(floors=candidate.floors):
            best = best or candidate
            yield found


def _tried(problem: Problem, candidate: Candidate) -> _Confirmed | None:
    """How well a hypothesis explains the error; None if it does not apply."""
    if candidate.unit is not None:
        problem = replace(problem, unit=candidate.unit)
    try:
        patch = candidate.change(problem)
        score = problem.score_close(patch) if candidate.close else problem.score(patch)
    except (NotApplicable, EngineError):
        return None
    return None if score is None else _Confirmed(candidate, score, patch)
