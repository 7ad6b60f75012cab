"""Quantise networks with ONNX Runtime's tools: static, dynamic and weight-only int8, and float16.

Works around problems of those tools: stale shapes of rewritten weights, names given twice, infinities from masks in
calibrated ranges, printed messages, leftover files.
"""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twinnet.engines._ort_session import make_session
from twinnet.errors import UsageError, foreign
from twinnet.job import Job
from twinnet.scratch import scratch_folder

if TYPE_CHECKING:
    import onnx

    from twinnet.onnx.export import OnnxArtefact

__all__ = ["CALIBRATIONS", "FORMATS", "TYPES", "WAYS", "Quantise", "quantised"]

WAYS = ("static", "dynamic", "weights", "float16")
TYPES = {"uint8": "QUInt8", "int8": "QInt8", "uint16": "QUInt16", "int16": "QInt16"}
CALIBRATIONS = {
    "minmax": "MinMax",
    "entropy": "Entropy",
    "percentile": "Percentile",
    "distribution": "Distribution",
}
FORMATS = {"qdq": "QDQ", "qoperator": "QOperator"}
_WEIGHTED = ("Conv", "ConvTranspose", "MatMul", "Gemm")
_BIASED = ("Conv", "ConvTranspose", "Gemm", "InstanceNormalization", "LayerNormalization")
_TASK = ("quantise the network", "onnxruntime")
_HUGE = 1e30
"""A larger number is a mask, not an activation: no range of 256 steps can hold it together with others."""


_MEANS = {
    "static": ("per_channel", "activations", "weights", "calibrate", "reduce_range", "format"),
    "dynamic": ("per_channel", "weights", "reduce_range"),
    "weights": ("per_channel", "weights"),
}
"""The options of each way of quantising."""


@dataclass(frozen=True, slots=True)
class Quantise:
    """How a network is quantised; the fields are options of the engine."""

    how: str
    per_channel: bool = False
    activations: str = "uint8"
    weights: str = "int8"
    calibrate: str = "minmax"
    reduce_range: bool = False
    format: str = "qdq"

    @staticmethod
    def of(options: Mapping[str, Any]) -> Quantise | None:
        """Read an engine's options; None without quantisation. Options that would have no effect are refused."""
        how = options.get("quantize")
        given = {key: options[key] for key in _MEANS["static"] if key in options}
        idle = sorted(set(given) - set(_MEANS.get(how or "", ())))
        if idle:
            where = f"quantize={how}" if how else "a network that is not quantised"
            homes = [name for name, keys in _MEANS.items() if idle[0] in keys]
            raise UsageError(
                f"onnxruntime: {idle[0]}={options[idle[0]]} has no effect on {where}",
                hint=f"it belongs to quantize={' or '.join(homes)}",
            )
        return None if how is None else Quantise(how, **given)

    @property
    def precision(self) -> str:
        """The number format of the twin."""
        if self.how == "float16":
            return "float16"
        return "int16" if "16" in self.weights and "16" in self.activations else "int8"


def quantised(artefact: OnnxArtefact, way: Quantise, job: Job) -> OnnxArtefact:
    """Quantise the network, calibrated with the inputs of the check; value names are kept."""
    from twinnet.onnx.network import OnnxNetwork

    model = artefact.network.complete()
    # The tools change shapes of weights, but trust the old ones declared here.
    del model.graph.value_info[:]
    with (
        job.step("quantise"),
        _quiet(),
        scratch_folder("quantise") as folder,
    ):
        made = _MAKERS[way.how](model, way, artefact, job, Path(folder))
    return replace(artefact, network=OnnxNetwork(made, name=artefact.network.name))


def _by_tools(
    model: onnx.ModelProto, way: Quantise, artefact: OnnxArtefact, job: Job, folder: Path
) -> onnx.ModelProto:
    """Static or dynamic quantisation of whole operators."""
    import onnx
    from onnxruntime import quantization as tools

    source, target = folder / "float.onnx", folder / "quantised.onnx"
    _name_nodes(model)
    _own_biases(model)
    onnx.save(model, str(source))
    common: dict[str, Any] = {"per_channel": way.per_channel, "reduce_range": way.reduce_range}
    if way.how == "dynamic":
        # ONNX Runtime has no ConvInteger of signed weights.
        kind = "uint8" if any(n.op_type == "Conv" for n in model.graph.node) else way.weights
        with foreign(*_TASK):
            tools.quantize_dynamic(source, target, weight_type=tools.QuantType[TYPES[kind]], **common)
        return onnx.load(str(target))
    samples = [artefact.feeds(sample) for sample in job.samples or (job.inputs,)]
    left = iter(samples)

    class Reader(tools.CalibrationDataReader):
        def get_next(self) -> Any:
            return next(left, None)

    unbounded = _unbounded(model, samples)
    with foreign(*_TASK):
        tools.quantize_static(
            source,
            target,
            Reader(),
            quant_format=tools.QuantFormat[FORMATS[way.format]],
            activation_type=tools.QuantType[TYPES[way.activations]],
            weight_type=tools.QuantType[TYPES[way.weights]],
            calibrate_method=tools.CalibrationMethod[CALIBRATIONS[way.calibrate]],
            nodes_to_exclude=unbounded,
            **common,
        )
    return onnx.load(str(target))


def _weights_only(
    model: onnx.ModelProto, way: Quantise, artefact: OnnxArtefact, job: Job, folder: Path
) -> onnx.ModelProto:
    """Each weight of a product as a DequantizeLinear of whole numbers; everything else stays."""
    from onnx import helper, numpy_helper

    graph = model.graph
    held = {t.name: t for t in graph.initializer}
    read: dict[str, tuple[str, bool]] = {}
    for node in graph.node:
        if node.op_type in _WEIGHTED and len(node.input) > 1 and node.input[1] in held:
            transposed = any(a.name == "transB" and a.i for a in node.attribute)
            read.setdefault(node.input[1], (node.op_type, transposed))
    made = []
    for name, (op, transposed) in read.items():
        array = numpy_helper.to_array(held[name])
        if array.dtype != np.float32 or array.ndim < 2:
            continue
        axis = 0 if op == "Conv" or transposed else 1 if op in ("ConvTranspose", "Gemm") else array.ndim - 1
        q, scale, zero = _rounded(array, np.dtype(way.weights), axis if way.per_channel else None)
        names = [f"{name}_quantized", f"{name}_scale", f"{name}_zero_point"]
        graph.initializer.remove(held[name])
        graph.initializer.extend(
            numpy_helper.from_array(a, n) for a, n in zip((q, scale, zero), names, strict=True)
        )
        made.append(helper.make_node("DequantizeLinear", names, [name], name=f"{name}_dequantize", axis=axis))
    nodes = [*made, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    del graph.input[:]
    graph.input.extend(i for i in artefact.model.graph.input if i.name not in read)
    return model


def _rounded(
    array: np.ndarray, dtype: np.dtype, axis: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Whole numbers, step and zero point: symmetric for signed types, from the range for others."""
    info = np.iinfo(dtype)
    others = None if axis is None else tuple(i for i in range(array.ndim) if i != axis)
    low, high = np.minimum(array.min(others), 0), np.maximum(array.max(others), 0)
    if info.min < 0:
        scale, zero = np.maximum(-low, high) / info.max, np.zeros_like(low)
    else:
        scale = (high - low) / info.max
        zero = np.round(-low / np.where(scale > 0, scale, 1))
    scale = np.where(scale > 0, scale, 1).astype(np.float32)
    shape = [-1 if i == axis else 1 for i in range(array.ndim)]
    q = np.round(array / scale.reshape(shape)) + zero.reshape(shape)
    return np.clip(q, info.min, info.max).astype(dtype), scale, zero.astype(dtype)


def _half(
    model: onnx.ModelProto, way: Quantise, artefact: OnnxArtefact, job: Job, folder: Path
) -> onnx.ModelProto:
    from onnxruntime.transformers.float16 import convert_float_to_float16

    with foreign(*_TASK):
        made = convert_float_to_float16(model, keep_io_types=True)
    _sort(made)
    return made


_MAKERS = {"static": _by_tools, "dynamic": _by_tools, "weights": _weights_only, "float16": _half}


def _sort(model: onnx.ModelProto) -> None:
    """Sort nodes topologically; the tool appends some at the end."""
    from twinnet.onnx.graph import OnnxGraph

    graph = OnnxGraph(model)
    order: dict[int, None] = {}
    for start in range(len(graph.nodes)):
        stack = [start]
        while stack:
            before = (graph.producer[n] for n in graph.reads[stack[-1]] if n in graph.producer)
            waiting = [i for i in before if i not in order]
            stack.extend(waiting)
            if not waiting:
                order.setdefault(stack.pop())
    nodes = [graph.nodes[i] for i in order]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def _name_nodes(model: onnx.ModelProto) -> None:
    """Give every node a unique name: nodes to exclude are identified by name."""
    taken = {n.name for n in model.graph.node}
    for index, node in enumerate(model.graph.node):
        if not node.name:
            name = f"node_{index}"
            while name in taken:
                name += "_"
            node.name = name
            taken.add(name)


def _own_biases(model: onnx.ModelProto) -> None:
    """Give every node a bias of its own: the tool copies shared ones itself, under names that may be taken."""
    graph = model.graph
    held = {t.name: t for t in graph.initializer}
    taken = {
        *held,
        *(n for node in graph.node for n in (*node.input, *node.output)),
        *(i.name for i in graph.input),
    }
    seen: set[str] = set()
    for node in graph.node:
        if node.op_type not in _BIASED or len(node.input) < 3 or node.input[2] not in held:
            continue
        name = new = node.input[2]
        while name in seen and new in taken:
            new += "_"
        if new != name:
            graph.initializer.add().CopyFrom(held[name])
            graph.initializer[-1].name = node.input[2] = new
            taken.add(new)
        seen.add(name)


def _unbounded(model: onnx.ModelProto, samples: list[dict[str, np.ndarray]]) -> list[str]:
    """Nodes that read or make infinities (masks): no step can hold these, so they stay in floating point."""
    from onnx import numpy_helper

    from twinnet.onnx.graph import OnnxGraph

    graph = OnnxGraph(model)
    tapped = graph.with_outputs(n for node in graph.nodes for n in node.output if n)
    session = make_session(tapped.SerializeToString(), {"level": "off", "threads": None, "entries": {}})
    names = [o.name for o in session.get_outputs()]
    wild: set[str] = set()
    for sample in samples:
        found = zip(names, session.run(names, dict(sample)), strict=True)
        wild.update(name for name, array in found if _is_wild(array))
    wild.update(n for n, t in graph.weights.items() if _is_wild(numpy_helper.to_array(t)))
    return [n.name for n in graph.nodes if wild.intersection((*n.input, *n.output))]


def _is_wild(array: Any) -> bool:
    if not isinstance(array, np.ndarray) or not np.issubdtype(array.dtype, np.floating) or not array.size:
        return False
    return not bool(np.abs(array).max() < _HUGE)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence logging and warnings of the tools; what matters comes as an exception."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
