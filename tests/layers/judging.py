"""Judge a real run layer by layer, the way the born test does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime as ort
import torch

from twinnet.layers import Graph, Layer, evaluate_with_error, kinds
from twinnet.onnx.operators._tensors import array_to_torch

UNIT = 2.0**-24
TINY = 2.0**-126


@dataclass(frozen=True)
class Ratio:
    """How far one captured tensor is from its layer's result, in floors."""

    ratio: float
    layer: Layer
    tensor: str


def capture(
    model: onnx.ModelProto, names: list[str], inputs: dict[str, np.ndarray]
) -> dict[str, torch.Tensor]:
    """Tensors of one onnxruntime run without optimisation."""
    tapped = onnx.ModelProto()
    tapped.CopyFrom(model)
    have = {o.name for o in tapped.graph.output}
    tapped.graph.output.extend(onnx.helper.make_empty_tensor_value_info(n) for n in names if n not in have)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(tapped.SerializeToString(), options, providers=["CPUExecutionProvider"])
    wanted = [o.name for o in session.get_outputs()]
    found = dict(zip(wanted, session.run(wanted, inputs)))
    return {n: array_to_torch(v) for n, v in {**inputs, **found}.items()}


def tappable(graph: Graph, model: onnx.ModelProto) -> list[str]:
    """Values that the model knows by that name, not those inside a node that became several layers."""
    made = {name for node in model.graph.node for name in node.output}
    return [n for layer in graph for n in layer.outputs if n in made]


def judge(
    graph: Graph,
    tensors: dict[str, torch.Tensor],
    unit: float = UNIT,
    only: tuple[str, ...] = (),
    tiny: float = TINY,
) -> list[Ratio]:
    """The largest ratio per tensor, worst first, with one level of carry; `only` of some, in their order."""
    carry: dict[str, torch.Tensor | None] = {}
    found: list[Ratio] = []
    for name in only or tensors:
        if name not in graph.producer:
            continue
        known = [n for n in tensors if n != name]
        layers, frontier = graph.segment([name], known)
        layer = graph.layers[graph.producer[name]]
        given = {n: tensors[n] for n in frontier}
        carried = {n: e for n in frontier if (e := carry.get(n)) is not None}
        exact = all(kinds.get(graph.layers[i].kind).exact for i in layers)
        made = [n for n in layer.outputs if n]
        floors = evaluate_with_error(graph, given, carried, unit=unit, layers=layers, keep=made)
        # Moved values carry what their inputs carried, computed ones only their own rounding.
        own = evaluate_with_error(graph, given, {}, unit=unit, layers=layers, keep=[name])
        (value, bound), got = floors[name], tensors[name]
        carry[name] = bound if exact else own[name][1]
        assert tuple(value.shape) == tuple(got.shape), (name, layer)
        if not got.is_floating_point():
            inputs = [_operand(graph, tensors, n) for n in layer.inputs]
            errors = [carry.get(n) if n else None for n in layer.inputs]
            outputs = [floors[n][0] for n in made]
            flips = kinds.get(layer.kind).flips(layer.attrs, inputs, errors, outputs, unit)
            allowed = flips[layer.outputs.index(name)]
            excused = value == got if allowed is None else allowed.excuses(value, got)
            found.append(Ratio(0.0 if bool(excused.all()) else float("inf"), layer, name))
            continue
        assert torch.equal(torch.isfinite(value), torch.isfinite(got)), (name, layer)
        room = value.abs() * unit + tiny
        if bound is not None:
            assert not bool(torch.isnan(bound).any()), (name, layer)
            assert bool((bound >= 0).all()), (name, layer)
            room = room + bound
        off = torch.where(torch.isfinite(value), (got.to(torch.float64) - value).abs() / room, 0.0)
        found.append(Ratio(float(off.max()) if off.numel() else 0.0, layer, name))
    return sorted(found, key=lambda r: -r.ratio)


def _operand(graph: Graph, tensors: dict[str, torch.Tensor], name: str | None) -> torch.Tensor | None:
    if name is None:
        return None
    value = tensors.get(name, graph.constants.get(name))
    return value.to(torch.float64) if value is not None and value.is_floating_point() else value
