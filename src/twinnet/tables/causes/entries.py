"""Changed entries of a table that cannot be seen: solved for from the results of its lookups.

A lookup is a weighted mean of rows, so its error is the same mean of the rows' errors: a linear system of integers.
Rows that were read where nothing is wrong are right; the others are solved for and rounded. The solution is accepted
only if the table with these entries explains every value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from twinnet.blame.causes.family import Candidate
from twinnet.blame.problem import Problem
from twinnet.lut.differences import of_entries
from twinnet.lut.variants import Lookup, Place, Walk
from twinnet.result import fact
from twinnet.tables.causes.steps import candidate, groups

_MOST = 1500
"""Rows that are solved for at once."""
_LEAST = 6
"""Sites that a solution must at least explain, and different lookups that it must agree with beyond those it needs."""
_EMPTY, _FREE, _WHOLE = 1e-10, 1e-6, 0.02


@dataclass(frozen=True)
class _System:
    """Errors [site, output] in pixel units, and the rows that made them."""

    step: Lookup
    walk: Walk
    error: np.ndarray
    allowed: float


@dataclass(frozen=True)
class _Solved:
    """Errors of entries [row, output], and the rows where other errors would fit as well (`free`).

    `sure` says that more lookups than were needed agree with it, to the last digit.
    """

    changed: np.ndarray
    free: np.ndarray
    sure: bool = False

    @property
    def known(self) -> np.ndarray:
        """Whole errors of the rows that are told, 0 elsewhere."""
        whole = np.rint(self.changed).astype(np.int16)
        whole[self.free] = 0
        return whole


def propose(problem: Problem) -> Iterator[Candidate]:
    """Changed entries of one table, found by solving for them."""
    if not problem.same_shape:
        return
    found = list(groups(problem))
    if len(found) != 1 or len(found[0].where) != 1:
        return
    system = _system(problem, found[0].where[0])
    if system is None:
        return
    yield from _shifted(problem, found[0].where, system)
    solved = _solve(system)
    if solved is None:
        return
    table = system.step.table
    read = np.unique(system.walk.rows[system.walk.weights > 0])
    aspect = of_entries(table, solved.known, None, len(np.setdiff1d(read, solved.free)))
    if aspect is None:
        return
    values = table.values + solved.changed
    change = lambda s: replace(s, table=replace(s.table, values=values))  # noqa: E731
    number = int(np.count_nonzero(solved.changed))
    cost, fitted = 2.0 if number <= table.payload else 3.0, 0 if solved.sure else number
    yield candidate(problem, aspect.what, aspect.fact, found[0].where, change, cost=cost, fitted=fitted)


def _solve(system: _System) -> _Solved | None:
    """The simplest set of rows whose entries explain every lookup."""
    solved = _one_row(system)
    if solved is not None:
        return solved
    wrong = (np.abs(system.error) > system.allowed).any(axis=1)
    read = np.where(system.walk.weights > 0, system.walk.rows, -1)
    doubted = np.setdiff1d(np.unique(read[:, wrong]), [-1])
    fewer = np.setdiff1d(doubted, np.unique(read[:, ~wrong]))
    # A site that is right may be so by chance: two of its rows may be off by the same, one up and one down.
    tried = (_last(system, doubted), fewer, *([doubted] if len(fewer) < len(doubted) else []))
    return next((s for rows in tried if (s := _rows(system, rows)) is not None), None)


def _last(system: _System, rows: np.ndarray) -> np.ndarray:
    """Those of some rows where a tap is at the last node."""
    table = system.step.table
    nodes = np.stack(np.unravel_index(rows, (table.nodes,) * table.axes))
    return rows[(nodes == table.nodes - 1).any(axis=0)]


def _shifted(problem: Problem, where: tuple[int, ...], system: _System) -> Iterator[Candidate]:
    """Every entry off by the same number: weights add up to one, so every result is off by it too."""
    middle = float(np.median(system.error))
    if not 0.5 < abs(middle) < 255:  # entries are int8
        return
    by = round(middle)
    table = system.step.table
    values = np.clip(table.values.astype(np.int16) + by, -127, 127).astype(np.int8)
    said = fact("table.entries_moved", network=0, twin=by)
    change = lambda s: replace(s, table=replace(s.table, values=values))  # noqa: E731
    yield candidate(problem, "entry", said, where, change, cost=1.5, fitted=1)


def _system(problem: Problem, at: int) -> _System | None:
    step: Lookup = problem.layers[at].attrs["step"]
    if step.table.banded:
        return None
    registers = {n: problem.values[n].numpy().round().astype(np.int64) for n in step.registers}
    (walk,) = step.walks(step.values(registers))
    behind = problem.layers[at + 1 :]
    error = problem.error.numpy()
    if len(behind) == 1 and behind[0].kind == "place":
        error = _unplaced(behind[0].attrs["step"], error, problem.out(at).shape)
    elif behind:
        return None
    flat = error.transpose(0, 2, 3, 1).reshape(-1, step.table.payload)
    return _System(step, walk, flat, step.slack + 1e-3)


def _unplaced(place: Place, error: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A block's values back in the order of the rows."""
    planes, payload, rows, columns = shape
    numbers = np.arange(payload * rows * columns, dtype=np.float64).reshape(1, payload, rows, columns)
    order = place(numbers).reshape(-1).astype(np.int64)
    back = np.empty((planes, payload * rows * columns))
    back[:, order] = error.reshape(planes, -1)
    return back.reshape(shape)


def _one_row(system: _System) -> _Solved | None:
    """One row that every wrong site has read, with the same error in each."""
    walk, error = system.walk, system.error
    wrong = (np.abs(error) > system.allowed).any(axis=1)
    if wrong.sum() < 2:
        return None
    share = walk.weights / walk.units
    rows = np.where(share > 0, walk.rows, -1)
    common: set[int] | None = None
    for site in np.flatnonzero(wrong)[:64]:
        read = set(rows[:, site].tolist()) - {-1}
        common = read if common is None else common & read
    fits = []
    for row in common or ():
        weight = np.where(rows == row, share, 0.0).sum(axis=0)
        read = weight > 0
        if (wrong & ~read).any():
            continue
        delta = np.rint((weight[read] @ error[read]) / (weight[read] ** 2).sum())
        if not delta.any() or np.abs(weight[:, None] * delta - error).max() > system.allowed:
            continue
        fits.append((row, delta))
    if len(fits) != 1:
        return None
    row, delta = fits[0]
    changed = np.zeros(system.step.table.values.shape, np.int16)
    changed[row] = delta
    return _Solved(changed, np.array([], np.int64))


def _rows(system: _System, unknown: np.ndarray) -> _Solved | None:
    """The errors of some rows by least squares over all sites that read them; all other rows are taken as right."""
    walk, error = system.walk, system.error
    if not 0 < len(unknown) <= _MOST:
        return None
    known = np.isin(walk.rows, unknown) & (walk.weights > 0)
    chosen = known.any(axis=0)
    sites = np.flatnonzero(chosen)
    if len(sites) < _LEAST or np.abs(error[~chosen]).max(initial=0.0) > system.allowed:
        return None
    rows = np.where(known, walk.rows, unknown[0])[:, sites]
    weight = np.where(known, walk.weights, 0.0)[:, sites] / walk.units
    lookups, first, which = np.unique(
        np.concatenate([rows, weight]).T, axis=0, return_index=True, return_inverse=True
    )
    error = error[sites]
    if np.abs(error - error[first][which.reshape(-1)]).max() > 2 * system.allowed:
        return None  # equal lookups with different results: not made by entries
    error, weight = error[first], weight[:, first]
    number = np.searchsorted(unknown, rows[:, first])
    gram = np.zeros((len(unknown), len(unknown)))
    side = np.zeros((len(unknown), error.shape[1]))
    for v in range(len(rows)):
        np.add.at(side, number[v], weight[v][:, None] * error)
        for w in range(len(rows)):
            np.add.at(gram, (number[v], number[w]), weight[v] * weight[w])
    sizes, basis = np.linalg.eigh(gram)
    told = sizes > _EMPTY * sizes[-1]
    delta = basis[:, told] @ ((basis[:, told].T @ side) / sizes[told, None])
    free = (basis[:, ~told] ** 2).sum(axis=1) > _FREE
    # Entries are whole numbers: what is told and is none was not made by other entries.
    whole = np.rint(delta)
    entries = system.step.table.values[unknown] + whole
    if not whole[~free].any() or np.abs(entries[~free] + 0.5).max() > 128:
        return None
    if not system.step.slack and np.abs(delta - whole)[~free].max() > _WHOLE:
        return None
    delta = np.where(free[:, None], delta, whole)
    left = error - sum(weight[v][:, None] * delta[number[v]] for v in range(len(rows)))
    if np.abs(left).max() > system.allowed:
        return None
    rank = int(told.sum())
    beyond = len(lookups) - rank
    sure = not system.step.slack and beyond >= max(_LEAST, rank // 4)
    if not sure and (free.any() or 2 * len(unknown) > len(lookups)):
        return None  # hardly more equations than unknowns: anything would fit
    changed = np.zeros(system.step.table.values.shape)
    changed[unknown] = delta
    return _Solved(changed, unknown[free], sure)
