"""Two networks side by side, on one screen and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import fields

from twinnet.report.figures import grouped
from twinnet.report.json_file import plain
from twinnet.report.quoting import screen
from twinnet.report.sentences import counted, words
from twinnet.structure import Change, StructureDiff

__all__ = ["dump_diff", "render_diff"]

_SHOWN = 12


def dump_diff(found: StructureDiff) -> str:
    """The comparison as JSON: every change with its sentence, `code` and `params`."""
    data = {f.name: plain(getattr(found, f.name)) for f in fields(found)}
    data["changes"] = [_change(change) for change in found.changes]
    data["notes"] = [plain(words(note)) for note in found.notes]
    return json.dumps({"same": found.same, **data}, indent=1)


def _change(change: Change) -> dict[str, object]:
    told = {name: getattr(change, name) for name in ("kind", "place", "sentence", "a", "b")}
    return plain({**told, "code": change.fact.code, "params": change.fact.params})


def render_diff(found: StructureDiff) -> str:
    """The comparison on one screen."""
    lines = [
        f"A        {found.a} ({grouped(found.layers_a)} layers, {grouped(found.parameters_a)} parameters)",
        f"B        {found.b} ({grouped(found.layers_b)} layers, {grouped(found.parameters_b)} parameters)",
        "",
    ]
    if found.same:
        lines.append(f"SAME     {counted(found.matched, 'layer')}, attributes, weights, inputs and outputs")
        return screen("\n".join([*lines, *(f"note     {words(note)}" for note in found.notes)]))
    lines.append(
        f"DIFFERENT  {counted(len(found.changes), 'difference')}; {counted(found.matched, 'layer')} in the same place"
    )
    # One screen, whatever differs.
    shown = _SHOWN if len(found.changes) <= 24 else _SHOWN // 3
    for kind in ("input", "output", "replaced", "only in A", "only in B", "attribute", "weight"):
        some = [c for c in found.changes if c.kind == kind]
        if some:
            lines += ["", *_listed(kind, some, shown)]
    return screen("\n".join([*lines, *(f"\nnote     {words(note)}" for note in found.notes)]))


def _listed(kind: str, changes: Sequence[Change], shown: int) -> Iterable[str]:
    titles = {"attribute": "attributes", "weight": "weights", "input": "inputs", "output": "outputs"}
    yield titles.get(kind, kind)
    for change in changes[:shown]:
        yield f"  {change.sentence}"
    if len(changes) > shown:
        yield f"  and {len(changes) - shown} more (--json lists all)"
