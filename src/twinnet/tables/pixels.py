"""One pixel of a table network: the lookup behind it, or the sums it is made of."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from twinnet.debugger.figures import number, table
from twinnet.debugger.stopped import Stopped
from twinnet.lut.explain import Lookup, explain_lookup, payload_at
from twinnet.lut.plan import INPUT, Plan, Stage, Term
from twinnet.result import PairResult
from twinnet.tables.view import planes_of

__all__ = ["explain_tables", "table_lines"]

_ROTATION = re.compile(r"\.rot(\d)(?:\.sr)?$")

Told = tuple[list[str], dict[str, Any]]
Place = tuple[Stage, Term, int]
"""Stage, term and rotation of a Unit's site."""


def explain_tables(
    stopped: Stopped, plans: tuple[Plan, Plan], row: PairResult, index: tuple[int, ...]
) -> Told:
    """How the twin's tables came to this element; `index` is [plane, channel, row, column]."""
    _, plan = plans
    site, (plane, channel, y, x) = row.site.tensor, index
    place = _term_at(plan, site)
    if place is not None:
        stage, _, rotation = place
        where = (y, x, channel) if site.endswith(".sr") else payload_at(stage, rotation, y, x, channel)
        return _lookup(stopped, plans, place, plane, where)
    if ".input." in site:
        return [f"what the group reads: plane {channel} of its sources, as it is"], {}
    return _sum(stopped, _stage_at(plan, site), site, plane, (channel, y, x))


def table_lines(plan: Plan, site: str) -> list[str]:
    """Which table a site looks up, and with which taps; nothing for sums, inputs and stages."""
    found = _term_at(plan, site)
    if found is None:
        return []
    _, term, _ = found
    table = plan.tables[term.table]
    taps = " ".join(f"({dy},{dx})" for dy, dx in term.sample.offsets)
    kind = f"{table.axes} axes of {table.nodes} nodes, {term.interpolation}"
    return ["", f"table    {term.table}: {kind}", f"taps     {taps}, {term.sample.padding}"]


def _stage_at(plan: Plan, site: str) -> Stage:
    """The stage a site belongs to."""
    return max((s for s in plan.stages if f"{site}.".startswith(f"{s.name}.")), key=lambda s: len(s.name))


def _term_at(plan: Plan, site: str) -> Place | None:
    """The lookup a site shows; None for sums, inputs and stages, and for a lookup this plan does not do."""
    turned = _ROTATION.search(site)
    if turned is None:
        return None
    for stage in plan.stages:
        for term in stage.terms:
            if site[: turned.start()] == f"{stage.name}.{term.name}" and int(turned[1]) in term.rotations:
                return stage, term, int(turned[1])
    return None


def _registers(stopped: Stopped, plan: Plan, plane: int) -> dict[str, np.ndarray]:
    """The twin's own registers for one plane, in integers."""
    found = {INPUT: planes_of(stopped.inputs)[plane][None].astype(np.int64)}
    for stage in plan.stages:
        if stage.name in stopped.twin_trace:
            found[stage.name] = np.rint(stopped.twin_trace[stage.name][plane]).astype(np.int64)
    return found


def _lookup(
    stopped: Stopped, plans: tuple[Plan, Plan], place: Place, plane: int, where: tuple[int, int, int]
) -> Told:
    reference, plan = plans
    stage, term, rotation = place
    i, j, element = where
    registers = _registers(stopped, plan, plane)
    found = explain_lookup(plan, stage, term, rotation, registers, (i, j))
    own = _term_at(reference, f"{stage.name}.{term.name}.rot{rotation}")
    other = None if own is None else explain_lookup(reference, *own, registers, (i, j))
    head = f"table {found.table}{' (off the band)' if found.part == 'coarse' else ''}, rotation {rotation}"
    lines = [f"{head}, lookup at row {i}, column {j}, element {element} of its payload"]
    lines += _taps(found, term)
    lines += _vertices(found, other, element)
    value = found.numerator[element] / found.denominator
    lines.append(
        f"output   {found.numerator[element]} / {found.denominator} = {number(value)} in the twin's tables"
    )
    data: dict[str, Any] = {"lookup": found, "element": element, "value": value, "wrong": []}
    if other is not None:
        expected = other.numerator[element] / other.denominator
        lines.append(
            f"         {other.numerator[element]} / {other.denominator} = {number(expected)} by the network's"
        )
        data["expected"] = expected
        data["wrong"] = _wrong(found, other, element)
    return lines, data


def _taps(found: Lookup, term: Term) -> list[str]:
    lines = []
    for what, taps in (("taps", found.taps), ("earlier", found.previous)):
        if taps:
            rows = [
                [
                    f"{t.register}[{t.channel}, {t.row}, {t.column}]",
                    str(t.value),
                    "padded" if t.outside else "",
                ]
                for t in taps
            ]
            lines += [what, *("  " + line for line in table(["pixel", "value", ""], rows))]
    if term.sample.weights is not None:
        lines.append(f"weights  {len(term.sample.weights)} learned mixtures of these taps")
    scale = "" if not found.value_bits else f" (over {1 << found.value_bits})"
    rows = [
        [str(k), str(v), str(b), f"{f} of {found.unit}"]
        for k, (v, b, f) in enumerate(zip(found.values, found.bins, found.fractions))
    ]
    lines += ["axes", *("  " + line for line in table(["axis", f"value{scale}", "bin", "fraction"], rows))]
    return lines


def _vertices(found: Lookup, other: Lookup | None, element: int) -> list[str]:
    own = {} if other is None else {v.node: v.entries[element] for v in other.vertices}
    rows = []
    for vertex in found.vertices:
        entry = vertex.entries[element]
        theirs = own.get(vertex.node)
        mark = "" if theirs is None or theirs == entry else f"<- the network's table has {theirs}"
        node = " ".join(map(str, vertex.node))
        rows.append([node, f"row {vertex.row}", str(vertex.weight), str(entry), mark])
    head = ["node", "", "weight", "entry", ""]
    return ["vertices", *("  " + line for line in table(head, rows, left=2))]


def _wrong(found: Lookup, other: Lookup, element: int) -> list[dict[str, Any]]:
    own = {v.node: v.entries[element] for v in other.vertices}
    return [
        {"node": list(v.node), "row": v.row, "entry": v.entries[element], "network": own[v.node]}
        for v in found.vertices
        if v.node in own and own[v.node] != v.entries[element]
    ]


def _sum(stopped: Stopped, stage: Stage, site: str, plane: int, at: tuple[int, int, int]) -> Told:
    """A group or a stage: what each rotation of each term adds, on both sides."""
    channel, y, x = at
    rows, parts = [], []
    for term in stage.terms:
        if site != stage.name and f"{stage.name}.{term.group}" != site:
            continue
        for r in term.rotations:
            name = f"{stage.name}.{term.name}.rot{r}"
            if name not in stopped.by_tensor:
                continue
            ours, theirs = stopped.both(stopped.by_tensor[name])
            a, b = float(ours[plane, channel, y, x]), float(theirs[plane, channel, y, x])
            rows.append([name, number(a), number(b), number(b - a) if b != a else "."])
            parts.append({"site": name, "network": a, "twin": b})
    lines = ["sum of", *("  " + line for line in table(["site", "network", "twin", "difference"], rows))]
    if site == stage.name:
        steps = ", ".join(" ".join(map(str, step)) for step in stage.requant.steps)
        lines.append(f"then     {steps}   ({stage.requant.name})")
    worst = max(parts, key=lambda p: abs(p["twin"] - p["network"]), default=None)
    if worst is not None and worst["twin"] != worst["network"]:
        lines.append(f"next     at('{worst['site']}', {y}, {x}, channel={channel}, sample={plane})")
    return lines, {"parts": parts}
