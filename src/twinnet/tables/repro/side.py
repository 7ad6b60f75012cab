"""One side of a finding in a lookup-table network: its steps, how `repro.py` is told about them, how they run here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from twinnet.engines import standalone_of
from twinnet.engines.floats import own_floats
from twinnet.errors import foreign
from twinnet.layers.graph import Layer
from twinnet.lut.plan import INPUT
from twinnet.lut.variants import Lookup, Place, Requantise, Sum

if TYPE_CHECKING:
    import onnx

__all__ = ["Side", "Values", "differ", "onnx_feeds", "onnx_side", "rows_needed", "steps_side"]

Values = dict[str, np.ndarray]
"""Registers and sites by name, [planes, channels, rows, columns], in pixel units."""


@dataclass(frozen=True)
class Side:
    """One side as `repro.py` is told about it, the arrays it needs, and how to run it here."""

    spec: dict[str, Any]
    layers: tuple[Layer, ...]
    run: Callable[[Values], np.ndarray]
    arrays: dict[str, np.ndarray]
    model: onnx.ModelProto | None = None


def differ(a: np.ndarray | None, b: np.ndarray | None, allowed: float) -> bool:
    """Whether two results differ by more than is allowed somewhere; a side that could not run counts as equal.

    >>> differ(np.zeros(2), np.array([0.0, 1.0]), 0.5), differ(None, np.zeros(2), 0.5)
    (True, False)
    """
    if a is None or b is None:
        return False
    return a.shape != b.shape or bool((np.abs(a - b) > allowed).any())


# ---- steps -----------------------------------------------------------------------------------------------------


def steps_side(layers: Sequence[Layer]) -> Side:
    """Steps of a plan, one after the other."""

    def run(values: Values) -> np.ndarray:
        known = dict(values)
        for layer in layers:
            step: Any = layer.attrs["step"]
            if isinstance(step, Lookup):
                made = step({n: np.rint(known[n]).astype(np.int64) for n in step.registers})
            else:
                made = np.asarray(step(*(known[n] for n in layer.inputs if n is not None)))
            known[layer.outputs[0]] = made
        return known[layers[-1].outputs[0]]

    arrays: dict[str, np.ndarray] = {}
    steps = []
    for number, layer in enumerate(layers):
        said, own = _told(layer)
        steps.append(said)
        arrays |= {f"{number}.{k}": v for k, v in own.items()}
    return Side({"kind": "steps", "steps": steps}, tuple(layers), run, arrays)


def _told(layer: Layer) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A step as plain data and arrays."""
    step: Any = layer.attrs["step"]
    inputs = [n for n in layer.inputs if n is not None]
    base = {"stage": layer.node.partition(".")[0], "output": layer.outputs[0], "inputs": inputs}
    if isinstance(step, Lookup):
        table = step.table
        facts = {k: getattr(table, k) for k in ("axes", "nodes", "step", "last", "near", "width", "thin")}
        rows = {"values": len(table.values)} | ({} if table.coarse is None else {"coarse": len(table.coarse)})
        arrays = {"values": table.values, "coarse": table.coarse, "index": table.index}
        spec = {
            "kind": "lookup",
            **base,
            "term": _plain(asdict(step.term)),
            "table": {**facts, "rows": rows},
            "cell": step.cell,
            "rotation": step.rotation,
        }
        return spec, {k: v for k, v in arrays.items() if v is not None}
    if isinstance(step, Place):
        facts = {"channels": step.channels, "upscale": step.upscale, "rotation": step.rotation}
        return {"kind": "place", **base, **facts, "denominator": layer.attrs.get("denominator", 1)}, {}
    if isinstance(step, Sum):
        return {"kind": "sum", **base, "denominators": list(step.denominators), "total": step.total}, {}
    assert isinstance(step, Requantise)
    steps = [list(s) for s in step.requant.steps]
    return {"kind": "requant", **base, "steps": steps, "denominator": step.denominator}, {}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, tuple | list) else value


def rows_needed(side: Side, values: Values) -> dict[str, np.ndarray]:
    """The arrays of a side, of every table only the rows that are read here."""
    kept = {k: v for k, v in side.arrays.items() if k.rpartition(".")[2] not in ("values", "coarse")}
    known = dict(values)
    for number, layer in enumerate(side.layers):
        step: Any = layer.attrs["step"]
        if isinstance(step, Lookup):
            registers = {n: np.rint(known[n]).astype(np.int64) for n in step.registers}
            read = {False: np.zeros(0, np.int64), True: np.zeros(0, np.int64)}
            for walk in step.walks(step.values(registers)):
                read[walk.coarse] = np.unique(walk.rows[(walk.weights > 0) & (walk.rows >= 0)])
            for part, coarse in (("values", False), ("coarse", True)):
                if f"{number}.{part}" in side.arrays:
                    kept[f"{number}.{part}_rows"] = read[coarse]
                    kept[f"{number}.{part}"] = side.arrays[f"{number}.{part}"][read[coarse]]
        known[layer.outputs[0]] = steps_side([layer]).run(known)
    return kept


# ---- an ONNX model ---------------------------------------------------------------------------------------------


def onnx_feeds(inputs: Mapping[str, tuple[str, int]], given: Values) -> Values:
    """What the tensors of a model are fed: `inputs` says which value and what its whole numbers are over."""
    made = {}
    for tensor, (name, unit) in inputs.items():
        whole = np.rint(given[name] * unit).astype(np.int64)
        made[tensor] = whole[:, 0].astype(np.uint8) if name == INPUT else whole
    return made


def onnx_side(spec: dict[str, Any], model: onnx.ModelProto) -> Side:
    """A part of an ONNX model under the engine that `spec` names."""
    content, engine = model.SerializeToString(), standalone_of(spec["engine"])
    assert engine is not None

    def run(given: Values) -> np.ndarray:
        feeds = onnx_feeds(spec["inputs"], given)
        with own_floats(), foreign("run the part", spec["engine"]):
            made = engine.run(content, spec["options"], feeds)
        found = np.asarray(made[spec["output"]])
        return (found.transpose(0, 3, 1, 2) if spec["payload_last"] else found) * (1.0 / spec["denominator"])

    return Side(spec, (), run, {}, model)
