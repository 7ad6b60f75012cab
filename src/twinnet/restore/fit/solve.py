"""Fit the tables of one stage: coarse to fine, conjugate gradients on every grid, judged as int8."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from twinnet.lut.grid import Grid
from twinnet.restore.fit.gauge import level
from twinnet.restore.fit.layout import TableLayout
from twinnet.restore.fit.pcg import conjugate_gradients
from twinnet.restore.fit.problem import Passes, StageProblem
from twinnet.restore.fit.sites import SiteData
from twinnet.restore.fit.smooth import Penalty, Smoothness

__all__ = ["Fitted", "Settings", "Watch", "fit_stage", "grids_to"]


@dataclass(frozen=True)
class Settings:
    """How a stage is fitted. `iterations` and `shares` (of the images) are for 3, 5, 9, 17, ... nodes."""

    iterations: tuple[int, ...] = (10, 12, 12, 8)
    shares: tuple[float, ...] = (0.1, 0.3, 1.0, 1.0)
    penalty: Penalty = field(default_factory=Penalty)
    check_every: int = 4
    """Iterations between two looks at the validation sites, on the last grid."""
    patience: int = 1
    """Looks without a gain before the last grid is given up."""
    threads: int = 1
    executor: str = "auto"
    from_zero: bool = False
    """Whether to begin on the last grid, with all entries 0, instead of on the coarsest with a linear start."""


class Watch(Protocol):
    """Told about every iteration: what is done of what, and the validation error where it was measured."""

    def __call__(self, done: int, total: int, note: str, /) -> None: ...


@dataclass(frozen=True)
class Fitted:
    """Tables of a stage, int8, and their root mean squared error on the validation sites."""

    layouts: tuple[TableLayout, ...]
    tables: tuple[np.ndarray, ...]
    """int8 [rows, outputs] each."""
    error: float
    clipped: float
    """Share of entries that did not fit int8."""
    iterations: int


def grids_to(layout: TableLayout) -> list[TableLayout]:
    """The layouts a table goes through, coarsest first, ending with its own.

    >>> [g.grid.nodes for g in grids_to(TableLayout(((0, 0), (0, 1)), Grid.bits(4)))]
    [3, 5, 9, 17]
    """
    grid = layout.grid
    steps = []
    nodes = grid.nodes
    while nodes > 3 and nodes % 2:
        nodes = (nodes - 1) // 2 + 1
        end = (grid.nodes - 1) * grid.step
        steps.append(layout.on(Grid(end // (nodes - 1), nodes, end)))
    return [*reversed(steps), layout]


def fit_stage(
    layouts: Sequence[TableLayout],
    sites: tuple[SiteData, SiteData | None],
    gain: float,
    offset: float = 0.0,
    settings: Settings | None = None,
    watch: Watch | None = None,
) -> Fitted:
    """Tables that give the least squared error on the training sites, with a penalty on roughness.

    `sites` are those to train and to validate on; prediction = gain * sum of all lookups + offset. Tables with
    fewer nodes than others join in at their own grid.
    """
    train, valid = sites
    how = settings if settings is not None else Settings()
    passes = Passes(how.threads, how.executor)
    # The last node of a grid is where the fit puts it, whatever a network would have been evaluated at.
    paths = [grids_to(layout) for layout in layouts]
    depth = max(len(path) for path in paths)
    levels = [[path[min(k, len(path) - 1)] for path in paths] for k in range(depth)]
    pick = lambda values, k: values[min(k, len(values) - 1)]  # noqa: E731
    entries: list[np.ndarray] | None = None
    if how.from_zero:
        levels = levels[-1:]
        entries = [np.zeros((layout.rows, layout.outputs), np.float32) for layout in levels[0]]
    total = sum(pick(how.iterations, depth - len(levels) + k) for k in range(len(levels)))
    done = 0
    best: Fitted | None = None
    for number, now in enumerate(levels):
        last = number == len(levels) - 1
        place = depth - len(levels) + number
        if entries is None:
            share = 1 / (4 * len(layouts) * gain)
            shift = offset / (4 * len(layouts) * gain)
            entries = [layout.linear(share) - np.float32(shift) for layout in now]
        elif not how.from_zero:
            entries = [
                entry if layout == before else layout.carry(entry, before)
                for entry, layout, before in zip(entries, now, levels[number - 1])
            ]
        # At least four images, however small the share.
        step = max(1, min(round(1 / pick(how.shares, place)), len(train.images) // 4))
        data = train.every(step) if step > 1 else train
        problem = StageProblem(now, data, gain, offset, passes)
        judge = None
        if last and valid is not None:
            judge = StageProblem(now, valid, gain, offset, passes)
        began, iterations, stale = problem.join(entries), pick(how.iterations, place), 0
        for i, delta in enumerate(_improve(problem, began, how.penalty), start=1):
            done += 1
            entries = problem.split(began + delta)
            note = f"{now[0].grid.nodes} nodes"
            if judge is not None and (i % how.check_every == 0 or i == iterations):
                found = deployed(judge, entries, done)
                if best is None or found.error < best.error:
                    best, stale = found, 0
                else:
                    stale += 1
                note += f", error {best.error:.3f}"
            if watch is not None:
                watch(done, total, note)
            if i >= iterations or stale > how.patience:
                break
        if last and best is None:
            best = deployed(judge or problem, entries, done)
    assert best is not None
    return best


def _improve(problem: StageProblem, began: np.ndarray, penalty: Penalty):
    """Iterates of the change of all entries."""
    smooth = Smoothness(problem.layouts, penalty, problem.gain)
    mirrored = _mirrors(problem)
    _, gradient = problem.loss_grad(began)

    def product(direction: np.ndarray) -> np.ndarray:
        _, image = problem.normal_product(direction)
        smooth.add_product(direction, image)
        return image

    diagonal = mirrored(problem.squares() + smooth.diagonal())
    return conjugate_gradients(product, -gradient, diagonal, mirrored)


def _mirrors(problem: StageProblem) -> Callable[[np.ndarray], np.ndarray]:
    """Averages every table with its mirror image, which equals training on mirrored images, too."""
    mirrors = [layout.mirror() for layout in problem.layouts]

    def average(vector: np.ndarray) -> np.ndarray:
        out = vector.copy()
        for mirror, table in zip(mirrors, problem.split(out)):
            if mirror is not None:
                rows, outputs = mirror
                other = table[rows][:, outputs]
                table += other
                table *= 0.5
        return out

    return average


def deployed(judge: StageProblem, entries: Sequence[np.ndarray], iterations: int = 0) -> Fitted:
    """The tables as they deploy (shifts chosen, rounded, clipped) and their error."""
    levelled = level(judge.layouts, entries)
    rounded = [np.rint(table).clip(-127, 127) for table in levelled]
    outside = sum(int((np.abs(table) > 127.5).sum()) for table in levelled)
    count = sum(table.size for table in levelled)
    error = judge.rmse(judge.join(rounded))
    tables = tuple(table.astype(np.int8) for table in rounded)
    return Fitted(judge.layouts, tables, error, outside / count, iterations)
