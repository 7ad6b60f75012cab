"""How two steps of table networks differ: taps, paddings, nodes, entries, each as a fact.

The first side is the network of a fact, the second its twin. `twinnet.report.sentences.tables` has the words.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinnet.lut.plan import Plan, Requant, Sample, Stage, Table, Term
from twinnet.result import Fact, fact

__all__ = [
    "Aspect",
    "made_with",
    "mirrors",
    "of_entries",
    "of_plans",
    "of_requants",
    "of_tables",
    "of_terms",
]

Offsets = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Aspect:
    """One thing that differs: `what` kind of thing, and the fact."""

    what: str
    fact: Fact
    part: str = ""
    """The field that differs: padding, offsets, weights, planes, blend, interpolation, rotations, table, last."""


def of_terms(a: Term, b: Term) -> list[Aspect]:
    """How term `b` differs from `a`, tables apart."""
    found = _of_samples(a.sample, b.sample)
    if a.blend != b.blend:
        ours, theirs = (None if t.blend is None else t.blend.gains for t in (a, b))
        found.append(Aspect("residual", fact("table.residual", network=ours, twin=theirs), "blend"))
    if (a.interpolation, a.compat) != (b.interpolation, b.compat):
        ours, theirs = (f"{t.interpolation}{f' ({t.compat})' if t.compat else ''}" for t in (a, b))
        said = fact("table.interpolation", network=ours, twin=theirs)
        found.append(Aspect("interpolation", said, "interpolation"))
    if a.rotations != b.rotations:
        said = fact("table.rotations", name=a.name, network=a.rotations, twin=b.rotations)
        found.append(Aspect("rotation", said, "rotations"))
    if a.table != b.table:
        found.append(Aspect("table", fact("table.table", network=a.table, twin=b.table), "table"))
    return found


def _of_samples(a: Sample, b: Sample) -> list[Aspect]:
    found = []
    if a.padding != b.padding:
        said = fact("table.padding", network=a.padding, twin=b.padding)
        found.append(Aspect("padding", said, "padding"))
    if a.offsets != b.offsets:
        turned = next((name for name, offsets in mirrors(a.offsets).items() if offsets == b.offsets), "")
        what = "taps" if sorted(a.offsets) == sorted(b.offsets) and not turned else "sampler"
        said = fact("table.offsets", network=a.offsets, twin=b.offsets, turned=turned)
        found.append(Aspect(what, said, "offsets"))
    if (a.weights, a.weight_bits, a.value_bits) != (b.weights, b.weight_bits, b.value_bits):
        found.append(Aspect("sampler", _weights(a, b), "weights"))
    if a.planes != b.planes:
        ours, theirs = (tuple((p.register, p.channel) for p in s.planes) for s in (a, b))
        found.append(Aspect("input", fact("table.planes", network=ours, twin=theirs), "planes"))
    return found


def _weights(a: Sample, b: Sample) -> Fact:
    if a.weights is None or b.weights is None or len(a.weights) != len(b.weights):
        return fact("table.weights", taps=None, off=0, turned="")
    off = sum(x != y for x, y in zip(a.weights, b.weights))
    return fact("table.weights", taps=len(a.weights), off=off, turned=_mirrored_weights(a, b))


def mirrors(offsets: Offsets) -> dict[str, Offsets]:
    """The window mirrored in place, by the kind of mirror.

    >>> mirrors(((0, 0), (0, 1), (1, 0)))["left_right"]
    ((0, 1), (0, 0), (1, 1))
    """
    low_y, low_x = min(y for y, _ in offsets), min(x for _, x in offsets)
    high_y, high_x = max(y for y, _ in offsets), max(x for _, x in offsets)
    return {
        "left_right": tuple((y, low_x + high_x - x) for y, x in offsets),
        "top_bottom": tuple((low_y + high_y - y, x) for y, x in offsets),
        "both": tuple((low_y + high_y - y, low_x + high_x - x) for y, x in offsets),
        "transposed": tuple((x, y) for y, x in offsets),
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
    said = fact("table.requant", network=a.steps, twin=b.steps)
    if [s[0] for s in a.steps] == [s[0] for s in b.steps]:
        changed = [(x, y) for x, y in zip(a.steps, b.steps) if x != y]
        if len(changed) == 1:
            (kind, *ours), (_, *theirs) = changed[0]
            said = fact("table.requant_step", step=kind, network=ours, twin=theirs)
    return [Aspect("requant", said, "requant")]


def of_tables(a: Table, b: Table) -> list[Aspect]:
    """How table `b` differs from `a`: grid first, then entries."""
    if a.values is b.values and a.last == b.last and a.coarse is b.coarse:
        return []
    ours, theirs = _grid(a), _grid(b)
    if (ours, a.payload) != (theirs, b.payload):
        return [Aspect("grid", fact("table.grid", network=ours, twin=theirs), "table")]
    changed = b.values.astype(np.int16) - a.values.astype(np.int16)
    found = of_entries(a, changed, b.last)
    if a.coarse is not None and b.coarse is not None and found is None:
        rows = int((a.coarse != b.coarse).any(axis=1).sum())
        if rows:
            found = Aspect("entry", fact("table.entries_off_band", rows=rows, of=len(a.coarse)), "table")
    if found is None and a.last != b.last:
        found = Aspect("node", fact("table.says_last", network=a.last, twin=b.last), "table")
    return [] if found is None else [found]


def _grid(table: Table) -> tuple[int, int, int, tuple[int, int, int] | None]:
    band = (table.near, table.width, table.thin) if table.banded else None
    return table.nodes, table.step, table.axes, band


def of_entries(
    table: Table, changed: np.ndarray, last: int | None = None, seen: int | None = None
) -> Aspect | None:
    """Classify entries that differ; `changed` is the difference, [rows, payload].

    `last` is the last node of the other table if it is known, `seen` how many rows the data determine.
    """
    rows = np.flatnonzero(changed.any(axis=1))
    if not len(rows):
        return None
    counts = {
        "rows": len(rows),
        "of": len(table.values) if seen is None else seen,
        "seen": seen is not None,
    }
    if not table.banded:
        index = np.stack(np.unravel_index(rows, (table.nodes,) * table.axes), axis=1)
        if (
            table.last in (255, (table.nodes - 1) * table.step)
            and (index == table.nodes - 1).any(axis=1).all()
        ):
            if last is not None and last != table.last:
                return Aspect("node", made_with(table, last), "table")
            if len(rows) > 1:
                return Aspect("node", fact("table.entries_at_last", **counts, last=table.last), "table")
    outputs = np.flatnonzero(changed.any(axis=0))
    only = int(outputs[0]) if len(outputs) == 1 < table.payload else None
    if len(rows) == 1:
        return Aspect("entry", _of_row(table, int(rows[0]), changed, outputs, only), "table")
    exact = (table.values.astype(np.int16) + changed)[rows]
    if np.array_equal(exact, -table.values[rows].astype(np.int16)):
        return Aspect("entry", fact("table.entries_negated", **counts), "table")
    mean = float(np.abs(changed[rows]).mean())
    said = fact("table.entries", **counts, mean=mean, output=only, payload=table.payload)
    return Aspect("entry", said, "table")


def _of_row(table: Table, row: int, changed: np.ndarray, outputs: np.ndarray, only: int | None) -> Fact:
    from twinnet.lut.cells import nodes_of

    node = tuple(int(v) for v in nodes_of(table, np.array([row]))[0])
    if len(outputs) > 1:
        return fact("table.row", node=node, outputs=len(outputs), payload=table.payload)
    ours = int(table.values[row, outputs[0]])
    theirs = ours + int(changed[row, outputs[0]])
    return fact("table.entry", node=node, output=only, network=ours, twin=theirs)


def made_with(table: Table, last: int) -> Fact:
    """A table made with another last node than the one it is looked up with."""
    node = (table.nodes - 1) * table.step
    return fact("table.made_with", bin=table.nodes - 2, node=node, network=table.last, twin=last)


def of_plans(a: Plan, b: Plan) -> list[tuple[str, Aspect]]:
    """How plan `b` differs from `a`, each with its place; entries of tables last of every term.

    >>> from twinnet.lut import export, lower
    >>> from twinnet.restore.nets import srlut
    >>> import torch
    >>> _ = torch.manual_seed(0)
    >>> net = srlut.build("V", scale=2, width=4)
    >>> one, two = (lower(export(srlut.build("V", scale=2, width=4, padding=p))) for p in ("edge", "reflect"))
    >>> place, aspect = of_plans(one, two)[0]
    >>> place, aspect.fact.code, aspect.fact.params
    ('stage1.in_c0.b0', 'table.padding', {'network': 'edge', 'twin': 'reflect'})
    """
    ours, theirs = ({s.name: s for s in plan.stages} for plan in (a, b))
    if list(ours) != list(theirs):
        return [("", Aspect("structure", fact("table.stages", network=tuple(ours), twin=tuple(theirs))))]
    found: list[tuple[str, Aspect]] = []
    for name, stage in ours.items():
        found += _of_stages(a, b, stage, theirs[name])
    return found


def _of_stages(a: Plan, b: Plan, x: Stage, y: Stage) -> list[tuple[str, Aspect]]:
    found: list[tuple[str, Aspect]] = []
    for part in ("upscale", "channels", "cell"):
        ours, theirs = getattr(x, part), getattr(y, part)
        if ours != theirs:
            said = fact(f"table.{part}", network=ours, twin=theirs)
            found.append((x.name, Aspect("structure", said, part)))
    terms, others = {t.name: t for t in x.terms}, {t.name: t for t in y.terms}
    for name in {**terms, **others}:
        place = f"{x.name}.{name}"
        if name not in terms or name not in others:
            said = fact("table.has_term", name=name, network=name in terms, twin=name in others)
            found.append((place, Aspect("structure", said)))
            continue
        one, two = terms[name], others[name]
        found += [(place, aspect) for aspect in of_terms(one, two)]
        found += [(place, aspect) for aspect in of_tables(a.tables[one.table], b.tables[two.table])]
    return found + [(x.name, aspect) for aspect in of_requants(x.requant, y.requant)]
