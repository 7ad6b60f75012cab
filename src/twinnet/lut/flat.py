"""Flat areas: what a table network does to them, and tables corrected so that it does nothing.

In an area of one grey all taps of a table are equal, so only its diagonal is read: the cells (k, k, k, k), and
between two of them a straight line. A fit gives these cells like any other, a little off, and to each phase of an
enlarged pixel by another amount: the sky gets a pattern. A stage keeps all 256 greys in every phase if, at every node,
its tables add up to the node's own grey. These sums are few, and whole numbers can meet them exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from twinnet.errors import UsageError
from twinnet.lut.executors import make
from twinnet.lut.executors.recording import affine
from twinnet.lut.plan import Plan, Stage, Table

__all__ = ["FlatSums", "Flatness", "flat_sums", "flatness", "flattened"]


@dataclass(frozen=True)
class Flatness:
    """What becomes of flat areas of all 256 greys."""

    moved: int
    """The most levels that any grey moves."""
    uneven: int
    """Greys that come out with a pattern."""
    exact: int
    """Greys that stay as they are."""
    black: int
    """What grey 0 becomes, where it moves most."""
    white: int
    """The same of grey 255."""


def flatness(plan: Plan, executor: str = "auto") -> Flatness:
    """Run flat areas of all 256 greys through a plan."""
    greys = np.arange(256)
    side = 2 * plan.reach + 1
    areas = np.broadcast_to(greys.astype(np.uint8)[:, None, None], (256, side, side))
    away = make(plan, executor, 1).run(areas).reshape(256, -1).astype(int) - greys[:, None]
    low, high = away.min(axis=1), away.max(axis=1)
    worst = np.where(-low > high, low, high)
    return Flatness(
        int(abs(worst).max()),
        int((low != high).sum()),
        int(((low == 0) & (high == 0)).sum()),
        int(worst[0]),
        255 + int(worst[255]),
    )


@dataclass(frozen=True, eq=False)
class FlatSums:
    """Entries of a stage whose sum, node by node, is the result in a flat area in some of its phases."""

    tables: tuple[str, ...]
    rows: tuple[np.ndarray, ...]
    """Rows of every table's diagonal, one per node."""
    places: tuple[int, ...]
    """Places in a row that rotations carry into each other."""
    wanted: np.ndarray
    """Of every node: the sum of these places of all tables that keeps its grey."""


def flat_sums(plan: Plan) -> list[FlatSums]:
    """All sums that must hold for every stage to keep flat areas as they are."""
    return [sums for stage in plan.stages for sums in _Level.of(stage, plan).sums()]


def flattened(plan: Plan, *, whole: bool = False) -> Plan:
    """The plan with the diagonals of its tables corrected: flat areas stay as they are.

    Every stage then keeps every grey exactly. Stages that were tuned together may have agreed on other greys between
    them, which costs a little to undo; with `whole` they keep them, as far as all phases agree, and the last stage
    takes each back to where it came from. Greys that a stage has merged are then off by a level.

    A correction is shared by all entries of its sum, so that each changes by little.

    >>> from twinnet import models
    >>> from twinnet.lut.file import read
    >>> plan = read(models.find("sr", scale=2, quality="fast")).plan  # corrected from end to end
    >>> flatness(plan).exact, flatness(flattened(plan)).exact
    (246, 256)
    """
    values = {name: table.values.astype(np.int64) for name, table in plan.tables.items()}
    arriving = np.arange(256.0)
    for stage in plan.stages:
        level = _Level.of(stage, plan)
        greys = level.nodes
        if whole:
            last = stage is plan.stages[-1]
            greys = level.back(arriving, level.greys(values)) if last else level.kept(level.greys(values))
        for sums in level.sums(greys):
            _correct(values, sums)
        arriving = level.run(arriving, level.greys(values))
    for name, array in values.items():
        if np.abs(array).max() > 127:
            raise UsageError(f"table {name} cannot keep flat areas: an entry would not fit into 8 bits")
    tables = {name: replace(t, values=values[name].astype(np.int8)) for name, t in plan.tables.items()}
    return Plan.build(plan.stages, tables)


def _correct(values: dict[str, np.ndarray], sums: FlatSums) -> None:
    entries = [(name, rows, place) for place in sums.places for name, rows in zip(sums.tables, sums.rows)]
    missing = sums.wanted - sum(values[name][rows, place] for name, rows, place in entries)
    for number, (name, rows, place) in enumerate(entries):
        share = missing * (number + 1) // len(entries) - missing * number // len(entries)
        values[name][rows, place] += share


@dataclass(frozen=True, eq=False)
class _Level:
    """One stage in flat areas: a piecewise linear curve of greys, the same in every phase once it is corrected."""

    tables: tuple[str, ...]
    rows: tuple[np.ndarray, ...]
    places: tuple[tuple[int, ...], ...]
    nodes: np.ndarray
    """The grey of every node; the last one may be 256."""
    count: int
    offset: int
    """A result is the sum of all entries that are read, divided by `count`, plus `offset`."""

    @classmethod
    def of(cls, stage: Stage, plan: Plan) -> _Level:
        names = tuple(term.table for term in stage.terms)
        tables = [plan.tables[name] for name in names]
        first = tables[0]
        divisor, offset = affine(stage.requant, stage.denominator)
        count, rest = divmod(divisor, stage.denominator)
        plain = (
            all(term.rotations == (0, 1, 2, 3) and term.interpolation == "simplex" for term in stage.terms)
            and all((table.nodes, table.step) == (first.nodes, first.step) for table in tables)
            and len(set(names)) == len(names)
            and stage.channels == 1
        )
        if not plain or count < 1 or rest:
            raise UsageError(
                f"{stage.name} cannot be corrected for flat areas",
                hint="it takes one channel, four rotations, simplex interpolation and tables on one grid",
            )
        rows = tuple(_diagonal(table) for table in tables)
        nodes = np.arange(first.nodes) * first.step
        return cls(names, rows, tuple(_orbits(stage.upscale)), nodes, count, offset)

    def sums(self, greys: np.ndarray | None = None) -> Iterator[FlatSums]:
        """The sums that give these greys at the nodes, their own if none are given."""
        # Four rotations read each of four places once, or the middle of the block four times.
        unit = 4 if any(len(places) == 1 for places in self.places) else 1
        wanted = np.rint(((self.nodes if greys is None else greys) - self.offset) * self.count / unit)
        for places in self.places:
            yield FlatSums(self.tables, self.rows, places, wanted.astype(np.int64) * unit * len(places) // 4)

    def greys(self, values: dict[str, np.ndarray]) -> np.ndarray:
        """What the nodes give, the mean of all phases."""
        places = [place for orbit in self.places for place in orbit]
        parts = [values[name][rows][:, places].sum(axis=1) for name, rows in zip(self.tables, self.rows)]
        return 4 * np.sum(parts, axis=0) / len(places) / self.count + self.offset

    def kept(self, greys: np.ndarray) -> np.ndarray:
        """The same greys, but black and white in their places: what is clipped there would be lost."""
        return np.concatenate([self.nodes[:1], greys[1:-1], self.nodes[-1:]])

    def back(self, arriving: np.ndarray, greys: np.ndarray) -> np.ndarray:
        """Greys of the nodes, close to `greys`, that take what arrives of 0, 1, ..., 255 back to 0, 1, ..., 255."""
        at = np.eye(len(self.nodes))
        weights = np.stack([np.interp(arriving, self.nodes, row) for row in at], axis=1)
        counts = np.ones((256, 1))
        counts[[0, 255]] = 50  # black and white before all others
        pull = 0.02  # decides only where nothing arrives
        seen = (weights * counts).T
        return np.linalg.solve(seen @ weights + pull * at, seen @ np.arange(256.0) + pull * greys)

    def run(self, arriving: np.ndarray, greys: np.ndarray) -> np.ndarray:
        """What the stage makes of flat areas."""
        return np.rint(np.interp(arriving, self.nodes, greys)).clip(0, 255)


def _orbits(side: int) -> Iterator[tuple[int, ...]]:
    """Places in a block of `side` x `side` that rotations carry into each other.

    >>> [*_orbits(3)]
    [(0, 2, 8, 6), (1, 5, 7, 3), (4,)]
    """
    seen: set[int] = set()
    for place in range(side * side):
        if place not in seen:
            row, column = divmod(place, side)
            turned = []
            for _ in range(4):
                turned.append(row * side + column)
                row, column = column, side - 1 - row
            seen |= set(turned)
            yield tuple(dict.fromkeys(turned))


def _diagonal(table: Table) -> np.ndarray:
    """Rows of the cells (k, k, ...)."""
    nodes = np.arange(table.nodes)
    if not table.banded:
        return nodes * sum(table.nodes**axis for axis in range(table.axes))
    assert table.index is not None
    free = table.axes - 1 - table.near
    rest = nodes * sum(table.nodes**axis for axis in range(free))
    return table.index[(slice(None), *[0] * table.near)].astype(np.int64) * table.nodes**free + rest
