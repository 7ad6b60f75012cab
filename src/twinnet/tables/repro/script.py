"""The body of a `repro.py` for lookup tables. The source of these functions goes into the file as it stands.

They work with the plan's own classes and its plain interpreter (`twinnet.lut.plan`, `twinnet.lut.reference`), whose
source is put before them: what the file computes is what the plan means.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from twinnet.lut.band import band_index
from twinnet.lut.plan import Requant, Table
from twinnet.lut.reference import lookup_term, place_block
from twinnet.lut.serial import term_from_dict
from twinnet.shrink.script import report

__all__ = ["compare_tables", "evaluated", "from_file", "one_step", "table_of"]


def table_of(facts: dict[str, Any], arrays: dict[str, Any]) -> Any:
    """A table of which only the rows that matter here were kept; the others are 0 and are not read."""
    parts: dict[str, Any] = {"index": arrays.get("index"), "coarse": None}
    for part in ("values", "coarse"):
        if part in arrays:
            whole = np.zeros((facts["rows"][part], arrays[part].shape[1]), np.int8)
            whole[arrays[f"{part}_rows"]] = arrays[part]
            parts[part] = whole
    return Table(**{k: v for k, v in facts.items() if k != "rows"}, **parts)


def evaluated(steps: list[dict[str, Any]], arrays: dict[str, Any], values: dict[str, Any]) -> Any:
    """Steps of a table network one after the other, in pixel units; what the last one gives."""
    known = dict(values)
    for number, step in enumerate(steps):
        own = {k.partition(".")[2]: v for k, v in arrays.items() if k.startswith(f"{number}.")}
        known[step["output"]] = one_step(step, own, known)
    return known[steps[-1]["output"]]


def one_step(step: dict[str, Any], arrays: dict[str, Any], values: dict[str, Any]) -> Any:
    """A lookup, a block put in place, a sum, or a requantisation: [planes, channels, rows, columns]."""
    given = [values[name] for name in step["inputs"]]
    if step["kind"] == "lookup":
        term, table = term_from_dict(step["term"]), table_of(step["table"], arrays)
        whole = {n: np.rint(v).astype(np.int64) for n, v in zip(step["inputs"], given)}
        found = [
            lookup_term(term, table, step["cell"], {n: v[p] for n, v in whole.items()}, step["rotation"])
            for p in range(len(given[0]))
        ]
        return np.stack(found) * (1.0 / term.denominator(table))
    if step["kind"] == "place":
        stage: Any = SimpleNamespace(channels=step["channels"], upscale=step["upscale"])
        unit = step["denominator"]
        placed = [place_block(np.rint(v * unit).astype(np.int64), stage, step["rotation"]) for v in given[0]]
        return np.stack(placed) * (1.0 / unit)
    if step["kind"] == "sum":
        total = sum(np.rint(v * d) * (step["total"] // d) for v, d in zip(given, step["denominators"]))
        return total * (1.0 / step["total"])
    whole = np.rint(given[0] * step["denominator"]).astype(np.int64)
    steps = tuple(tuple(s) for s in step["steps"])
    return Requant("", steps)(whole, step["denominator"]).astype(np.float64)


def from_file(path: str, steps: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The same steps out of a `.lut.safetensors` file: how a new set of tables is tested."""
    with Path(path).open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        data = file.read()
    plan = json.loads(header["__metadata__"]["plan"])
    made, kept = [], {}

    def array(name: str, kind: Any) -> Any:
        begin, end = header[name]["data_offsets"]
        return np.frombuffer(data[begin:end], kind).reshape(header[name]["shape"])

    for number, step in enumerate(steps):
        (stage,) = [s for s in plan["stages"] if s["name"] == step["stage"]]
        if step["kind"] == "requant":
            step = {**step, "steps": stage["requant"]["steps"]}
        elif step["kind"] == "sum":
            sites = {
                ".".join(part for part in (stage["name"], t["group"], t["branch"]) if part) + f".rot{r}"
                for t in stage["terms"]
                for r in t["rotations"]
            }
            there = [".rot" not in name or name in sites for name in step["inputs"]]
            for key in ("inputs", "denominators"):
                step = {**step, key: [v for v, keep in zip(step[key], there) if keep]}
        elif step["kind"] == "lookup":
            own = step["term"]["group"], step["term"]["branch"]
            (term,) = [t for t in stage["terms"] if (t["group"], t["branch"]) == own]
            rows = {}
            for part, name in (("values", term["table"]), ("coarse", f"{term['table']}.coarse")):
                if name in header:
                    kept[f"{number}.{part}"] = array(name, np.int8)
                    rows[part] = len(kept[f"{number}.{part}"])
                    kept[f"{number}.{part}_rows"] = np.arange(rows[part])
            facts = {**plan["tables"][term["table"]], "rows": rows}
            if f"{term['table']}.index" in header:
                kept[f"{number}.index"] = array(f"{term['table']}.index", np.int32)
            elif facts["near"]:
                kept[f"{number}.index"] = band_index(facts["nodes"], facts["near"], facts["width"])
            step = {**step, "term": term, "table": facts, "cell": stage["cell"]}
        made.append(step)
    return made, kept


def compare_tables(spec: dict[str, Any], run: dict[str, Any], here: Any) -> int:
    """Both sides of one step on the same values: 1 while they differ, 0 when they agree, 3 if a side cannot run."""
    import sys

    held = {}
    for name in ("inputs", "network", "twin", "expected"):
        path = here / f"{name}.npz"
        if path.is_file():
            with np.load(path, allow_pickle=False) as data:
                held[name] = {key: data[key] for key in data.files}
    values = {name: held["inputs"][key] for name, key in spec["inputs"].items()}
    expected = evaluated(spec["network"], held.get("network", {}), values)
    twin = spec["twin"]
    if len(sys.argv) > 1:
        if "steps" not in twin:
            raise ValueError("this twin is not a file of tables")
        observed = evaluated(*from_file(sys.argv[1], spec["network"]), values)
    elif twin["kind"] == "stored":
        observed = held["twin"]["observed"]
    elif "file" in twin:
        feeds = {
            name: np.rint(held["inputs"][key] * float(unit)).astype(kind).reshape(shape)
            for name, (key, unit, kind, shape) in twin["inputs"].items()
        }
        results = run[twin["engine"]](str(here / twin["file"]), twin["options"], feeds)
        found = np.asarray(results[twin["output"]])
        found = found.transpose(0, 3, 1, 2) if twin["payload_last"] else found
        observed = found * (1.0 / twin["denominator"])
    else:
        observed = evaluated(twin["steps"], held.get("twin", {}), values)
    if "compared" in held.get("expected", {}):
        allowed = np.where(held["expected"]["compared"], spec["allowed"], np.inf)
    else:
        allowed = np.full(expected.shape, spec["allowed"])
    fault = report("twin", observed, expected, allowed)
    print("the fault exists" if fault else "the fault is gone")
    return 1 if fault else 0
