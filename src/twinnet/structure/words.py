"""A comparison of two networks in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from twinnet.layers.graph import Layer
from twinnet.report.figures import grouped
from twinnet.structure.change import Change, StructureDiff

__all__ = ["count_of", "dims", "op_of", "place_of", "render"]

_SHOWN = 12


def render(found: StructureDiff) -> str:
    """The comparison on one screen."""
    lines = [
        f"A        {found.a} ({grouped(found.layers_a)} layers, {grouped(found.parameters_a)} parameters)",
        f"B        {found.b} ({grouped(found.layers_b)} layers, {grouped(found.parameters_b)} parameters)",
        "",
    ]
    if found.same:
        lines.append(f"SAME     {count_of(found.matched, 'layer')}, attributes, weights, inputs and outputs")
        return "\n".join([*lines, *(f"note     {note}" for note in found.notes)])
    lines.append(
        f"DIFFERENT  {count_of(len(found.changes), 'difference')}; {count_of(found.matched, 'layer')} in the same place"
    )
    # One screen, whatever differs.
    shown = _SHOWN if len(found.changes) <= 24 else _SHOWN // 3
    for kind in ("input", "output", "replaced", "only in A", "only in B", "attribute", "weight"):
        some = [c for c in found.changes if c.kind == kind]
        if some:
            lines += ["", *_listed(kind, some, shown)]
    return "\n".join([*lines, *(f"\nnote     {note}" for note in found.notes)])


def _listed(kind: str, changes: Sequence[Change], shown: int) -> Iterable[str]:
    titles = {"attribute": "attributes", "weight": "weights", "input": "inputs", "output": "outputs"}
    yield titles.get(kind, kind)
    for change in changes[:shown]:
        yield f"  {change.sentence}"
    if len(changes) > shown:
        yield f"  and {len(changes) - shown} more (--json lists all)"


def place_of(layer: Layer) -> str:
    """Where a layer stands: its module, else its node."""
    return layer.module or layer.node or layer.outputs[0]


def op_of(layer: Layer) -> str:
    """What a layer is, in one word."""
    return layer.kind if layer.kind != "opaque" else layer.op or layer.kind


def count_of(n: int, word: str) -> str:
    """A number of things, in plain characters: these sentences also go into JSON.

    >>> count_of(1, "layer"), count_of(3, "layer")
    ('1 layer', '3 layers')
    """
    return f"{n} {word}" + ("" if n == 1 else "s")


def dims(shape: Sequence[int | str] | None) -> str:
    """A shape as it is written here.

    >>> dims((1, 3, "h")), dims(()), dims(None)
    ('1x3xh', 'scalar', 'any shape')
    """
    return "any shape" if shape is None else "x".join(map(str, shape)) or "scalar"
