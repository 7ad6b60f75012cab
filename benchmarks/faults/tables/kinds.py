"""The faults: in a plan (so that files and ONNX models carry them), or in the arithmetic of the interpreter.

Each is a function of a `Place` that returns what it did and the words that name it rightly, or None where the network
has no such place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.faults.tables.interpreter import Interpreter
from twinnet.lut.plan import Plan, Stage, Term

__all__ = ["ENGINE_FAULTS", "PLAN_FAULTS", "Place", "Planted"]


@dataclass(frozen=True)
class Place:
    """A term of a plan, a random generator, and how often the sample reads each row of its table."""

    plan: Plan
    stage: int
    term: int
    rng: np.random.Generator
    visits: np.ndarray
    retable: Callable[[str], np.ndarray | None]
    """Entries of a table as another training gives them."""
    relast: Callable[[str], tuple[np.ndarray, int] | None]
    """Entries of a table made with the other last node, where the network is there."""

    @property
    def at(self) -> Stage:
        return self.plan.stages[self.stage]

    @property
    def of(self) -> Term:
        return self.at.terms[self.term]

    @property
    def table(self):
        return self.plan.tables[self.of.table]

    def with_term(self, term: Term) -> Plan:
        terms = (*self.at.terms[: self.term], term, *self.at.terms[self.term + 1 :])
        return self.with_stage(replace(self.at, terms=terms))

    def with_stage(self, stage: Stage) -> Plan:
        stages = (*self.plan.stages[: self.stage], stage, *self.plan.stages[self.stage + 1 :])
        return Plan.build(stages, self.plan.tables)

    def with_values(self, values: np.ndarray, **facts: int) -> Plan:
        table = replace(self.table, values=values, **facts)
        return Plan.build(self.plan.stages, {**self.plan.tables, self.of.table: table})

    def sampling(self, **sample) -> Plan:
        return self.with_term(replace(self.of, sample=replace(self.of.sample, **sample)))


@dataclass(frozen=True)
class Planted:
    """What runs, where it is wrong (`sites` begin like this), and what a right cause says (a regular expression)."""

    plan: Plan
    sites: str
    wanted: str
    make: Callable[[Plan], Interpreter] = Interpreter


PlanFault = Callable[[Place], Planted | None]
PLAN_FAULTS: dict[str, PlanFault] = {}
ENGINE_FAULTS: dict[str, PlanFault] = {}


def _fault(table: dict[str, PlanFault], name: str):
    def keep(f: PlanFault) -> PlanFault:
        table[name] = f
        return f

    return keep


def _lookup(p: Place) -> str:
    return f"{p.at.name}.{p.of.name}.rot"


# ---- in the plan -------------------------------------------------------------------------------------------------


@_fault(PLAN_FAULTS, "wrong padding")
def padding(p: Place) -> Planted | None:
    if all(o == (0, 0) for o in p.of.sample.offsets):
        return None
    other = "reflect" if p.of.sample.padding == "edge" else "edge"
    return Planted(p.sampling(padding=other), _lookup(p), rf"pads {other} where")


@_fault(PLAN_FAULTS, "flipped sampler")
def flipped(p: Place) -> Planted | None:
    sample = p.of.sample
    high_y, high_x = max(y for y, _ in sample.offsets), max(x for _, x in sample.offsets)
    if not high_x and not high_y:
        return None
    if sample.weights is not None:
        side = round(len(sample.offsets) ** 0.5)
        weights = (
            np.array(sample.weights).reshape(-1, side, side)[:, :, ::-1].reshape(len(sample.weights), -1)
        )
        plan = p.sampling(weights=tuple(tuple(int(w) for w in row) for row in weights))
        return Planted(plan, _lookup(p), "samples mirrored|mirrored left to right")
    moved = tuple((high_y - y, high_x - x) for y, x in sample.offsets)
    return Planted(p.sampling(offsets=moved), _lookup(p), "mirrored|samples rotation")


@_fault(PLAN_FAULTS, "taps in another order")
def taps(p: Place) -> Planted | None:
    sample = p.of.sample
    if sample.axes < 3 or sample.weights is not None or len(sample.planes) > 1:
        return None
    order = [0, *(1 + p.rng.permutation(sample.axes - 1))]
    offsets = tuple(sample.offsets[k] for k in order)
    if offsets == sample.offsets:
        return None
    return Planted(p.sampling(offsets=offsets), _lookup(p), "taps in the order|samples")


@_fault(PLAN_FAULTS, "a rotation left out")
def missing(p: Place) -> Planted | None:
    if len(p.of.rotations) < 2:
        return None
    gone = int(p.rng.choice(p.of.rotations))
    kept = tuple(r for r in p.of.rotations if r != gone)
    plan = p.with_term(replace(p.of, rotations=kept))
    group = f"{p.at.name}.{p.of.group}" if p.of.group else p.at.name
    return Planted(plan, f"={group}", rf"leaves out.*(rotation {gone}|rot{gone})")


@_fault(PLAN_FAULTS, "stale table")
def stale(p: Place) -> Planted | None:
    values = p.retable(p.of.table)
    return None if values is None else Planted(p.with_values(values), _lookup(p), "other entries")


@_fault(PLAN_FAULTS, "one entry")
def entry(p: Place) -> Planted | None:
    return _rows(p, 1, whole=False)


@_fault(PLAN_FAULTS, "one row")
def row(p: Place) -> Planted | None:
    return _rows(p, 1, whole=True) if p.table.payload > 1 else None


@_fault(PLAN_FAULTS, "a few rows")
def few(p: Place) -> Planted | None:
    return _rows(p, 5, whole=True)


def _rows(p: Place, count: int, *, whole: bool) -> Planted | None:
    often = np.flatnonzero(p.visits >= 48)
    if p.table.banded or len(often) < count:
        return None
    values = p.table.values.copy()
    for r in p.rng.choice(often, count, replace=False):
        columns = range(values.shape[1]) if whole else [int(p.rng.integers(values.shape[1]))]
        for c in columns:
            by = int(p.rng.choice([-1, 1])) * int(p.rng.integers(12, 60))
            values[r, c] = values[r, c] + by if abs(int(values[r, c]) + by) <= 127 else values[r, c] - by
    words = "other entries" if count > 1 else "another row at" if whole else "at entry"
    return Planted(p.with_values(values), _lookup(p), words)


@_fault(PLAN_FAULTS, "wrong node value")
def node(p: Place) -> Planted | None:
    made = p.relast(p.of.table)
    if made is None or np.array_equal(made[0], p.table.values):
        return None
    return Planted(p.with_values(made[0], last=made[1]), _lookup(p), "node")


@_fault(PLAN_FAULTS, "wrong divisor")
def divisor(p: Place) -> Planted | None:
    steps = p.at.requant.steps
    k = next((k for k, s in enumerate(steps) if s[0] == "div"), None)
    if k is None:
        return None
    new = (*steps[:k], ("div", steps[k][1] + 1), *steps[k + 1 :])
    plan = p.with_stage(replace(p.at, requant=replace(p.at.requant, steps=new)))
    return Planted(plan, f"={p.at.name}", r"divides by")


@_fault(PLAN_FAULTS, "wrong centre")
def centre(p: Place) -> Planted | None:
    steps = p.at.requant.steps
    k = next((k for k, s in enumerate(steps) if s[0] == "add"), None)
    if k is None:
        return None
    new = (*steps[:k], ("add", 128), *steps[k + 1 :])
    plan = p.with_stage(replace(p.at, requant=replace(p.at.requant, steps=new)))
    return Planted(plan, f"={p.at.name}", r"adds 128")


@_fault(PLAN_FAULTS, "residual left out")
def residual(p: Place) -> Planted | None:
    if p.of.blend is None:
        return None
    blend = replace(p.of.blend, gains=(0,) * len(p.of.blend.gains))
    return Planted(p.with_term(replace(p.of, blend=blend)), _lookup(p), "residual")


@_fault(PLAN_FAULTS, "multilinear for simplex")
def interpolation(p: Place) -> Planted | None:
    if p.of.sample.value_bits or p.table.banded or p.of.interpolation != "simplex":
        return None
    plan = p.with_term(replace(p.of, interpolation="multilinear", compat=""))
    return Planted(plan, _lookup(p), "multilinear")


# ---- in the arithmetic -------------------------------------------------------------------------------------------


def _engine(p: Place, sites: str, wanted: str, **methods) -> Planted:
    """An interpreter with some methods replaced at the place; each is given the method it replaces."""
    stage, term = p.at.name, p.of.name

    def make(plan: Plan) -> Interpreter:
        made = Interpreter(plan)
        for name, method in methods.items():
            plain = getattr(made, name)

            def there(at, *args, plain=plain, method=method):
                here = at.name == stage and (not hasattr(args[0], "rotations") or args[0].name == term)
                return method(plain, at, *args) if here else plain(at, *args)

            setattr(made, name, there)
        return made

    return Planted(p.plan, sites, wanted, make)


@_fault(ENGINE_FAULTS, "wrong bin")
def wrong_bin(p: Place) -> Planted:
    by = int(p.rng.choice([-1, 1]))

    def cell(plain, stage, term, axis, value, u, nodes):
        low, frac = plain(stage, term, axis, value, u, nodes)
        return np.clip(low + by, 0, nodes - 2), frac

    return _engine(p, _lookup(p), rf"one bin too {'high' if by > 0 else 'low'}", cell=cell)


@_fault(ENGINE_FAULTS, "wrong bin of one tap")
def one_bin(p: Place) -> Planted | None:
    if p.table.axes < 2:
        return None
    which = int(p.rng.integers(p.table.axes))

    def cell(plain, stage, term, axis, value, u, nodes):
        low, frac = plain(stage, term, axis, value, u, nodes)
        return (np.minimum(low + 1, nodes - 2) if axis == which else low), frac

    return _engine(p, _lookup(p), rf"tap {'abcd'[which]} one bin too high", cell=cell)


@_fault(ENGINE_FAULTS, "clipped bin")
def clipped(p: Place) -> Planted:
    def cell(plain, stage, term, axis, value, u, nodes):
        low, frac = plain(stage, term, axis, value, u, nodes)
        return np.minimum(low, nodes - 3), frac

    return _engine(p, _lookup(p), "clipped", cell=cell)


@_fault(ENGINE_FAULTS, "node 255 for 256")
def node_255(p: Place) -> Planted | None:
    if p.of.sample.value_bits or p.table.step * (p.table.nodes - 1) != 256:
        return None

    def cell(plain, stage, term, axis, value, u, nodes):
        low, frac = plain(stage, term, axis, value, u, nodes)
        return low, np.where(low == nodes - 2, frac * (u / (u - 1)), frac)

    return _engine(p, _lookup(p), "node 255", cell=cell)


@_fault(ENGINE_FAULTS, "swapped rotation")
def swapped(p: Place) -> Planted | None:
    if len(p.of.rotations) < 4:
        return None
    one, other = (int(r) for r in p.rng.choice(4, 2, replace=False))

    def turned(plain, stage, term, r, dy, dx):
        return plain(stage, term, {one: other, other: one}.get(r, r), dy, dx)

    return _engine(p, _lookup(p), "rotation", turned=turned)


@_fault(ENGINE_FAULTS, "block turned the wrong way")
def block(p: Place) -> Planted | None:
    if p.at.upscale == 1 or len(p.of.rotations) < 4:
        return None

    def place(plain, stage, term, r, raw):
        return plain(stage, term, -r % 4, raw)

    return _engine(p, _lookup(p), "rotation", place=place)


@_fault(ENGINE_FAULTS, "block transposed")
def shuffled(p: Place) -> Planted | None:
    n = p.at.upscale
    if n == 1 or p.at.channels > 1:
        return None

    def place(plain, stage, term, r, raw):
        return plain(stage, term, r, raw.reshape(n, n, *raw.shape[1:]).swapaxes(0, 1).reshape(raw.shape))

    return _engine(p, _lookup(p), "rows and columns of the block exchanged|writes the block", place=place)


@_fault(ENGINE_FAULTS, "zero padding")
def zeros(p: Place) -> Planted | None:
    if all(o == (0, 0) for o in p.of.sample.offsets):
        return None

    def tap(plain, stage, term, r, plane, dy, dx):
        room = 8
        wide = np.pad(plane, room)
        moved = plain(stage, term, r, wide, dy, dx)
        return moved[room : room + plane.shape[0], room : room + plane.shape[1]]

    return _engine(p, _lookup(p), "pads zero", tap=tap) if p.at.cell == 1 else None


@_fault(ENGINE_FAULTS, "nearest entry")
def nearest(p: Place) -> Planted | None:
    def weigh(plain, stage, term, fractions, u):
        yield [(2 * f >= u).astype(np.int64) for f in fractions], np.full_like(fractions[0], u)

    return _engine(p, _lookup(p), "nearest entry", weigh=weigh) if p.of.interpolation == "simplex" else None


@_fault(ENGINE_FAULTS, "entries read as uint8")
def unsigned(p: Place) -> Planted:
    def entry(plain, stage, term, table, corner):
        return plain(stage, term, table, corner) % 256

    return _engine(p, _lookup(p), "uint8", entry=entry)


@_fault(ENGINE_FAULTS, "rounds half up")
def half_up(p: Place) -> Planted:
    return _engine(p, f"={p.at.name}", "rounds half", round=lambda plain, stage, x, *a: np.floor(x + 0.5))


@_fault(ENGINE_FAULTS, "truncates")
def truncates(p: Place) -> Planted:
    return _engine(
        p, f"={p.at.name}", "rounds (down|towards 0)", round=lambda plain, stage, x, *a: np.floor(x)
    )


@_fault(ENGINE_FAULTS, "outside: a wave on the lookups")
def wave(p: Place) -> Planted:
    def lookup(plain, stage, term, r, known):
        raw = plain(stage, term, r, known)
        return raw + np.rint(40 * np.sin(np.arange(raw.size)).reshape(raw.shape)).astype(np.int64)

    return _engine(p, _lookup(p), "", lookup=lookup)
