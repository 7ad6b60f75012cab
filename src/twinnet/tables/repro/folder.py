"""The folder of a finding in a lookup-table network: one file of numpy that evaluates the steps on both sides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from twinnet.errors import UsageError
from twinnet.lut.plan import INPUT
from twinnet.lut.standalone import SOURCES
from twinnet.report.quoting import code_span, prose
from twinnet.report.sentences import counted
from twinnet.shrink import script as comparison
from twinnet.shrink.folder import Contents
from twinnet.shrink.issue import numbers, write_issue
from twinnet.shrink.seed import Seed
from twinnet.shrink.words import origin_words
from twinnet.tables.repro import script

__all__ = ["table_repro"]

Progress = Callable[[str, float | None], None]

_SOURCES = (
    *SOURCES,
    *(comparison.beyond, comparison.report),
    *(script.table_of, script.one_step, script.evaluated, script.from_file),
)
"""What the file is made of: the plan's classes, its interpreter, and the comparison."""


def table_repro(seed: Seed, confidential: bool, progress: Progress) -> tuple[dict[str, Any], Contents]:
    """The folder of a finding in a table network. It cannot be made confidential: it holds rows of the tables."""
    if confidential:
        raise UsageError(
            "--confidential is not available for networks of lookup tables",
            hint="leave out --confidential; the folder holds only the rows of the tables and the pixels that show the "
            "fault: look at them before you pass it on",
        )
    assert seed.observed is not None and seed.expected is not None and seed.allowed is not None
    network, twin = seed.steps["network"], seed.steps["twin"]
    keys = {name: f"in{i}" for i, name in enumerate(seed.inputs)}
    spec: dict[str, Any] = {
        "network": network,
        "twin": dict(twin),
        "inputs": keys,
        "allowed": seed.steps["allowed"],
    }
    engines: list[str] = []
    if "file" in twin:
        spec["twin"]["inputs"] = {
            tensor: (keys[name], unit, "uint8" if name == INPUT else "int64", _fed_shape(seed, name))
            for tensor, (name, unit) in twin["inputs"].items()
        }
        engines.append(twin["engine"])
    arrays: dict[str, dict[str, np.ndarray]] = {}
    for key, array in seed.arrays.items():
        side, _, name = key.partition(":")
        arrays.setdefault(f"{side}.npz", {})[name] = array
    rows = sum(
        len(a)
        for n, a in seed.arrays.items()
        if n.startswith("network:") and n.endswith((".values", ".coarse"))
    )
    elements = sum(a.size for a in seed.inputs.values())
    lookups = [s for s in network if s["kind"] == "lookup"]
    whole = set(seed.inputs) <= {name for s in lookups for name in s["inputs"]}
    what = {"lookup": "one lookup", "place": "one block", "sum": "one sum", "requant": "one requantisation"}
    size = what[network[0]["kind"]] if len(network) == 1 else counted(len(network), "step")
    size += f", {counted(elements, 'pixel' if whole else 'value')}"
    size += f", {counted(rows, 'row')} of {'the table' if len(lookups) == 1 else 'tables'}" if rows else ""
    where = seed.place.label or seed.place.tensor
    title = f"{where}: the twin's table network computes other values"
    said = f"From the same values, {code_span(seed.place.tensor)} differs" + (
        f": {prose(seed.cause)}." if seed.cause else "."
    )
    how = {
        "stored": f"stored values of {seed.twin_side} (twin.npz)",
        "onnx": f"twin.onnx under {seed.twin_side}",
    }.get(twin["kind"], "the twin's own table and step (twin.npz), evaluated by the same lines of numpy")
    about = (
        f"It computes {size}, twice, from the values in inputs.npz (as the twin itself had them): as the network's "
        f"tables have it (network.npz) and as the twin has it: {how}. A lookup-table network is plain "
        "integer arithmetic, so both sides must agree in every number. "
    )
    if twin["kind"] == "stored":
        about += (
            "To test a new version of the twin, put what it now gives there into twin.npz (key 'observed')."
        )
    elif "file" not in twin:
        about += "To test a new file of tables: python repro.py NEW.lut.safetensors"
    sections = [
        ("Expected and observed", numbers(seed.observed, seed.expected, seed.allowed)),
        (
            "The two sides",
            f"- network: its own table, rows that matter here, in `network.npz`\n- twin: {prose(how)}",
        ),
        (
            "The steps",
            "\n".join(f"- {code_span(s['output'])}: {prose(_step_words(s))}" for s in network[:12]),
        ),
        ("Where it comes from", origin_words(seed)),
    ]
    sides = [s for s in (seed.twin_side,) if s.engine]
    # Registers hold 8-bit pixels; what was summed has fractions.
    inputs = {keys[n]: a.astype(np.uint8) if _is_pixels(a) else a for n, a in seed.inputs.items()}
    contents = Contents(
        title,
        write_issue(title, f"{said}\n\n{size[0].upper()}{size[1:]} show it.", sides, sections),
        spec,
        script.compare_tables,
        about,
        inputs,
        None,
        seed.twin,
        arrays,
        engines,
        sources=_SOURCES,
    )
    return {"sentence": size, "nodes": len(network), "elements": elements}, contents


def _is_pixels(values: np.ndarray) -> bool:
    return bool(
        (np.rint(values) == values).all() and values.min(initial=0) >= 0 and values.max(initial=0) <= 255
    )


def _fed_shape(seed: Seed, name: str) -> tuple[int, ...]:
    planes, channels, rows, columns = seed.inputs[name].shape
    return (planes, rows, columns) if name == INPUT else (planes, channels, rows, columns)


def _step_words(step: dict[str, Any]) -> str:
    if step["kind"] != "lookup":
        facts = {k: v for k, v in step.items() if k not in ("kind", "inputs", "output", "stage")}
        return f"{step['kind']}: " + ", ".join(f"{k} {v}" for k, v in facts.items())
    term, table = step["term"], step["table"]
    taps = " ".join(f"({y},{x})" for y, x in term["sample"]["offsets"])
    learned = " with learned weights" if term["sample"]["weights"] else ""
    return (
        f"Table `{term['table']}`: {table['axes']} axes of {table['nodes']} nodes, {table['step']} apart, "
        f"{term['interpolation']} interpolation, taps {taps}{learned}, {term['sample']['padding']} padding, "
        f"rotation {step['rotation']}."
    )
