"""Time several sessions in turns, so that all of them see the same machine."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from twinnet.engines.timing import LayerTime, Stopwatch, Timed

if TYPE_CHECKING:
    from twinnet.engines.base import Session
    from twinnet.job import Arrays

__all__ = ["affordable", "merged", "timed_in_turns"]

_FEWEST, _SECONDS = 4, 30.0


def affordable(session: Session, inputs: Arrays, most: int) -> int:
    """As many runs as half a minute allows, with timers and without: at least a few, at most `most`."""
    watch = Stopwatch()
    watch(lambda: session.run(inputs))
    return max(min(_FEWEST, most), min(most, int(_SECONDS / (2 * watch.seconds[0]))))


def timed_in_turns(
    sessions: Sequence[Session],
    inputs: Arrays,
    *,
    repeats: int,
    rounds: int,
    beside: Callable[[], None] = lambda: None,
    said: Callable[[str, float], None] = lambda *_: None,
) -> list[Timed]:
    """Time each session `rounds` times, in turns; the runs of all rounds together are about `repeats`.

    A round loads the twin again, so that what differs from one loading to the next shows as noise. `beside` is called
    before, between and after the measurements.
    """
    each = max(1, round(repeats / rounds))
    found: list[list[Timed]] = [[] for _ in sessions]
    for number in range(rounds):
        # There and back again: what changes steadily does not favour one of them.
        order = list(enumerate(sessions))
        for place, session in order if number % 2 == 0 else reversed(order):
            said(f"timing {session.engine}, round {number + 1} of {rounds}", number / rounds)
            for runs in _shares(each, session.profiled_at_once):
                beside()
                found[place].append(session.profile(inputs, runs))
    beside()
    return [merged(one) for one in found]


def _shares(runs: int, most: int | None) -> list[int]:
    """Runs in parts of about the same size, with at most `most` in each.

    >>> _shares(10, 6), _shares(10, None)
    ([5, 5], [10])
    """
    parts = 1 if most is None else -(-runs // most)
    return [runs // parts + (part < runs % parts) for part in range(parts)]


def merged(rounds: Sequence[Timed]) -> Timed:
    """Several measurements of the same twin as one; the first says which steps there are."""
    first = rounds[0]
    if len(rounds) == 1:
        return first
    again = [_aligned(first.steps, one.steps) for one in rounds]
    steps = []
    for place, step in enumerate(first.steps):
        spans, begun = [], 0
        for one, found in zip(rounds, again):
            same = found[place]
            if same is not None:
                spans += [replace(span, run=span.run + begun) for span in same.spans]
            begun += len(one.whole)
        steps.append(replace(step, spans=tuple(spans)))
    return replace(
        first,
        steps=tuple(steps),
        whole=tuple(s for one in rounds for s in one.whole),
        bare=tuple(s for one in rounds for s in one.bare),
        cpu=tuple(s for one in rounds for s in one.cpu),
        looked_cpu=tuple(s for one in rounds for s in one.looked_cpu),
    )


def _aligned(steps: Sequence[LayerTime], other: Sequence[LayerTime]) -> list[LayerTime | None]:
    """For each step the same one in another round: by its name, else by what it computes; in order, if several fit.

    Some engines number what they make, and another loading goes on counting; some run the same code at several places.
    """
    named = _queues(other, lambda step: step.name)
    found = [_next(named, step.name) for step in steps]
    taken = {id(step) for step in found}
    left = _queues([step for step in other if id(step) not in taken], _kind)
    return [_next(left, _kind(step)) if same is None else same for step, same in zip(steps, found)]


def _queues(
    steps: Sequence[LayerTime], key: Callable[[LayerTime], Hashable]
) -> dict[Hashable, deque[LayerTime]]:
    found: dict[Hashable, deque[LayerTime]] = {}
    for step in steps:
        found.setdefault(key(step), deque()).append(step)
    return found


def _next(queues: Mapping[Hashable, deque[LayerTime]], key: Hashable) -> LayerTime | None:
    queue = queues.get(key)
    return queue.popleft() if queue else None


def _kind(step: LayerTime) -> Hashable:
    return step.op, step.tensors, step.toward
