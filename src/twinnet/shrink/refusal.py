"""The smallest network that an engine still refuses with the same message."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import helper

from twinnet.errors import EngineError, TwinnetError, UsageError
from twinnet.onnx.cut import between, build, set_inputs
from twinnet.onnx.graph import OnnxGraph
from twinnet.onnx.shapes import infer
from twinnet.shrink.ddmin import ddmin
from twinnet.shrink.script import normalised
from twinnet.shrink.seed import Runner, Seed
from twinnet.shrink.trial import allowance, run

__all__ = ["Refusal", "hidden_refusal", "names_of", "smallest_refusal"]


@dataclass
class Refusal:
    """A network, its inputs, and the engine's error message."""

    model: onnx.ModelProto
    feeds: dict[str, np.ndarray]
    message: str
    trials: int = 0


def names_of(model: onnx.ModelProto) -> set[str]:
    """Every name that an engine may quote in a message."""
    graph = model.graph
    named = (graph, *graph.node, *graph.input, *graph.output, *graph.initializer)
    values = {o for n in graph.node for o in (*n.output, *n.input)}
    return ({n.name for n in named} | values) - {""}


@dataclass
class _Bench:
    side: Runner
    names: frozenset[str]
    """Names in the whole network, so that every trial replaces the same words (a value may be called "a")."""
    trials: int = 400
    seconds: float = 0.0
    ran: int = 0
    wanted: str = ""
    open_sizes: bool = False
    """Whether inputs are declared by their rank alone."""
    _start: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.seconds = self.seconds or allowance(self.side.engine)

    def says(self, model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> str:
        """The engine's error message; empty if it runs."""
        try:
            run(self.side, model, feeds)
        except EngineError as error:  # the error is the answer
            said = error.__cause__ or error
            return str(said).strip() or type(said).__name__
        return ""

    def declared(self, model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> onnx.ModelProto:
        """The model with inputs declared by the shapes and types that are fed."""
        copy = set_inputs(deepcopy(model), feeds)
        for value in copy.graph.input if self.open_sizes else ():
            for axis, size in enumerate(value.type.tensor_type.shape.dim):
                size.dim_param = f"{value.name}_{axis}"
        return copy

    def same(self, model: onnx.ModelProto | None, feeds: Mapping[str, np.ndarray]) -> bool:
        if model is None or self.ran >= self.trials or time.monotonic() - self._start > self.seconds:
            return False
        self.ran += 1
        said = self.says(model, feeds)
        return bool(said) and normalised(said, self.names) == self.wanted


def smallest_refusal(seed: Seed) -> Refusal:
    """Remove nodes, then crop the inputs, as long as the engine's message stays the same."""
    assert seed.twin is not None
    bench = _Bench(seed.twin_side, frozenset(names_of(seed.twin)))
    message = bench.says(seed.twin, seed.inputs)
    if not message:
        raise UsageError(
            f"{seed.twin_side} now runs this network: there is nothing to reproduce",
            hint="run the check again",
        )
    bench.wanted = normalised(message, bench.names)
    graph = OnnxGraph(seed.twin)
    values = _values(seed.twin, seed.inputs)

    def part(nodes: Sequence[int]) -> tuple[onnx.ModelProto, dict[str, np.ndarray]] | None:
        made = {o for i in nodes for o in graph.nodes[i].output if o}
        read = {n for i in nodes for n in graph.reads[i]}
        inputs = [n for n in read - made if n not in graph.static]
        outputs = [o for i in nodes for o in graph.nodes[i].output if o and o not in read]
        if not outputs or any(n not in values for n in inputs):
            return None
        feeds = {n: values[n] for n in sorted(inputs)}
        try:
            made = build(graph, between(graph, outputs, set(inputs))[0], feeds, outputs)
        except TwinnetError:
            return None
        # Some engines refuse outputs without a declared type.
        for info in made.graph.output:
            if info.name in values:
                kind = helper.np_dtype_to_tensor_dtype(values[info.name].dtype)
                open_shape = [None] * values[info.name].ndim
                info.CopyFrom(helper.make_tensor_value_info(info.name, kind, open_shape))
        return bench.declared(made, feeds), feeds

    def shows(nodes: Sequence[int]) -> bool:
        made = part(nodes)
        return made is not None and bench.same(*made)

    static = graph.static
    nodes = tuple(i for i, n in enumerate(graph.nodes) if any(o and o not in static for o in n.output))
    model, feeds = seed.twin, dict(seed.inputs)
    whole = part(nodes)
    if whole is not None and not bench.same(*whole):
        # Some engines refuse a network only if its input sizes are symbolic.
        bench.open_sizes = True
        whole = part(nodes)
    if whole is not None and bench.same(*whole):
        smaller = part(ddmin(nodes, shows))
        assert smaller is not None
        model, feeds = smaller
    feeds = _cropped(bench, model, feeds)
    final = bench.declared(model, feeds)
    return Refusal(final, feeds, bench.says(final, feeds), bench.ran)


def _cropped(bench: _Bench, model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Smaller inputs that are refused with the same message although the network can process them."""
    outputs = {o.name for o in model.graph.output} & set(_evaluated(model, feeds))

    def refused(smaller: dict[str, np.ndarray]) -> bool:
        # A weight that no longer fits its input causes a similar message, and rightly so.
        sensible = outputs <= set(_evaluated(model, smaller))
        return sensible and bench.same(bench.declared(model, smaller), smaller)

    for name in feeds:
        for axis in range(feeds[name].ndim):
            n = feeds[name].shape[axis]
            size = 1
            while size < n:
                smaller = {**feeds, name: np.take(feeds[name], range(size), axis)}
                if refused(smaller):
                    feeds = smaller
                    break
                size *= 2
    for name, array in feeds.items():
        zeros = {**feeds, name: np.zeros_like(array)}
        if array.any() and refused(zeros):
            feeds = zeros
    return feeds


def _values(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A tensor for every value: evaluated where the canonical layers allow, else ones of the inferred shape."""
    found = {n: np.asarray(a) for n, a in feeds.items()}
    found.update(_evaluated(model, feeds))
    inferred = infer(set_inputs(deepcopy(model), feeds))
    if inferred is None:  # inference refuses the network: use what was evaluated
        return found
    for info in (*inferred.value_info, *inferred.output):
        tensor = info.type.tensor_type
        if (
            info.name in found
            or not tensor.HasField("shape")
            or tensor.elem_type in (0, onnx.TensorProto.STRING)
        ):
            continue
        dims = [d.dim_value if d.HasField("dim_value") else 0 for d in tensor.shape.dim]
        if all(n > 0 for n in dims):
            dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
            found[info.name] = np.ones(dims, dtype)
    return found


def _evaluated(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    import torch

    from twinnet.layers.evaluate import run as run_layer
    from twinnet.layers.evaluate import wide
    from twinnet.layers.kinds import get
    from twinnet.network.arrays import to_numpy, to_tensor
    from twinnet.onnx.read import read_onnx

    try:
        graph = read_onnx(set_inputs(deepcopy(model), feeds))
    except (TwinnetError, ValueError):
        return {}
    known: dict[str, torch.Tensor] = {n: wide(to_tensor(a)) for n, a in feeds.items()}
    known.update({n: wide(v) for n, v in graph.constants.items() if isinstance(v, torch.Tensor)})
    found: dict[str, np.ndarray] = {}
    for layer in graph:
        if any(n is not None and n not in known for n in layer.inputs):
            continue
        try:
            results = run_layer(
                layer, get(layer.kind), tuple(None if n is None else known[n] for n in layer.inputs)
            )
        except TwinnetError:
            continue
        for name, value in zip(layer.outputs, results, strict=False):
            if name and isinstance(value, torch.Tensor):
                known[name] = value
                dtype = graph.dtypes.get(name, torch.float32 if value.is_floating_point() else value.dtype)
                found[name] = to_numpy(value.to(dtype))
    return found


def hidden_refusal(seed: Seed, found: Refusal) -> tuple[Refusal, tuple[str, ...]]:
    """The refusal with random weights and data and without names, and the tensors that had to keep their values."""
    from twinnet.onnx.cut import weights_of, with_weights
    from twinnet.shrink.confidential import hide_model, is_data, random_like

    known = frozenset(names_of(found.model))
    bench = _Bench(seed.twin_side, known, wanted=normalised(found.message, known))
    model, feeds = found.model, dict(found.feeds)
    generator = np.random.default_rng(0)
    kept: list[str] = []
    for name, array in feeds.items():
        changed = {**feeds, name: random_like(array, generator)}
        if bench.same(model, changed):
            feeds = changed
        else:
            kept.append(name)
    for name, array in weights_of(model).items():
        if not is_data(array):
            continue
        other = with_weights(model, {name: random_like(array, generator)})
        if bench.same(other, feeds):
            model = other
        else:
            kept.append(name)
    names: dict[str, str] = {}
    hidden = hide_model(model, names)
    renamed = {names.get(n, n): a for n, a in feeds.items()}
    again = Refusal(hidden, renamed, bench.says(hidden, renamed), found.trials)
    return again, tuple(names.get(n, n) for n in kept)
