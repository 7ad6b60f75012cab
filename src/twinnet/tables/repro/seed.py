"""A finding in a lookup-table network: the one step, the rows of its table that matter, and the pixels that show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from twinnet.engines import find_engine, standalone_of
from twinnet.engines.base import Session
from twinnet.errors import EngineError
from twinnet.lut.onnx import PAYLOAD_LAST
from twinnet.lut.plan import INPUT
from twinnet.lut.variants import Lookup
from twinnet.onnx.cut import between, build
from twinnet.pairing import Pair
from twinnet.shrink.seed import Seed
from twinnet.tables.read import read_plan
from twinnet.tables.repro.side import Side, Values, differ, onnx_feeds, onnx_side, rows_needed, steps_side
from twinnet.tables.session import TableSession
from twinnet.tables.view import TableView

if TYPE_CHECKING:
    from twinnet.tables.judge import PlanJudge

__all__ = ["table_seed"]

_WINDOW = 24
_TRIALS = {"steps": 80, "onnx": 24, "stored": 40}
"""How many smaller inputs are tried; an engine loads the model again for each."""


def table_seed(
    base: Seed,
    judge: PlanJudge,
    pair: Pair,
    twin: Session,
    sample: Mapping[str, np.ndarray],
    twin_trace: Mapping[str, np.ndarray],
) -> Seed | None:
    """A seed of a finding: the steps that make it, on the values that the twin itself had before them."""
    tensor = pair.site.tensor
    indices, frontier = judge.segment(tensor)
    layers = [judge.graph.layers[i] for i in indices]
    values = {n: v.numpy() for n, v in judge.values(frontier, sample, twin_trace).items()}
    if layers and layers[0].kind == "planes":
        (image,) = layers[0].inputs
        assert image is not None
        values[INPUT] = judge.planes(values.pop(image))
        layers = layers[1:]
    if not layers or any("step" not in layer.attrs for layer in layers):
        return None
    ours = steps_side(layers)
    theirs = _twin_side(tensor, twin, values)
    observed = np.asarray(pair.transform.to_network(twin_trace[pair.twin_site.tensor]))
    allowed = judge.slack * len([x for x in layers if x.kind == "lookup"]) + 0.25 * judge.unit(tensor)
    plane = _worst_plane(observed, ours.run(values))
    values = {n: v[plane : plane + 1] for n, v in values.items()}
    observed = observed[plane : plane + 1]
    compared: np.ndarray | None = None
    if theirs is not None:
        values = _smallest(values, ours, theirs, allowed)
        found = _tried(theirs, values)
        if found is None or not differ(found, ours.run(values), allowed):
            theirs = None
        else:
            observed = found
    if theirs is None:
        values, observed, compared = _window(values, observed, ours)
        theirs = Side({"kind": "stored"}, (), lambda v: observed, {"observed": observed})
    held = {f"network:{k}": v for k, v in rows_needed(ours, values).items()}
    held |= {f"twin:{k}": v for k, v in rows_needed(theirs, values).items()}
    expected = ours.run(values)
    limit = np.full(expected.shape, allowed)
    if compared is not None:
        held["expected:compared"] = compared
        limit = np.where(compared, allowed, np.inf)
    return replace(
        base,
        kind="table",
        twin=theirs.model,
        inputs=values,
        output=tensor,
        observed=observed,
        expected=expected,
        allowed=limit,
        steps={"network": ours.spec["steps"], "twin": theirs.spec, "allowed": allowed},
        arrays=held,
    )


# ---- sides -----------------------------------------------------------------------------------------------------


def _twin_side(tensor: str, twin: Session, values: Values) -> Side | None:
    """The twin's own steps, where it is a plan; its part of an ONNX model; None where it cannot be run apart."""
    if isinstance(twin, TableSession):
        graph = read_plan(twin.plan)
        indices, frontier = graph.segment([tensor], values)
        if not indices or any(n not in values for n in frontier):
            return None
        return steps_side([graph.layers[i] for i in indices])
    if not isinstance(twin, TableView) or twin.twin.artefact is None or standalone_of(twin.engine) is None:
        return None
    return _onnx_side(tensor, twin, values)


def _onnx_side(site: str, twin: TableView, values: Values) -> Side | None:
    from twinnet.onnx.graph import OnnxGraph

    artefact = twin.twin.artefact
    assert artefact is not None
    graph = OnnxGraph(artefact.model)
    image = next(iter(artefact.inputs.values()))
    target = next((n for n in (f"{site}{PAYLOAD_LAST}", site) if n in graph.producer), None)
    if target is None:
        return None
    names: dict[str, str] = {}
    for name in values:
        found = (
            image
            if name == INPUT
            else next((n for n in (f"{name}{PAYLOAD_LAST}", name) if n in graph.producer), None)
        )
        if found is None or found.endswith(PAYLOAD_LAST):
            return None
        names[found] = name
    scales = twin.scales
    inputs = {tensor: (name, round(1 / scales.get(name, 1.0))) for tensor, name in names.items()}
    try:
        nodes, read = between(graph, [target], set(names))
        if set(read) - set(names):
            return None
        model = build(graph, nodes, onnx_feeds(inputs, values), [target], artefact.network.weights())
    except EngineError:
        return None
    for value in model.graph.input:  # of any size: the input is made smaller later
        for axis, size in enumerate(value.type.tensor_type.shape.dim):
            size.dim_param = f"{value.name}_{axis}"
    spec = {
        "kind": "onnx",
        "file": "twin.onnx",
        "engine": twin.engine,
        "options": dict(find_engine(twin.engine).as_written),
        "inputs": inputs,
        "output": target,
        "payload_last": target.endswith(PAYLOAD_LAST),
        "denominator": round(1 / scales[site]),
    }
    return onnx_side(spec, model)


def _tried(side: Side, values: Values) -> np.ndarray | None:
    try:
        return side.run(values)
    except (EngineError, ValueError, IndexError):  # a crop that is too small for it shows nothing
        return None


# ---- smaller ---------------------------------------------------------------------------------------------------


def _worst_plane(observed: np.ndarray, expected: np.ndarray) -> int:
    if observed.shape != expected.shape:
        return 0
    return int(np.abs(observed - expected).reshape(len(observed), -1).max(axis=1).argmax())


def _smallest(values: Values, ours: Side, theirs: Side, allowed: float) -> Values:
    """Rows and columns cut away from every side while both sides still differ."""
    cell = max(getattr(layer.attrs["step"], "cell", 1) for layer in ours.layers)
    trials = 0

    def shows(made: Values) -> bool:
        nonlocal trials
        trials += 1
        return differ(_tried(theirs, made), _tried(ours, made), allowed)

    def without(axis: int, gone: int, first: bool) -> Values | None:
        """The values without `gone` pixels of the coarsest grid at one end."""
        n = min(v.shape[axis] for v in values.values())
        made = {}
        for name, v in values.items():
            finer, odd = divmod(v.shape[axis], n)
            if odd:
                return None
            cut = slice(gone * finer, None) if first else slice(0, (n - gone) * finer)
            made[name] = np.ascontiguousarray(v[(*[slice(None)] * axis, cut)])
        return made

    def smaller(axis: int) -> Values | None:
        n = min(v.shape[axis] for v in values.values())
        for share in (2, 3, 4, 8, n):
            gone = max(n // share // cell * cell, cell)
            for first in (True, False) if gone < n else ():
                made = without(axis, gone, first)
                if made is not None and shows(made):
                    return made
        return None

    for axis in (2, 3):
        while trials < _TRIALS[theirs.spec["kind"]] and (made := smaller(axis)) is not None:
            values = made
    return values


def _window(values: Values, observed: np.ndarray, ours: Side) -> tuple[Values, np.ndarray, np.ndarray | None]:
    """Pixels around the worst place of a twin that cannot be run; what a cut changes at its edge is not compared."""
    whole = ours.run(values)
    plain = all(isinstance(x.attrs["step"], Lookup) and x.attrs["step"].cell == 1 for x in ours.layers)
    if observed.shape != whole.shape or not plain:
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
