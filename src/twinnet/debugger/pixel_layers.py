"""Explain one pixel by canonical layers: the values it is computed from."""

from __future__ import annotations

import contextlib
from itertools import product
from typing import Any

import numpy as np

from twinnet.debugger.expected import expected
from twinnet.debugger.figures import number, table
from twinnet.debugger.stopped import Stopped
from twinnet.errors import EngineError, UsageError
from twinnet.layers.graph import Graph, Layer
from twinnet.result import PairResult

__all__ = ["explain_layers"]

Told = tuple[list[str], dict[str, Any]]
_TAPS = 32
_DEEPEST = 6


def explain_layers(stopped: Stopped, row: PairResult, index: tuple[int, ...]) -> Told:
    """Explain an element by its segment's layers, last one first: taps of a convolution, operands of others."""
    plan = None if stopped.held is None else stopped.held.plan
    graph = None if plan is None else plan.graph
    if graph is None or row.site.tensor not in graph.producer:
        return [], {}
    lines: list[str] = []
    data: dict[str, Any] = {"layers": []}
    name: str | None = row.site.tensor
    while name is not None and name in graph.producer and len(data["layers"]) < _DEEPEST:
        layer = graph.layers[graph.producer[name]]
        told = _convolution(stopped, graph, layer, index) or _operands(stopped, graph, layer, index)
        lines += told[0]
        data["layers"].append({"kind": layer.kind, "node": layer.node, **told[1]})
        name = _before(stopped, graph, layer, index)
    with contextlib.suppress(UsageError, EngineError):
        right = float(expected(stopped, row)[index])
        lines.append(f"so       {number(right)} is right, by the network's layers on the twin's own inputs")
        data["expected"] = right
    return lines, data


def _before(stopped: Stopped, graph: Graph, layer: Layer, index: tuple[int, ...]) -> str | None:
    """The value to explain next: the only one the twin does not show, if it has an element at this index."""
    hidden = [
        n for n in layer.inputs if n is not None and n not in graph.constants and n not in stopped.by_tensor
    ]
    if len(hidden) != 1 or layer.kind == "conv" or hidden[0] not in stopped.trace:
        return None
    shape = np.shape(stopped.trace[hidden[0]])
    fits = len(shape) == len(index) and all(i < n for i, n in zip(index, shape))
    return hidden[0] if fits else None


def _sides(stopped: Stopped, name: str) -> tuple[np.ndarray | None, np.ndarray | None]:
    """A value on both sides; None where it was not recorded."""
    seen = stopped.seen
    if name in stopped.by_tensor:
        return stopped.both(stopped.by_tensor[name])
    ours = np.asarray(stopped.trace[name]) if name in stopped.trace else None
    assert seen is not None and stopped.held is not None
    given = {tensor: n for n, tensor in stopped.held.sessions["network"].inputs.items()}
    if name in given and given[name] in seen.sample:
        array = np.asarray(seen.sample[given[name]])
        return array, array
    return ours, None


def _convolution(stopped: Stopped, graph: Graph, layer: Layer, index: tuple[int, ...]) -> Told | None:
    names = [n for n in layer.inputs if n is not None]
    if layer.kind != "conv" or len(index) != 4:
        return None
    weight = graph.constants.get(names[1]) if len(names) > 1 else None
    ours, theirs = _sides(stopped, names[0])
    if weight is None or ours is None or weight.ndim != 4 or ours.ndim != 4:
        return None
    kernel = weight.double().numpy()
    attrs = layer.attrs
    strides, dilations = attrs.get("strides", (1, 1)), attrs.get("dilations", (1, 1))
    pads, groups = attrs.get("pads", (0, 0, 0, 0)), attrs.get("group", 1)
    sample, out, y, x = index
    per_group = kernel.shape[0] // groups
    first = out // per_group * kernel.shape[1]
    rows, taps = [], []
    for c, i, j in product(*map(range, kernel.shape[1:])):
        at = (y * strides[0] + i * dilations[0] - pads[0], x * strides[1] + j * dilations[1] - pads[1])
        inside = 0 <= at[0] < ours.shape[2] and 0 <= at[1] < ours.shape[3]
        spot = (sample, first + c, *at)
        a = float(ours[spot]) if inside else 0.0
        b = None if theirs is None else float(theirs[spot]) if inside else 0.0
        w = float(kernel[out, c, i, j])
        taps.append(
            {"channel": first + c, "at": list(at), "inside": inside, "weight": w, "network": a, "twin": b}
        )
        rows.append(
            [f"[{first + c}, {at[0]}, {at[1]}]", number(w), number(a) if inside else "pad", number(b)]
        )
    total = [sum(t["weight"] * (t[k] or 0.0) for t in taps) for k in ("network", "twin")]
    lines = [
        f"{layer.op or layer.kind} of {names[0]}: kernel {kernel.shape[2]}x{kernel.shape[3]}, pads {pads}"
    ]
    order = sorted(range(len(rows)), key=lambda k: -abs(taps[k]["weight"] * taps[k]["network"]))
    shown = sorted(order[:_TAPS])
    lines += ["  " + line for line in table(["tap", "weight", "network", "twin"], [rows[k] for k in shown])]
    if len(rows) > len(shown):
        lines.append(f"  the {len(shown)} that weigh most of {len(rows)}")
    bias = graph.constants.get(names[2]) if len(names) > 2 else None
    plus = 0.0 if bias is None else float(bias.reshape(-1)[out])
    lines.append(
        f"sum      {number(total[0] + plus)} from the network's values"
        + ("" if theirs is None else f", {number(total[1] + plus)} from the twin's")
        + (f", bias {number(plus)} in it" if bias is not None else "")
    )
    return lines, {"taps": taps, "bias": plus}


def _operands(stopped: Stopped, graph: Graph, layer: Layer, index: tuple[int, ...]) -> Told:
    rows, data = [], []
    for name in dict.fromkeys(n for n in layer.inputs if n is not None):
        if name in graph.constants:
            continue
        ours, theirs = _sides(stopped, name)
        cells = []
        for array in (ours, theirs):
            fits = array is not None and array.ndim == len(index)
            fits = fits and all(i < n or n == 1 for i, n in zip(index, array.shape))  # type: ignore[union-attr]
            if array is None or not fits:
                cells.append(None)
            else:
                cells.append(float(array[tuple(i if i < n else 0 for i, n in zip(index, array.shape))]))
        rows.append([name, number(cells[0]), number(cells[1])])
        data.append({"name": name, "network": cells[0], "twin": cells[1]})
    lines = [f"{layer.op or layer.kind} of"]
    lines += ["  " + line for line in table(["value here", "network", "twin"], rows)]
    return lines, {"operands": data}
