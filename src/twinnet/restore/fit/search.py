"""Greedy search for patterns: which taps should the next table of a stage look at?

Every candidate is fitted alone, on a coarse grid, to what the tables so far leave over; the best few are fitted
together with the others, and the best of those on validation planes is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from twinnet.errors import UsageError
from twinnet.lut.executors import make
from twinnet.lut.grid import Grid
from twinnet.lut.plan import turn
from twinnet.progress import Report as Watch
from twinnet.progress import silent
from twinnet.restore.fit.cascade import FitStage, Prepared, fit_prepared
from twinnet.restore.fit.layout import TableLayout
from twinnet.restore.fit.sites import SiteData
from twinnet.restore.fit.solve import Settings, fit_stage

__all__ = ["Choice", "Pool", "candidates", "search"]

Tap = tuple[int, int, int]
_FINALISTS = 3
"""Candidates of each round that are fitted together with the tables so far."""


@dataclass(frozen=True)
class Choice:
    """One table found: its taps, and the validation error of the stage with it and all found before."""

    taps: tuple[Tap, ...]
    error: float


@dataclass(frozen=True)
class Pool:
    """Which patterns are tried: at most `limit` of them, taps up to `window` pixels from the cell."""

    limit: int = 150
    window: int = 3
    seed: int = 0


def candidates(cell: int = 1, planes: int = 1, pool: Pool | None = None) -> list[tuple[Tap, ...]]:
    """Patterns of four taps that a reflection maps to themselves, no two of them turned copies of each other.

    In single-pixel cells every pattern has the pixel itself.

    >>> found = candidates(pool=Pool(1000, window=1))
    >>> len(found), found[0]
    (6, ((0, 0, 0), (-1, 0, 0), (0, -1, 0), (0, 1, 0)))
    """
    pool = pool if pool is not None else Pool()
    fixed: list[Tap] = [(0, 0, 0)] if cell == 1 else []
    span = range(-pool.window, cell + pool.window)
    places = [(y, x, p) for p in range(planes) for y in span for x in span if (y, x, p) not in fixed]
    e = cell - 1
    reflections: Sequence[Callable[[Tap], Tap]] = (
        lambda t: (t[1], t[0], t[2]),
        lambda t: (t[0], e - t[1], t[2]),
    )
    found: dict[frozenset[Tap], tuple[Tap, ...]] = {}
    for reflect in reflections:
        alone = [t for t in places if reflect(t) == t]
        pairs = [(t, reflect(t)) for t in places if t < reflect(t)]
        for taps in _combine(alone, pairs, 4 - len(fixed)):
            whole = (*fixed, *sorted(taps))
            key = min(_turned(whole, cell), key=lambda s: sorted(s))
            found.setdefault(key, whole)
    ordered = [found[key] for key in sorted(found, key=lambda s: (_spread(s, cell), sorted(s)))]
    limit = pool.limit
    if len(ordered) <= limit:
        return ordered
    # Near patterns first: half of the places go to them, the rest is drawn from all others.
    near = ordered[: limit // 2]
    drawn = np.random.default_rng(pool.seed).permutation(np.arange(limit // 2, len(ordered)))[
        : limit - len(near)
    ]
    return near + [ordered[i] for i in sorted(drawn)]


def _combine(alone: list[Tap], pairs: list[tuple[Tap, Tap]], count: int) -> Iterator[list[Tap]]:
    for twice in range(count // 2 + 1):
        for some in combinations(pairs, twice):
            for single in combinations(alone, count - 2 * twice):
                yield [*single, *(tap for pair in some for tap in pair)]


def _turned(taps: Iterable[Tap], cell: int) -> list[frozenset[Tap]]:
    return [frozenset((*turn((y, x), r, cell), p) for y, x, p in taps) for r in range(4)]


def _spread(taps: Iterable[Tap], cell: int) -> float:
    middle = (cell - 1) / 2
    return sum((y - middle) ** 2 + (x - middle) ** 2 + 2 * p for y, x, p in taps)


def search(
    template: FitStage,
    ready: Prepared,
    pool: Sequence[tuple[Tap, ...]],
    count: int,
    how: Settings,
    watch: Watch = silent,
) -> list[Choice]:
    """Find `count` patterns of `pool` for a prepared stage, one after the other.

    `template` says everything else about the stage; its own patterns are not used. The target is the stage's own: an
    image at its size on the way to the result.
    """
    if count < 1 or not pool:
        raise UsageError("a search needs candidates, and at least one table to look for")
    chosen: list[tuple[Tap, ...]] = []
    found: list[Choice] = []
    for number in range(1, count + 1):
        rest = _left_over(template, chosen, ready, how)
        scored = []
        for k, taps in enumerate(pool):
            if taps not in chosen:
                scored.append((_alone(template, taps, rest, how), taps))
            watch(f"table {number}: {len(pool)} patterns alone", (k + 1) / len(pool))
        scored.sort()
        joint = []
        for k, (_, taps) in enumerate(scored[:_FINALISTS]):
            stage = replace(template, patterns=[*chosen, taps])
            joint.append((fit_prepared(stage, ready, how).error, taps))
            watch(f"table {number}: the best {_FINALISTS} with the others", (k + 1) / _FINALISTS)
        error, taps = min(joint)
        chosen.append(taps)
        found.append(Choice(taps, error))
    return found


def _alone(
    template: FitStage, taps: tuple[Tap, ...], rest: tuple[SiteData, SiteData], how: Settings
) -> float:
    """Error of one table of 5 nodes, fitted to the rest."""
    layout = TableLayout(
        tuple((y, x) for y, x, _ in taps), Grid.bits(6), template.upscale, template.cell,
        tuple(p for _, _, p in taps),
    )  # fmt: skip
    quick = replace(how, iterations=(5, 4), shares=(1.0,), check_every=100, from_zero=True)
    return fit_stage([layout], rest, 1.0, 128.0, quick).error


def _left_over(
    template: FitStage, chosen: Sequence[tuple[Tap, ...]], ready: Prepared, how: Settings
) -> tuple[SiteData, SiteData]:
    """Sites whose target is what the tables so far miss, around grey 128."""
    if not chosen:
        start = [ready.plain(side) for side in ready.sides]
    else:
        stage = replace(template, patterns=list(chosen))
        plan = ready.plan(stage, fit_prepared(stage, ready, how))
        executor = make(plan, threads=how.threads)
        start = [[executor.run(low[None])[0, 0] for low in side.images.inputs] for side in ready.sides]
    sides = []
    for data, made in zip(ready.data, start):
        targets = []
        for blocks, image in zip(data.targets, made):
            rows, columns, outputs = blocks.shape
            n = template.upscale
            split = image.reshape(rows, n, columns, n).transpose(0, 2, 1, 3).reshape(rows, columns, outputs)
            missed = blocks.astype(np.int16) - split + 128
            targets.append(missed.clip(0, 255).astype(np.uint8))
        sides.append(replace(data, targets=tuple(targets)))
    return sides[0], sides[1]
