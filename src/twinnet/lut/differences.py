"""How two steps of table networks differ, in words: the one place that names taps, paddings, nodes and entries.

A sentence has `{it}` for the side it is told to, so that a check says "where the network has" and a comparison of two
files "where A has".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from twinnet.lut.plan import Plan, Requant, Sample, Stage, Table, Term

__all__ = [
    "Aspect",
    "entries_words",
    "mirrors",
    "node_words",
    "of_plans",
    "of_requants",
    "of_tables",
    "of_terms",
    "taps_words",
]

TAPS = "abcdefghijklmnop"


@dataclass(frozen=True)
class Aspect:
    """One thing that differs: `what` kind of thing, a sentence about the second side, and both values."""

    what: str
    sentence: str
    first: Any = None
    second: Any = None
    part: str = ""
    """Which field it is: padding, offsets, weights, planes, blend, interpolation, rotations, table, last."""

    def told(self, it: str = "the network") -> str:
        """The sentence, told to `it`.

        >>> Aspect("padding", "pads reflect where {it} pads edge").told("A")
        'pads reflect where A pads edge'
        """
        return self.sentence.replace("{it}", it)


def taps_words(offsets: tuple[tuple[int, int], ...]) -> str:
    """Offsets as people write them.

    >>> taps_words(((0, 0), (0, 1)))
    '(0,0) (0,1)'
    """
    return " ".join(f"({y},{x})" for y, x in offsets)


def of_terms(a: Term, b: Term) -> list[Aspect]:
    """How term `b` differs from `a`, tables apart."""
    found = _of_samples(a.sample, b.sample)
    if a.blend != b.blend:
        ours = "none" if a.blend is None else f"gains {a.blend.gains}"
        theirs = "none" if b.blend is None else f"gains {b.blend.gains}"
        said = (
            f"leaves out the residual where {{it}} blends with {ours}"
            if b.blend is None
            else f"blends in the residual with {theirs} where {{it}} has {ours}"
        )
        found.append(Aspect("residual", said, ours, theirs, "blend"))
    if (a.interpolation, a.compat) != (b.interpolation, b.compat):
        ours, theirs = (f"{t.interpolation}{f' ({t.compat})' if t.compat else ''}" for t in (a, b))
        said = f"uses {theirs} interpolation where {{it}} uses {ours}"
        found.append(Aspect("interpolation", said, ours, theirs, "interpolation"))
    if a.rotations != b.rotations:
        missing = [r for r in a.rotations if r not in b.rotations]
        said = (
            f"leaves out rotation {' and '.join(map(str, missing))} of {a.name}"
            if missing and len(b.rotations) == len(a.rotations) - len(missing)
            else f"takes rotations {b.rotations} of {a.name} where {{it}} takes {a.rotations}"
        )
        found.append(Aspect("rotation", said, a.rotations, b.rotations, "rotations"))
    if a.table != b.table:
        said = f"looks up table {b.table} where {{it}} looks up {a.table}"
        found.append(Aspect("table", said, a.table, b.table, "table"))
    return found


def _of_samples(a: Sample, b: Sample) -> list[Aspect]:
    found = []
    if a.padding != b.padding:
        said = f"pads {b.padding} where {{it}} pads {a.padding}"
        found.append(Aspect("padding", said, a.padding, b.padding, "padding"))
    if a.offsets != b.offsets:
        ours, theirs = taps_words(a.offsets), taps_words(b.offsets)
        said = f"samples {theirs} where {{it}} samples {ours}"
        how = mirror_words(a.offsets, b.offsets)
        if how:
            said = f"samples {how}: {theirs} where {{it}} samples {ours}"
        what = "taps" if sorted(a.offsets) == sorted(b.offsets) and not how else "sampler"
        found.append(Aspect(what, said, ours, theirs, "offsets"))
    if (a.weights, a.weight_bits, a.value_bits) != (b.weights, b.weight_bits, b.value_bits):
        said = "has other sampler weights"
        if a.weights is not None and b.weights is not None and len(a.weights) == len(b.weights):
            off = sum(x != y for x, y in zip(a.weights, b.weights))
            said = f"has other sampler weights in {off} of {len(a.weights)} taps"
            how = _mirrored_weights(a, b)
            if how:
                said = f"samples {how}: its sampler weights are {{it}}'s, turned over"
        found.append(Aspect("sampler", said, "its weights", "other weights", "weights"))
    if a.planes != b.planes:
        ours, theirs = (" ".join(f"{p.register}[{p.channel}]" for p in s.planes) for s in (a, b))
        said = f"reads {theirs} where {{it}} reads {ours}"
        found.append(Aspect("input", said, ours, theirs, "planes"))
    return found


def mirror_words(a: tuple[tuple[int, int], ...], b: tuple[tuple[int, int], ...]) -> str:
    """Which way the second window is the first one turned over, or an empty string.

    >>> mirror_words(((0, 0), (0, 1), (1, 0)), ((0, 1), (0, 0), (1, 1)))
    'mirrored left to right'
    """
    for name, offsets in mirrors(a).items():
        if offsets == b:
            return name
    return ""


def mirrors(offsets: tuple[tuple[int, int], ...]) -> dict[str, tuple[tuple[int, int], ...]]:
    """The window turned over in place, by name."""
    low_y, low_x = min(y for y, _ in offsets), min(x for _, x in offsets)
    high_y, high_x = max(y for y, _ in offsets), max(x for _, x in offsets)
    return {
        "mirrored left to right": tuple((y, low_x + high_x - x) for y, x in offsets),
        "mirrored top to bottom": tuple((low_y + high_y - y, x) for y, x in offsets),
        "mirrored both ways": tuple((low_y + high_y - y, low_x + high_x - x) for y, x in offsets),
        "with rows and columns exchanged": tuple((x, y) for y, x in offsets),
    }


def _mirrored_weights(a: Sample, b: Sample) -> str:
    assert a.weights is not None and b.weights is not None
    if a.offsets != b.offsets:
        return ""
    place = {offset: k for k, offset in enumerate(a.offsets)}
    for name, offsets in mirrors(a.offsets).items():
        if all(o in place for o in offsets):
            order = [place[o] for o in offsets]
            if all(tuple(row[k] for k in order) == other for row, other in zip(a.weights, b.weights)):
                return name
    return ""


def of_requants(a: Requant, b: Requant) -> list[Aspect]:
    """How a requantisation differs."""
    if a.steps == b.steps:
        return []
    if [s[0] for s in a.steps] == [s[0] for s in b.steps]:
        changed = [(x, y) for x, y in zip(a.steps, b.steps) if x != y]
        if len(changed) == 1:
            (kind, *ours), (_, *theirs) = changed[0]
            verb = {"div": "divides by", "mul": "multiplies by", "add": "adds", "clip": "clamps to"}.get(
                kind, kind
            )
            x, y = (", ".join(f"{float(v):g}" for v in values) for values in (ours, theirs))
            said = f"{verb} {y} where {{it}} {verb} {x}, before it rounds to 8 bit"
            return [Aspect("requant", said, x, y, "requant")]
    ours, theirs = steps_words(a), steps_words(b)
    said = f"requantises by {theirs} where {{it}} requantises by {ours}"
    return [Aspect("requant", said, ours, theirs, "requant")]


def steps_words(requant: Requant) -> str:
    """The steps in order.

    >>> steps_words(Requant("q", (("div", 4), ("add", 127), ("clip", 0, 255), ("round",))))
    'div 4, add 127, clip 0 255, round'
    """
    return ", ".join(
        " ".join(f"{v:g}" if not isinstance(v, str) else v for v in step) for step in requant.steps
    )


def of_tables(a: Table, b: Table) -> list[Aspect]:
    """How table `b` differs from `a`: grid first, then entries."""
    if a.values is b.values and a.last == b.last and a.coarse is b.coarse:
        return []
    grid = [
        getattr(t, k) for t in (a, b) for k in ("axes", "nodes", "step", "near", "width", "thin", "payload")
    ]
    if grid[:7] != grid[7:]:
        ours, theirs = (
            f"{t.nodes} nodes, {t.step} apart, on {t.axes} axes"
            + (f", band {t.near}/{t.width}/{t.thin}" if t.banded else "")
            for t in (a, b)
        )
        said = f"has a table on another grid: {theirs} where {{it}} has {ours}"
        return [Aspect("grid", said, ours, theirs, "table")]
    changed = b.values.astype(np.int16) - a.values.astype(np.int16)
    said = entries_words(a, changed, b.last)
    if a.coarse is not None and b.coarse is not None and said is None:
        rows = int((a.coarse != b.coarse).any(axis=1).sum())
        if rows:
            said = ("entry", f"has other entries in {rows} of {len(a.coarse)} rows of its off-band table")
    if said is None:
        if a.last == b.last:
            return []
        said = ("node", f"says its last node is {b.last} where {{it}} has {a.last}; the entries are equal")
    return [Aspect(said[0], said[1], None, None, "table")]


def entries_words(
    table: Table, changed: np.ndarray, last: int | None = None, seen: int | None = None
) -> tuple[str, str] | None:
    """What kind of fault other entries are, and how to say it; `changed` is the difference, [rows, payload].

    `last` is the last node of the other table where it is known, `seen` how many rows the data pin down.
    """
    rows = np.flatnonzero(changed.any(axis=1))
    if not len(rows):
        return None
    of = f"{len(table.values)} rows" if seen is None else f"the {seen} rows that these images pin down"
    if not table.banded:
        index = np.stack(np.unravel_index(rows, (table.nodes,) * table.axes), axis=1)
        if (
            table.last in (255, (table.nodes - 1) * table.step)
            and (index == table.nodes - 1).any(axis=1).all()
        ):
            if last is not None and last != table.last:
                return "node", node_words(table, last)
            if len(rows) > 1:
                said = f"has other entries only where a tap is at the last node, in {len(rows)} of {of}"
                several = len(rows) > 3
                return "node", said + (
                    f": as if it stood for another value than {table.last}" if several else ""
                )
    outputs = np.flatnonzero(changed.any(axis=0))
    if len(rows) == 1:
        node = _node(table, int(rows[0]))
        if len(outputs) == 1:
            c = int(outputs[0])
            ours = int(table.values[rows[0], c])
            theirs = ours + int(changed[rows[0], c])
            where = f"entry {node}" + (f", output {c}," if table.payload > 1 else "")
            return "entry", f"reads {theirs} at {where} where {{it}} has {ours}"
        return "entry", f"has another row at {node}: {len(outputs)} of its {table.payload} outputs differ"
    exact = (table.values.astype(np.int16) + changed)[rows]
    if np.array_equal(exact, -table.values[rows].astype(np.int16)):
        return "entry", f"reads its entries with the sign turned in {len(rows)} of {of}"
    mean = float(np.abs(changed[rows]).mean())
    only = f", all in output {outputs[0]} of {table.payload}" if len(outputs) == 1 < table.payload else ""
    whole = ": as from another export or training" if len(rows) > 0.5 * (seen or len(table.values)) else ""
    return "entry", f"has other entries in {len(rows)} of {of}, by {mean:.3g} on average{only}{whole}"


def node_words(table: Table, last: int) -> str:
    """A table made with another last node than the one it is looked up with."""
    top = table.nodes - 2
    return (
        f"looks up bin {top} with node {(table.nodes - 1) * table.step} where its table was made with {last} "
        f"({{it}}'s with {table.last})"
    )


def _node(table: Table, row: int) -> str:
    from twinnet.lut.cells import nodes_of

    return "(" + ",".join(str(int(v)) for v in nodes_of(table, np.array([row]))[0]) + ")"


def of_plans(a: Plan, b: Plan) -> list[tuple[str, Aspect]]:
    """How plan `b` differs from `a`, each with its place; entries of tables last of every term.

    >>> from twinnet.lut import export, lower
    >>> from twinnet.restore.nets import srlut
    >>> import torch
    >>> _ = torch.manual_seed(0)
    >>> net = srlut.build("V", scale=2, width=4)
    >>> one, two = (lower(export(srlut.build("V", scale=2, width=4, padding=p))) for p in ("edge", "reflect"))
    >>> place, aspect = of_plans(one, two)[0]
    >>> f"{place}: B {aspect.told('A')}"
    'stage1.in_c0.b0: B pads reflect where A pads edge'
    """
    ours, theirs = ({s.name: s for s in plan.stages} for plan in (a, b))
    if list(ours) != list(theirs):
        said = f"has the stages {' '.join(theirs)} where {{it}} has {' '.join(ours)}"
        return [("", Aspect("structure", said, tuple(ours), tuple(theirs)))]
    found: list[tuple[str, Aspect]] = []
    for name, stage in ours.items():
        found += _of_stages(a, b, stage, theirs[name])
    return found


def _of_stages(a: Plan, b: Plan, x: Stage, y: Stage) -> list[tuple[str, Aspect]]:
    found: list[tuple[str, Aspect]] = []
    for part, words in (("upscale", "scales by"), ("channels", "has channels:"), ("cell", "has a site per")):
        mine, other = getattr(x, part), getattr(y, part)
        if mine != other:
            said = f"{words} {other} where {{it}} has {mine}"
            found.append((x.name, Aspect("structure", said, mine, other, part)))
    terms, others = {t.name: t for t in x.terms}, {t.name: t for t in y.terms}
    for name in {**terms, **others}:
        place = f"{x.name}.{name}"
        if name not in terms or name not in others:
            said = f"has no {name}" if name in terms else f"has {name}, which {{it}} has not"
            found.append((place, Aspect("structure", said, name in terms, name in others)))
            continue
        one, two = terms[name], others[name]
        found += [(place, aspect) for aspect in of_terms(one, two)]
        found += [(place, aspect) for aspect in of_tables(a.tables[one.table], b.tables[two.table])]
    return found + [(x.name, aspect) for aspect in of_requants(x.requant, y.requant)]
