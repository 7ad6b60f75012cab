"""A foreign runtime of table networks: another interpreter of plans, into which faults of arithmetic can be put.

It shares nothing with what judges and explains it but the plan; every step is a method that a fault overrides.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np

from twinnet.lut.plan import INPUT, Plan, Stage, Table, Term

__all__ = ["Interpreter"]

Record = Callable[[str, np.ndarray], None]


class Interpreter:
    """Runs a plan pixel field by pixel field. A fault replaces one method; `at` says where it is (stage, term)."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def run(self, image: np.ndarray, note: Record) -> np.ndarray:
        known = {INPUT: image[None].astype(np.int64)}
        for stage in self.plan.stages:
            groups = []
            for group in stage.groups:
                parts = []
                for term in (t for t in stage.terms if t.group == group):
                    for r in term.rotations:
                        base = f"{stage.name}.{term.name}.rot{r}"
                        raw = self.lookup(stage, term, r, known)
                        note(f"{base}.sr", raw)
                        placed = self.place(stage, term, r, raw)
                        note(base, placed)
                        parts.append(placed)
                total = self.add(stage, group, parts)
                if group:
                    note(f"{stage.name}.{group}", total)
                groups.append(total)
            known[stage.name] = self.quantise(stage, np.sum(groups, axis=0))
            note(stage.name, known[stage.name])
        return known[self.plan.stages[-1].name].astype(np.uint8)

    # -- sampling ----------------------------------------------------------------------------------------------

    def turned(self, stage: Stage, term: Term, r: int, dy: int, dx: int) -> tuple[int, int]:
        e = stage.cell - 1
        for _ in range(r):
            dy, dx = dx, e - dy
        return dy, dx

    def inside(self, stage: Stage, term: Term, at: np.ndarray, n: int) -> np.ndarray:
        if term.sample.padding == "edge" or n == 1:
            return at.clip(0, n - 1)
        at = at % (2 * n - 2)
        return np.minimum(at, 2 * n - 2 - at)

    def tap(self, stage: Stage, term: Term, r: int, plane: np.ndarray, dy: int, dx: int) -> np.ndarray:
        y, x = self.turned(stage, term, r, dy, dx)
        rows = self.inside(stage, term, np.arange(0, plane.shape[0], stage.cell) + y, plane.shape[0])
        columns = self.inside(stage, term, np.arange(0, plane.shape[1], stage.cell) + x, plane.shape[1])
        return plane[np.ix_(rows, columns)]

    def sampled(self, stage: Stage, term: Term, r: int, planes, known) -> list[np.ndarray]:
        sample = term.sample
        taps = []
        for k, (dy, dx) in enumerate(sample.offsets):
            plane = planes[0] if len(planes) == 1 else planes[k]
            taps.append(self.tap(stage, term, r, known[plane.register][plane.channel], dy, dx))
        if sample.weights is None:
            return [t * (1 << sample.value_bits) for t in taps]
        down = sample.weight_bits - sample.value_bits
        half = (1 << down) >> 1
        return [
            (np.sum([w * t for w, t in zip(row, taps, strict=True)], axis=0) + half) // (1 << down)
            for row in sample.weights
        ]

    def values(self, stage: Stage, term: Term, r: int, known) -> list[np.ndarray]:
        found = self.sampled(stage, term, r, term.sample.planes, known)
        if term.blend is None:
            return found
        other = self.sampled(stage, term, r, term.blend.planes, known)
        one = 1 << term.blend.gain_bits
        return [
            (g * b + (one - g) * a + one // 2) // one
            for a, b, g in zip(found, other, term.blend.gains, strict=True)
        ]

    # -- tables ------------------------------------------------------------------------------------------------

    def cell(self, stage: Stage, term: Term, axis: int, value: np.ndarray, u: int, nodes: int):
        """Bin and fraction of one tap."""
        low = np.minimum(value // u, nodes - 2)
        return low, value - low * u

    def entry(self, stage: Stage, term: Term, table: Table, corner: list[np.ndarray]) -> np.ndarray:
        row = corner[0]
        for k in range(1, table.axes):
            row = row * table.nodes + corner[k]
        return table.values[row].astype(np.int64)

    def weigh(self, stage: Stage, term: Term, fractions: list[np.ndarray], u: int):
        """Pairs of a corner (0 or 1 per axis, per pixel) and its weight."""
        if term.interpolation == "multilinear":
            for corner in product((0, 1), repeat=len(fractions)):
                weight = np.ones_like(fractions[0])
                for up, f in zip(corner, fractions, strict=True):
                    weight = weight * (f if up else u - f)
                yield [np.full(f.shape, up) for up, f in zip(corner, fractions, strict=True)], weight
            return
        # A corner holds the axes whose fraction is at least the level; it weighs the drop to the next level.
        levels = np.sort(np.stack(fractions), axis=0)[::-1]
        above = np.full_like(levels[0], u)
        up = [np.zeros(f.shape, np.int64) for f in fractions]
        order = np.argsort(-np.stack(fractions), axis=0, kind="stable")
        for k in range(len(fractions) + 1):
            below = levels[k] if k < len(fractions) else np.zeros_like(above)
            yield [a.copy() for a in up], above - below
            above = below
            if k < len(fractions):
                for axis in range(len(fractions)):
                    up[axis] = np.where(order[k] == axis, 1, up[axis])

    def lookup(self, stage: Stage, term: Term, r: int, known) -> np.ndarray:
        table = self.plan.tables[term.table]
        u = term.units(table)
        cells = [
            self.cell(stage, term, k, v, u, table.nodes)
            for k, v in enumerate(self.values(stage, term, r, known))
        ]
        total: np.ndarray | int = 0
        for corner, weight in self.weigh(stage, term, [f for _, f in cells], u):
            entry = self.entry(
                stage, term, table, [low + c for (low, _), c in zip(cells, corner, strict=True)]
            )
            total = total + weight[..., None] * entry
        return np.moveaxis(np.asarray(total), -1, 0)

    # -- after -------------------------------------------------------------------------------------------------

    def place(self, stage: Stage, term: Term, r: int, raw: np.ndarray) -> np.ndarray:
        n, (_, rows, columns) = stage.upscale, raw.shape
        blocks = raw.reshape(stage.channels, n, n, rows, columns)
        for _ in range(r):
            blocks = np.flip(blocks.swapaxes(1, 2), 2)
        out = np.zeros((stage.channels, rows * n, columns * n), raw.dtype)
        for u, v in product(range(n), repeat=2):
            out[:, u::n, v::n] = blocks[:, u, v]
        return out

    def add(self, stage: Stage, group: str, parts: list[np.ndarray]) -> np.ndarray:
        terms = [t for t in stage.terms if t.group == group for _ in t.rotations]
        factors = [stage.denominator // t.denominator(self.plan.tables[t.table]) for t in terms]
        return np.sum([f * p for f, p in zip(factors, parts, strict=True)], axis=0)

    def quantise(self, stage: Stage, total: np.ndarray) -> np.ndarray:
        x = total / stage.denominator
        for kind, *values in stage.requant.steps:
            if kind == "div":
                x = x / values[0]
            elif kind == "mul":
                x = x * values[0]
            elif kind == "add":
                x = x + values[0]
            elif kind == "clip":
                x = x.clip(*values)
            else:
                x = self.round(stage, x)
        return x.astype(np.int64)

    def round(self, stage: Stage, x: np.ndarray) -> np.ndarray:
        return np.round(x)
