"""A finding in a lookup-table network: the one step, the rows of its table that matter, and the pixels that show it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from twinnet.engines._table_view import TableView
from twinnet.errors import EngineError, UsageError
from twinnet.layers.graph import Layer
from twinnet.layers.read_plan import read_plan
from twinnet.lut import plan as plan_page
from twinnet.lut import reference, serial
from twinnet.lut.onnx import PAYLOAD_LAST
from twinnet.lut.plan import INPUT, Plan
from twinnet.lut.variants import Lookup, Place, Requantise, Sum
from twinnet.pairing import Pair
from twinnet.shrink import script, script_tables
from twinnet.shrink.cut import between, build
from twinnet.shrink.folder import Contents
from twinnet.shrink.issue import numbers, write_issue
from twinnet.shrink.seed import Seed
from twinnet.shrink.sides import SIDES
from twinnet.shrink.words import counted, origin_words

if TYPE_CHECKING:
    import onnx

    from twinnet.engines._plan_judge import PlanJudge

__all__ = ["table_repro", "table_seed"]

_WINDOW = 24
_TRIALS = 80
_SOURCES: tuple[Any, ...] = (
    plan_page.Plane, plan_page.Sample, plan_page.Blend, plan_page.Table, plan_page.Term, plan_page.Requant,
    serial._planes, serial._sample, serial._term, reference._turn, reference._outside, reference._pixels,
    reference._fixed_point, reference._values, reference._interpolate, reference._count, reference._dense_rows,
    reference._band_rows, reference._lookup, reference.lookup_term, reference._place, script.beyond, script.report,
    script_tables.table_of, script_tables.evaluated, script_tables.from_file,
)  # fmt: skip
"""What the file is made of: the plan's classes, its interpreter, and the comparison."""

Values = dict[str, np.ndarray]


@dataclass(frozen=True)
class _Side:
    """One side as `repro.py` is told about it, the arrays it needs, and how to run it here."""

    spec: dict[str, Any]
    arrays: dict[str, np.ndarray]
    run: Callable[[Values], np.ndarray]
    model: onnx.ModelProto | None = None


def table_seed(
    base: Seed,
    judge: PlanJudge,
    pair: Pair,
    twin: Any,
    sample: Mapping[str, np.ndarray],
    twin_trace: Mapping[str, np.ndarray],
) -> Seed | None:
    """A seed of a finding that one step makes; None where a whole chain of them does."""
    tensor = pair.site.tensor
    indices, frontier = judge.segment(tensor)
    layers = [judge.graph.layers[i] for i in indices]
    values = {n: v.numpy() for n, v in judge.values(frontier, sample, twin_trace).items()}
    if layers and layers[0].kind == "planes":
        (image,) = layers[0].inputs
        assert image is not None
        values[INPUT] = judge.planes(values.pop(image))
        layers = layers[1:]
    if len(layers) != 1 or "step" not in layers[0].attrs:
        return None
    (layer,) = layers
    ours = _side(layer)
    theirs = _twin_side(layer, pair, twin, values)
    observed = np.asarray(pair.transform.to_network(twin_trace[pair.twin_site.tensor]))
    slack = getattr(layer.attrs["step"], "slack", 0)
    allowed = slack + 0.25 / _denominator(layer)
    plane = _worst_plane(observed, ours.run(values))
    values = {n: v[plane : plane + 1] for n, v in values.items()}
    observed = observed[plane : plane + 1]
    compared: np.ndarray | None = None
    if theirs is not None:
        values = _smallest(values, ours, theirs, allowed, layer)
        found = _tried(theirs, values)
        if found is None or not _differ(found, ours.run(values), allowed):
            theirs = None
        else:
            observed = found
    if theirs is None:
        theirs = _Side({"kind": "stored"}, {"observed": observed}, lambda v: observed)
        values, observed, compared = _window(values, observed, ours, layer)
        theirs = replace(theirs, arrays={"observed": observed})
    held = {f"network:{k}": v for k, v in _rows_needed(layer, values, ours.arrays).items()}
    own = theirs.spec.get("own")
    kept = theirs.arrays if own is None else _rows_needed(own, values, theirs.arrays)
    held |= {f"twin:{k}": v for k, v in kept.items()}
    if compared is not None:
        held["expected:compared"] = compared
    spec = {k: v for k, v in theirs.spec.items() if k != "own"}
    return replace(
        base,
        kind="table",
        twin=theirs.model,
        inputs=values,
        output=tensor,
        observed=observed,
        expected=ours.run(values),
        allowed=np.where(compared, allowed, np.inf) if compared is not None else np.full(observed.shape, allowed),
        steps={"network": ours.spec, "twin": spec, "allowed": allowed},
        arrays=held,
    )


# ---- sides -----------------------------------------------------------------------------------------------------


def _side(layer: Layer) -> _Side:
    step = layer.attrs["step"]
    spec, arrays = _told(layer)

    def run(values: Values) -> np.ndarray:
        if isinstance(step, Lookup):
            return step({n: np.rint(values[n]).astype(np.int64) for n in step.registers})
        return np.asarray(step(*(values[n] for n in layer.inputs if n is not None)))

    return _Side(spec, arrays, run)


def _told(layer: Layer) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A step as plain data and arrays."""
    step: Any = layer.attrs["step"]
    stage = layer.node.partition(".")[0]
    if isinstance(step, Lookup):
        table = step.table
        facts = {k: getattr(table, k) for k in ("axes", "nodes", "step", "last", "near", "width", "thin")}
        rows = {"values": len(table.values)} | ({} if table.coarse is None else {"coarse": len(table.coarse)})
        arrays = {"values": table.values, "coarse": table.coarse, "index": table.index}
        spec = {
            "kind": "lookup",
            "stage": stage,
            "term": _plain(asdict(step.term)),
            "table": {**facts, "rows": rows},
            "cell": step.cell,
            "rotation": step.rotation,
        }
        return spec, {k: v for k, v in arrays.items() if v is not None}
    base = {"stage": stage, "inputs": [n for n in layer.inputs if n is not None]}
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


def _denominator(layer: Layer) -> int:
    step: Any = layer.attrs["step"]
    if isinstance(step, Lookup):
        return step.denominator
    if isinstance(step, Sum):
        return step.total
    return layer.attrs.get("denominator", 1) if isinstance(step, Place) else 1


def _twin_side(layer: Layer, pair: Pair, twin: Any, values: Values) -> _Side | None:
    """The twin's own step, where it is a plan; its part of an ONNX model; None where it cannot be run apart."""
    plan = getattr(twin, "plan", None)
    if isinstance(plan, Plan):
        graph = read_plan(plan)
        at = graph.producer.get(layer.outputs[0])
        if at is None:
            return None
        theirs = graph.layers[at]
        if any(n is not None and n not in values for n in theirs.inputs):
            return None
        side = _side(theirs)
        return replace(side, spec={**side.spec, "own": theirs})
    if isinstance(twin, TableView) and twin.twin.artefact is not None and twin.engine in SIDES:
        return _onnx_side(layer, twin, values)
    return None


def _onnx_side(layer: Layer, twin: TableView, values: Values) -> _Side | None:
    from twinnet.engines._onnx_graph import OnnxGraph

    artefact = twin.twin.artefact
    assert artefact is not None
    graph = OnnxGraph(artefact.model)
    image = next(iter(artefact.inputs.values()))
    site = layer.outputs[0]
    target = next((n for n in (f"{site}{PAYLOAD_LAST}", site) if n in graph.producer), None)
    if target is None:
        return None
    names: dict[str, str] = {}
    for name in values:
        found = image if name == INPUT else next(
            (n for n in (f"{name}{PAYLOAD_LAST}", name) if n in graph.producer), None
        )
        if found is None or found.endswith(PAYLOAD_LAST):
            return None
        names[found] = name
    scales = twin.scales

    def feeds(given: Values) -> Values:
        made = {}
        for tensor, name in names.items():
            whole = np.rint(given[name] / scales.get(name, 1.0)).astype(np.int64)
            made[tensor] = whole[:, 0].astype(np.uint8) if name == INPUT else whole
        return made

    try:
        nodes, read = between(graph, [target], set(names))
        if set(read) - set(names):
            return None
        model = build(graph, nodes, feeds(values), [target], artefact.network.weights())
    except EngineError:
        return None
    for value in model.graph.input:  # of any size: the input is made smaller later
        for axis, size in enumerate(value.type.tensor_type.shape.dim):
            size.dim_param = f"{value.name}_{axis}"
    last = target.endswith(PAYLOAD_LAST)
    denominator = round(1 / scales[site])
    spec = {
        "kind": "onnx",
        "file": "twin.onnx",
        "engine": twin.engine,
        "options": {"opt": "off"} if twin.engine == "onnxruntime" else {},
        "inputs": names,
        "output": target,
        "payload_last": last,
        "denominator": denominator,
    }
    content = model.SerializeToString()

    def run(given: Values) -> np.ndarray:
        found = np.asarray(SIDES[twin.engine](content, spec["options"], feeds(given))[target])
        return (found.transpose(0, 3, 1, 2) if last else found) * (1.0 / denominator)

    return _Side(spec, {}, run, model)


def _tried(side: _Side, values: Values) -> np.ndarray | None:
    try:
        return side.run(values)
    except Exception:  # a part that cannot run shows nothing
        return None


# ---- smaller ---------------------------------------------------------------------------------------------------


def _differ(a: np.ndarray | None, b: np.ndarray | None, allowed: float) -> bool:
    if a is None or b is None:
        return False
    return a.shape != b.shape or bool((np.abs(a - b) > allowed).any())


def _worst_plane(observed: np.ndarray, expected: np.ndarray) -> int:
    if observed.shape != expected.shape:
        return 0
    return int(np.abs(observed - expected).reshape(len(observed), -1).max(axis=1).argmax())


def _smallest(values: Values, ours: _Side, theirs: _Side, allowed: float, layer: Layer) -> Values:
    """Rows and columns cut away from every side while both sides still differ."""
    cell = getattr(layer.attrs["step"], "cell", 1)
    trials = 0

    def shows(made: Values) -> bool:
        nonlocal trials
        trials += 1
        return _differ(_tried(theirs, made), _tried(ours, made), allowed)

    for axis in (2, 3):
        while trials < _TRIALS:
            n = min(v.shape[axis] for v in values.values())
            smaller = None
            for share in (2, 3, 4, 8, n):
                gone = max(n // share // cell * cell, cell)
                if n - gone < 1 or any(v.shape[axis] != n for v in values.values()):
                    continue
                for cut in (slice(gone, None), slice(0, n - gone)):
                    index = (*[slice(None)] * axis, cut)
                    made = {k: np.ascontiguousarray(v[index]) for k, v in values.items()}
                    if shows(made):
                        smaller = made
                        break
                if smaller is not None:
                    break
            if smaller is None:
                break
            values = smaller
    return values


def _window(
    values: Values, observed: np.ndarray, ours: _Side, layer: Layer
) -> tuple[Values, np.ndarray, np.ndarray | None]:
    """Pixels around the worst place of a twin that cannot be run; what a cut changes at its edge is not compared."""
    whole = ours.run(values)
    if observed.shape != whole.shape or not isinstance(layer.attrs["step"], Lookup) or layer.attrs["step"].cell != 1:
        return values, observed, None
    worst = np.unravel_index(int(np.abs(observed - whole).argmax()), whole.shape)
    cuts = []
    for at, n in zip(worst[2:], whole.shape[2:], strict=True):
        start = max(0, min(int(at) - _WINDOW // 2, n - _WINDOW))
        cuts.append(slice(start, min(start + _WINDOW, n)))
    index = (slice(None), slice(None), *cuts)
    cut = {k: np.ascontiguousarray(v[index]) for k, v in values.items()}
    expected = whole[index]
    compared = ours.run(cut) == expected
    if not (np.abs(observed[index] - expected)[compared] > 0).any():
        return values, observed, None
    return cut, np.ascontiguousarray(observed[index]), compared


def _rows_needed(layer: Layer, values: Values, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Only the rows of a table that are read here."""
    step = layer.attrs["step"]
    if not isinstance(step, Lookup):
        return dict(arrays)
    registers = {n: np.rint(values[n]).astype(np.int64) for n in step.registers}
    read: dict[bool, np.ndarray] = {}
    for walk in step.walks(step.values(registers)):
        read[walk.coarse] = np.unique(walk.rows[(walk.weights > 0) & (walk.rows >= 0)])
    kept = {k: v for k, v in arrays.items() if k == "index"}
    for part, coarse in (("values", False), ("coarse", True)):
        if part in arrays:
            rows = read.get(coarse, np.zeros(0, np.int64))
            # An interpreter may look at a row without weight; row 0 is there for that.
            kept[f"{part}_rows"] = rows
            kept[part] = arrays[part][rows]
    return kept


# ---- the folder ------------------------------------------------------------------------------------------------


def table_repro(seed: Seed, confidential: bool) -> tuple[dict[str, Any], Contents]:
    """The folder of a finding in a table network."""
    if confidential:
        raise UsageError(
            "a table repro holds entries of your table and pixels of your image, and the fault needs them",
            hint="leave out --confidential and look at what the folder holds before you pass it on",
        )
    assert seed.observed is not None and seed.expected is not None and seed.allowed is not None
    network, twin = seed.steps["network"], seed.steps["twin"]
    keys = {name: f"in{i}" for i, name in enumerate(seed.inputs)}
    spec: dict[str, Any] = {"network": network, "twin": dict(twin), "inputs": keys, "allowed": seed.steps["allowed"]}
    engines: list[str] = []
    if "file" in twin:
        spec["twin"]["inputs"] = {
            tensor: (keys[name], "uint8" if name == INPUT else "int64", _fed_shape(seed, name))
            for tensor, name in twin["inputs"].items()
        }
        engines.append(twin["engine"])
    arrays: dict[str, dict[str, np.ndarray]] = {}
    for key, array in seed.arrays.items():
        side, _, name = key.partition(":")
        arrays.setdefault(f"{side}.npz", {})[name] = array
    rows = len(seed.arrays.get("network:values", ()))
    pixels = sum(a.size for a in seed.inputs.values())
    what = {"lookup": "one lookup", "place": "one block", "sum": "one sum", "requant": "one requantisation"}
    size = f"{what[network['kind']]}, {counted(pixels, 'pixel' if network['kind'] == 'lookup' else 'value')}"
    size += f", {counted(rows, 'row')} of the table" if rows else ""
    where = seed.place.label or seed.place.tensor
    title = f"{where}: the twin's table network computes other values"
    said = f"From the same values, `{seed.place.tensor}` differs" + (f": {seed.cause}." if seed.cause else ".")
    how = {
        "stored": f"stored values of {seed.twin_side} (twin.npz)",
        "onnx": f"`twin.onnx` under {seed.twin_side}",
    }.get(twin["kind"], "the twin's own table and step (twin.npz), evaluated by the same lines of numpy")
    about = (
        f"It computes {size}, twice, from the values in inputs.npz (as the twin itself had them): as the network's tables "
        f"have it (network.npz) and as the twin has it: {how.replace('`', '')}. A lookup-table network is plain integer "
        "arithmetic, so both sides must agree in every number. "
    )
    if twin["kind"] == "stored":
        about += "To test a new version of the twin, put what it now gives there into twin.npz (key 'observed')."
    elif "file" not in twin:
        about += "To test a new file of tables: python repro.py NEW.lut.safetensors"
    sections = [
        ("Expected and observed", numbers(seed.observed, seed.expected, seed.allowed)),
        ("The two sides", f"- network: its own table, rows that matter here, in `network.npz`\n- twin: {how}"),
        ("The step", _step_words(network)),
        ("Where it comes from", origin_words(seed)),
    ]
    sides = [s for s in (seed.twin_side,) if s.engine]
    # Values are whole numbers in pixel units where a table looks up; 8 bit hold them.
    inputs = {
        keys[n]: np.rint(a).astype(np.uint8) if network["kind"] == "lookup" else a for n, a in seed.inputs.items()
    }
    contents = Contents(
        title,
        write_issue(title, f"{said}\n\n{size[0].upper()}{size[1:]} show it.", sides, sections),
        spec,
        script_tables.compare_tables,
        about,
        inputs,
        None,
        seed.twin,
        arrays,
        engines,
        _SOURCES,
    )
    return {"sentence": size, "nodes": 1, "elements": pixels}, contents


def _fed_shape(seed: Seed, name: str) -> tuple[int, ...]:
    planes, channels, rows, columns = seed.inputs[name].shape
    return (planes, rows, columns) if name == INPUT else (planes, channels, rows, columns)


def _step_words(step: dict[str, Any]) -> str:
    if step["kind"] != "lookup":
        return ", ".join(f"{k} {v}" for k, v in step.items() if k not in ("kind", "inputs"))
    term, table = step["term"], step["table"]
    taps = " ".join(f"({y},{x})" for y, x in term["sample"]["offsets"])
    learned = " with learned weights" if term["sample"]["weights"] else ""
    return (
        f"Table `{term['table']}`: {table['axes']} axes of {table['nodes']} nodes, {table['step']} apart, "
        f"{term['interpolation']} interpolation, taps {taps}{learned}, {term['sample']['padding']} padding, "
        f"rotation {step['rotation']}."
    )
