"""The body of a `repro.py` for lookup tables. The source of these functions goes into the file as it stands.

They work with the plan's own classes and its plain interpreter (`twinnet.lut.plan`, `twinnet.lut.reference`), whose
source is put before them: what the file computes is what the plan means.
"""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np

from twinnet.lut.plan import Requant, Table
from twinnet.lut.reference import _place, lookup_term
from twinnet.lut.serial import _term

__all__ = ["compare_tables", "evaluated", "from_file", "table_of"]


def table_of(facts: dict[str, Any], arrays: dict[str, Any]) -> Any:
    """A table of which only the rows that matter here were kept; the others are 0 and are not read."""
    parts: dict[str, Any] = {"index": arrays.get("index"), "coarse": None}
    for part in ("values", "coarse"):
        if part in arrays:
            whole = np.zeros((facts["rows"][part], arrays[part].shape[1]), np.int8)
            whole[arrays[f"{part}_rows"]] = arrays[part]
            parts[part] = whole
    return Table(**{k: v for k, v in facts.items() if k != "rows"}, **parts)


def evaluated(step: dict[str, Any], arrays: dict[str, Any], values: dict[str, Any]) -> Any:
    """One step of a table network, in pixel units: [planes, channels, rows, columns]."""
    if step["kind"] == "lookup":
        term, table = _term(step["term"]), table_of(step["table"], arrays)
        planes = range(len(next(iter(values.values()))))
        whole = {n: v.astype(np.int64) for n, v in values.items()}
        found = [
            lookup_term(term, table, step["cell"], {n: v[p] for n, v in whole.items()}, step["rotation"])
            for p in planes
        ]
        return np.stack(found) * (1.0 / term.denominator(table))
    given = [values[name] for name in step["inputs"]]
    if step["kind"] == "place":
        stage = SimpleNamespace(channels=step["channels"], upscale=step["upscale"])
        unit = step["denominator"]
        placed = [_place(np.rint(v * unit).astype(np.int64), stage, step["rotation"]) for v in given[0]]
        return np.stack(placed) * (1.0 / unit)
    if step["kind"] == "sum":
        total = sum(np.rint(v * d) * (step["total"] // d) for v, d in zip(given, step["denominators"]))
        return total * (1.0 / step["total"])
    whole = np.rint(given[0] * step["denominator"]).astype(np.int64)
    steps = tuple(tuple(s) for s in step["steps"])
    return Requant("", steps)(whole, step["denominator"]).astype(np.float64)


def from_file(path: str, step: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same step out of a `.lut.safetensors` file: how a new set of tables is tested."""
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        data = file.read()
    plan = json.loads(header["__metadata__"]["plan"])
    (stage,) = [s for s in plan["stages"] if s["name"] == step["stage"]]
    if step["kind"] == "requant":
        return {**step, "steps": stage["requant"]["steps"]}, {}
    if step["kind"] != "lookup":
        return step, {}
    (term,) = [t for t in stage["terms"] if t["group"] == step["term"]["group"] and t["branch"] == step["term"]["branch"]]
    facts = plan["tables"][term["table"]]
    kept: dict[str, Any] = {}
    rows = {}
    for part, name in (("values", term["table"]), ("coarse", f"{term['table']}.coarse")):
        if name in header:
            begin, end = header[name]["data_offsets"]
            kept[part] = np.frombuffer(data[begin:end], np.int8).reshape(header[name]["shape"])
            rows[part] = len(kept[part])
            kept[f"{part}_rows"] = np.arange(rows[part])
    index = f"{term['table']}.index"
    if index in header:
        begin, end = header[index]["data_offsets"]
        kept["index"] = np.frombuffer(data[begin:end], np.int32).reshape(header[index]["shape"])
    return {**step, "term": term, "table": {**facts, "rows": rows}, "cell": stage["cell"]}, kept


def compare_tables(spec: dict[str, Any], run: dict[str, Any], here: Any) -> int:
    """Both sides of one step on the same values: 1 while they differ, 0 when they agree, 3 if a side cannot run."""
    import sys

    try:
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
            if twin["kind"] == "stored" or "file" in twin:
                raise ValueError("this twin is no file of tables")
            observed = evaluated(*from_file(sys.argv[1], twin), values)
        elif twin["kind"] == "stored":
            observed = held["twin"]["observed"]
        elif "file" in twin:
            feeds = {
                name: held["inputs"][key].astype(kind).reshape(shape)
                for name, (key, kind, shape) in twin["inputs"].items()
            }
            results = run[twin["engine"]](str(here / twin["file"]), twin["options"], feeds)
            found = np.asarray(results[twin["output"]])
            found = found.transpose(0, 3, 1, 2) if twin["payload_last"] else found
            observed = found * (1.0 / twin["denominator"])
        else:
            observed = evaluated(twin, held.get("twin", {}), values)
        if "compared" in held.get("expected", {}):
            allowed = np.where(held["expected"]["compared"], spec["allowed"], np.inf)
        else:
            allowed = np.full(expected.shape, spec["allowed"])
    except Exception as error:
        print(f"it cannot run: {type(error).__name__}: {error}")
        return 3
    fault = report("twin", observed, expected, allowed)  # noqa: F821 - in the file it stands beside this
    print("the fault exists" if fault else "the fault is gone")
    return 1 if fault else 0
