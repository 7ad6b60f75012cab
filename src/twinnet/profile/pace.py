"""How fast the machine was while a twin was measured: the same work, done again and again in turns with the runs.

Two profiles that were measured apart saw different machines: other work beside them, another clock rate. Work that
never changes tells by how much, so that a twin that became slower everywhere is not taken for a slower machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from twinnet.engines.timing import Stopwatch, undisturbed
from twinnet.profile.noise import deviation, low
from twinnet.profile.target import on_threads, processor

__all__ = ["Moved", "Pace", "Pacemaker", "moved"]

_SIDE, _PRODUCTS = 192, 10
_NUMBERS, _PIECES = 1 << 23, 16
"""What is copied is more than the inner caches hold; in pieces, as a long copy is interrupted."""
_TRIES = 8
"""A few milliseconds each, as the runs of a small network take, so that the same things disturb them."""
_SECONDS = 0.2
"""Threads that wait for each other on a crowded machine take much longer: then fewer tries have to do."""


@dataclass(frozen=True)
class Pace:
    """The machine while a twin was measured: seconds of the same work, tried several times between its runs.

    `products` and `copies` on one thread; `together` are products on all `threads` of the twin, if it uses several.
    """

    processor: str
    threads: int
    products: tuple[float, ...]
    copies: tuple[float, ...]
    together: tuple[float, ...] = ()


@dataclass
class Pacemaker:
    """Measures the pace whenever it is called, for a twin that uses so many threads (None: all)."""

    threads: int | None = None
    _times: dict[str, list[float]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        import torch

        a, b = torch.rand(2, _SIDE, _SIDE, generator=torch.Generator().manual_seed(0))
        c = torch.empty(_SIDE, _SIDE)
        pieces = list(zip(torch.ones(_NUMBERS).chunk(_PIECES), torch.zeros(_NUMBERS).chunk(_PIECES)))

        def multiply() -> None:
            for _ in range(_PRODUCTS):
                torch.mm(a, b, out=c)

        def copy() -> None:
            for source, to in pieces:
                to.copy_(source)

        with on_threads(self.threads) as count:
            self._count = count
        self._work: list[tuple[str, Callable[[], None], int]] = [
            ("products", multiply, 1),
            ("copies", copy, 1),
        ]
        if self._count > 1:
            self._work.append(("together", multiply, self._count))

    def __call__(self) -> None:
        """Measure once more."""
        import torch

        for name, work, threads in self._work:
            with on_threads(threads), torch.no_grad():
                work()
                watch = Stopwatch()
                while len(watch.seconds) < _TRIES and sum(watch.seconds) < _SECONDS:
                    watch(work)
            self._times.setdefault(name, []).extend(undisturbed(watch.seconds, watch.cpu))

    @property
    def pace(self) -> Pace:
        """What was measured so far."""
        found = {name: tuple(self._times.get(name, ())) for name in ("products", "copies", "together")}
        return Pace(processor(), self._count, **found)


@dataclass(frozen=True, slots=True)
class Moved:
    """By how much a machine became slower, as logarithms: between `least` (products or copies) and `most`."""

    least: float
    most: float
    noise: float

    def nearest(self, move: float) -> float:
        """What of a move the machine explains.

        >>> Moved(0.0, 0.1, 0.02).nearest(0.4), Moved(0.0, 0.1, 0.02).nearest(0.05)
        (0.1, 0.05)
        """
        return min(max(move, self.least), self.most)


def moved(before: Pace | None, after: Pace | None) -> Moved | None:
    """How the machine changed; None if that was not measured, or if it is another one.

    >>> slow = Pace("cpu", 1, (2.0, 2.0), (1.0, 1.0))
    >>> found = moved(Pace("cpu", 1, (1.0, 1.0), (1.0, 1.0)), slow)
    >>> (round(found.least, 2), round(found.most, 2)) if found else None
    (0.0, 0.69)
    """
    if before is None or after is None or before.processor != after.processor:
        return None
    works = [(before.products, after.products), (before.copies, after.copies)]
    if before.threads == after.threads and before.together and after.together:
        works.append((before.together, after.together))
    if any(min(low(one), low(two)) <= 0 for one, two in works):
        return None
    moves = [math.log(low(two) / low(one)) for one, two in works]
    return Moved(min(moves), max(moves), max(_deviation(pair) for pair in works))


def _deviation(pair: Sequence[Sequence[float]]) -> float:
    return math.hypot(*(deviation(times) for times in pair))
