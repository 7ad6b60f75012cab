"""A plan of lookup tables as canonical layers, every recording site a value under its own name."""

from __future__ import annotations

from collections.abc import Callable

from twinnet.layers.graph import Graph, Layer
from twinnet.lut.plan import INPUT, Plan, Stage, Table, Term
from twinnet.lut.variants import Lookup, Place, Requantise, Sum
from twinnet.tables import kinds as _registered  # noqa: F401 - evaluated by these

__all__ = ["Tabulate", "read_plan"]

Tabulate = Callable[[str, int], Table]


def read_plan(plan: Plan, image: str = "image", *, slack: int = 0, tabulate: Tabulate | None = None) -> Graph:
    """The layers of a plan from the graph input `image` (floats in [0, 1] or uint8) to the last stage.

    `slack` is by how many units an entry may be off; `tabulate(table, last)` makes a table with another last node.

    >>> from twinnet.lut import export, lower
    >>> from twinnet.restore.nets import srlut
    >>> graph = read_plan(lower(export(srlut.build("V", scale=2, width=4))))
    >>> [layer.kind for layer in graph][:4], graph.outputs
    (['planes', 'stack_planes', 'lookup', 'lookup'], ('stage1',))
    """
    layers = [Layer("planes", (image,), (INPUT,), node=INPUT, op="planes")]
    for stage in plan.stages:
        layers += _stage(plan, stage, slack, tabulate)
    return Graph(tuple(layers), (image,), (plan.stages[-1].name,))


def _stage(plan: Plan, stage: Stage, slack: int, tabulate: Tabulate | None) -> list[Layer]:
    layers: list[Layer] = []
    sums: list[str] = []
    for group in stage.groups:
        terms = [term for term in stage.terms if term.group == group]
        prefix = f"{stage.name}.{group}" if group else stage.name
        layers += _inputs(prefix, terms)
        parts: list[tuple[str, int]] = []
        for term in terms:
            found = _lookups(plan, stage, term, slack, tabulate)
            layers += found
            denominator = term.denominator(plan.tables[term.table])
            parts += [(layer.outputs[0], denominator) for layer in found if layer.kind == "place"]
        target = prefix if group else f"{stage.name}.sum"
        step = Sum(tuple(d for _, d in parts), stage.denominator, tuple(n for n, _ in parts))
        layers.append(_layer("sum_lookups", tuple(step.names), target, {"step": step}))
        sums.append(target)
    if len(sums) > 1:
        step = Sum((stage.denominator,) * len(sums), stage.denominator, tuple(sums))
        layers.append(_layer("sum_lookups", tuple(sums), f"{stage.name}.sum", {"step": step}))
        sums = [f"{stage.name}.sum"]
    step = Requantise(stage.requant, stage.denominator)
    layers.append(_layer("requant", (sums[0],), stage.name, {"step": step}))
    return layers


def _inputs(prefix: str, terms: list[Term]) -> list[Layer]:
    """What a group reads, as it is recorded; nothing is computed from it."""
    sets = [("input.x", terms[0].sample.planes)]
    blended = [term.blend for term in terms if term.blend is not None]
    if blended:
        sets.append(("input.prev_x", blended[0].planes))
    layers = []
    for name, planes in sets:
        registers = tuple(dict.fromkeys(p.register for p in planes))
        taken = tuple((registers.index(p.register), p.channel) for p in dict.fromkeys(planes))
        layers.append(_layer("stack_planes", registers, f"{prefix}.{name}", {"planes": taken}))
    return layers


def _lookups(plan: Plan, stage: Stage, term: Term, slack: int, tabulate: Tabulate | None) -> list[Layer]:
    """All rotations of a term, side by side; then their blocks, put in place."""
    lookups, places = [], []
    for r in term.rotations:
        site = f"{stage.name}.{term.name}.rot{r}"
        step = Lookup(term, plan.tables[term.table], stage.cell, r, slack=slack, tabulate=tabulate)
        lookups.append(_layer("lookup", step.registers, f"{site}.sr", {"step": step}))
        place = Place(stage.channels, stage.upscale, r)
        facts = {"step": place, "denominator": step.denominator}
        places.append(_layer("place", (f"{site}.sr",), site, facts))
    return [*lookups, *places]


def _layer(kind: str, inputs: tuple[str, ...], output: str, attrs: dict[str, object]) -> Layer:
    return Layer(kind, inputs, (output,), attrs, node=output, op=kind, module=output.removesuffix(".sr"))
