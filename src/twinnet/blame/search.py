"""Try every hypothesis on a problem, and believe one only if it explains the error and no other does so
as simply.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from twinnet.blame.causes import Candidate
from twinnet.blame.evidence import describe, layers_apart
from twinnet.blame.problem import Problem, Score
from twinnet.blame.repertoire import GENERAL
from twinnet.errors import EngineError
from twinnet.layers import kinds
from twinnet.result import Cause

__all__ = ["INAPPLICABLE", "Explanation", "proposals", "solve", "spoken"]

INAPPLICABLE = (
    EngineError,
    RuntimeError,
    ValueError,
    IndexError,
    KeyError,
    TypeError,
    ZeroDivisionError,
    AttributeError,
    OverflowError,
)
"""What a hypothesis may run into that does not fit the layer; it is then none."""

_PROMISING = 0.95
_AS_SIMPLE = 0.2
_PER_NUMBER = 4


@dataclass(frozen=True)
class Explanation:
    """The cause, or None with the evidence in `reason`."""

    cause: Cause | None
    reason: str = ""


def solve(problem: Problem) -> Explanation:
    """The one cause that explains the error of a segment, if there is one."""
    longest = (problem.repertoire or GENERAL).longest
    if (longest is not None and _length(problem) > longest) or problem.has_complex:
        return Explanation(None, _evidence(problem))
    if problem.agrees:
        return Explanation(None)
    confirmed = list(_confirmed(problem))
    if not confirmed:
        return Explanation(None, _evidence(problem))
    best, score = min(confirmed, key=lambda c: (not c[0].static, c[0].cost, -c[1].explains))
    rivals = [
        c
        for c, _ in confirmed
        if _other(c, best) and c.static == best.static and c.cost <= best.cost + _AS_SIMPLE
    ]
    if rivals:
        reason = (
            f"either {best.sentence}, or {rivals[0].sentence}: this data cannot tell; {_evidence(problem)}"
        )
        return Explanation(None, reason)
    cause = Cause(
        best.kind,
        spoken(best.sentence),
        min(max(score.explains, 0.0), 1.0),
        best.network_value,
        best.twin_value,
    )
    return Explanation(cause)


def _length(problem: Problem) -> int:
    """How many layers compute something; the others only move or select values."""
    return sum(not kinds.get(layer.kind).exact for layer in problem.layers)


def _evidence(problem: Problem) -> str:
    """Where the error is and which way it goes, and what the kind of network adds to it."""
    own = (problem.repertoire or GENERAL).evidence(problem)
    return ", ".join(part for part in (describe(problem), layers_apart(problem), own) if part)


def _other(a: Candidate, b: Candidate) -> bool:
    """Whether two hypotheses say different things. Of one kind of cause that is told by what they are about."""
    return a.kind != b.kind or a.what != b.what or (bool(a.what) and a.twin_value != b.twin_value)


_VERBS = {
    "pads", "leaves", "adds", "applies", "clamps", "reads", "takes", "permutes", "resizes", "rounds",
    "normalises", "multiplies", "slices", "joins", "reduces", "has", "keeps", "counts", "sums", "averages",
    "scales", "divides", "saturates", "overflows", "runs", "resets", "uses", "starts", "ignores", "looks",
    "masks", "samples", "writes", "makes", "prepares", "changes", "turns", "blends", "requantises", "says",
}  # fmt: skip


def spoken(sentence: str) -> str:
    """What a hypothesis says, as a sentence.

    >>> spoken("pads edge where the network pads reflect")
    'the twin pads edge where the network pads reflect'
    """
    return f"the twin {sentence}" if sentence.split(" ", 1)[0] in _VERBS else sentence


def proposals(problem: Problem) -> Iterator[Candidate]:
    """Every hypothesis about a problem, tried or not."""
    for propose in (problem.repertoire or GENERAL).families().values():
        found = iter(propose(problem))
        while True:
            try:
                candidate = next(found, None)
            except INAPPLICABLE:
                break  # a family that cannot make sense of this segment has nothing more to say about it
            if candidate is None:
                break
            yield candidate


def _confirmed(problem: Problem) -> Iterator[tuple[Candidate, Score]]:
    few = (problem.repertoire or GENERAL).fewer(problem)
    off = (
        int((problem.error.abs() > problem.slack * problem.floor).sum())
        if problem.same_shape and problem.is_float
        else None
    )
    best: Candidate | None = None
    # The simplest first: what is less simple than one that holds can neither win nor raise a doubt.
    for candidate in sorted(proposals(problem), key=lambda c: (not c.static, c.cost)):
        if best is not None and (candidate.static != best.static or candidate.cost > best.cost + _AS_SIMPLE):
            break
        if candidate.fitted and off is not None and off < _PER_NUMBER * candidate.fitted:
            continue
        if few is not None and not candidate.whole:
            first = _score(few, candidate)
            if first is None or first.explains < _PROMISING:
                continue
        score = _score(problem, candidate)
        if score is not None and score.named(floors=candidate.floors):
            best = best or candidate
            yield candidate, score


def _score(problem: Problem, candidate: Candidate) -> Score | None:
    if candidate.unit is not None:
        problem = replace(problem, unit=candidate.unit)
    try:
        patch = candidate.change(problem)
        if candidate.close:
            return problem.score_close(patch)
        return problem.score(patch)
    except INAPPLICABLE:
        return None
