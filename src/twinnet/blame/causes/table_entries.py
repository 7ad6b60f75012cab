"""Other entries in a table that nobody shows: solved from what the lookups gave, and believed only if it all fits.

A lookup is a weighted mean of rows, so its error is the same mean of the rows' errors: a linear system of integers.
Rows that were read where nothing is wrong are right; what remains is solved for and rounded, and the table with
these entries must then explain every value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from twinnet.blame.causes._tables import candidate, groups
from twinnet.blame.causes.family import Candidate, family
from twinnet.blame.problem import Problem
from twinnet.lut.differences import entries_words
from twinnet.lut.variants import Lookup, Place, Walk

_MOST = 1500
"""Rows that are solved for at once."""
_LEAST = 6
"""Sites that a solution must at least explain."""


@dataclass(frozen=True)
class _System:
    """Errors [site, output] in pixel units, and the rows that made them."""

    step: Lookup
    walk: Walk
    error: np.ndarray
    allowed: float


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    if not problem.same_shape:
        return
    found = list(groups(problem))
    if len(found) != 1 or len(found[0].where) != 1:
        return
    system = _system(problem, found[0].where[0])
    if system is None:
        return
    yield from _shifted(problem, found[0].where, system)
    solved = _one_row(system)
    if solved is None:
        # Where a whole table is another one, a site that is right is so by chance.
        solved = _rows(system, trust=True) or _rows(system, trust=False)
    if solved is None:
        return
    changed, number = solved
    table = system.step.table
    seen = len(np.unique(system.walk.rows[system.walk.weights > 0]))
    said = entries_words(table, changed, None, seen)
    if said is None:
        return
    values = np.clip(table.values.astype(np.int16) + changed, -128, 127).astype(np.int8)
    what, sentence = said
    where = found[0].where
    change = lambda s: replace(s, table=replace(s.table, values=values))  # noqa: E731
    cost = 2.0 if number <= table.payload else 3.0
    yield candidate(
        problem,
        what,
        sentence.replace("{it}", "the network"),
        where,
        change,
        (None, number),
        cost=cost,
        fitted=number,
    )


def _shifted(problem: Problem, where: tuple[int, ...], system: _System) -> Iterator[Candidate]:
    """Every entry off by the same: weights add up to one, so it shows as it is."""
    by = round(float(np.median(system.error)))
    if not by:
        return
    table = system.step.table
    values = np.clip(table.values.astype(np.int16) + by, -127, 127).astype(np.int8)
    said = f"has every entry {abs(by)} too {'large' if by > 0 else 'small'}"
    change = lambda s: replace(s, table=replace(s.table, values=values))  # noqa: E731
    yield candidate(problem, "entry", said, where, change, (0, by), cost=1.5, fitted=1)


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


def _one_row(system: _System) -> tuple[np.ndarray, int] | None:
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
    return changed, int(np.count_nonzero(delta))


def _rows(system: _System, *, trust: bool) -> tuple[np.ndarray, int] | None:
    """Several rows by least squares: those that no right site has read, or without such `trust` all of them."""
    walk, error = system.walk, system.error
    wrong = (np.abs(error) > system.allowed).any(axis=1)
    if not trust:
        if wrong.mean() < 0.9:
            return None
        wrong = np.ones_like(wrong)
    share = walk.weights / walk.units
    right = np.unique(walk.rows[:, ~wrong][share[:, ~wrong] > 0])
    sites = np.flatnonzero(wrong)
    if len(sites) < _LEAST:
        return None
    rows, weights = walk.rows[:, sites], share[:, sites]
    unknown = np.setdiff1d(np.unique(rows[weights > 0]), right)
    if not 0 < len(unknown) <= _MOST:
        return None
    known = np.isin(rows, unknown) & (weights > 0)
    if not known.any(axis=0).all():
        return None
    number = np.searchsorted(unknown, np.where(known, rows, unknown[0]))
    weight = np.where(known, weights, 0.0)
    gram = np.zeros((len(unknown), len(unknown)))
    side = np.zeros((len(unknown), error.shape[1]))
    for v in range(len(rows)):
        np.add.at(side, number[v], weight[v][:, None] * error[sites])
        for w in range(len(rows)):
            np.add.at(gram, (number[v], number[w]), weight[v] * weight[w])
    if len(unknown) * 2 > len(sites):
        return None  # hardly more equations than unknowns: anything would fit
    try:
        delta = np.rint(np.linalg.solve(gram, side))
    except np.linalg.LinAlgError:
        return None
    if not np.isfinite(delta).all() or np.abs(delta).max() > 255 or not delta.any():
        return None
    left = error[sites] - sum(weight[v][:, None] * delta[number[v]] for v in range(len(rows)))
    if np.abs(left).max() > system.allowed:
        return None
    changed = np.zeros(system.step.table.values.shape, np.int16)
    changed[unknown] = delta
    return changed, int(np.count_nonzero(delta))
