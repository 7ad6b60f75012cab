"""Published weights: checkpoints with their own names, and the constants of TFLite files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from twinnet.errors import UsageError

if TYPE_CHECKING:
    from twinnet.tflite.model import Operator, Subgraph

__all__ = ["load_weights"]

_CONVS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")


def load_weights(net: nn.Module, path: str | Path) -> None:
    """Load a .pth, .safetensors or .tflite file into a network; changes `net`.

    Names of a checkpoint are those of `net`, behind any prefix that all of them share. A TFLite file has no names to go
    by: its convolutions are taken in the order they run, and must have the shapes of the network's. There the
    normalisations are already part of the convolutions before them, so they are made to change nothing but the bias.
    Nothing in a file is run.
    """
    source = Path(path)
    if not source.is_file():
        raise UsageError(f"no such file: {source}")
    if source.suffix == ".tflite":
        _from_tflite(net, source)
        return
    if source.suffix == ".safetensors":
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            held: Mapping[str, np.ndarray] = load_file(source)
        except SafetensorError as error:
            raise UsageError(f"{source} is not a readable safetensors file: {error}") from error
    else:
        from twinnet.pth import read_pth

        held = read_pth(source)
    _from_names(net, held, source)


def _from_names(net: nn.Module, held: Mapping[str, np.ndarray], source: Path) -> None:
    own = net.state_dict()
    first = next(iter(own))
    prefix = next((k.removesuffix(first) for k in held if k == first or k.endswith(f".{first}")), "")
    counts = {n for n in own if n.endswith("num_batches_tracked")}
    missing = [n for n in own if prefix + n not in held and n not in counts]
    if missing:
        raise UsageError(
            f"{source} does not hold the weights of {type(net).__name__}: {missing[0]} is missing",
            hint=f"{len(missing)} of {len(own)} names are; it has {len(held)}, such as {next(iter(held))}",
        )
    extra = [n for n in held if n.startswith(prefix) and n.removeprefix(prefix) not in own]
    if extra:
        raise UsageError(f"{source} holds weights that {type(net).__name__} does not have: {extra[0]}")
    for name in own:
        if prefix + name in held:
            _put(own[name], held[prefix + name], f"{name} in {source}")


def _put(target: torch.Tensor, values: np.ndarray, what: str) -> None:
    if tuple(target.shape) != values.shape:
        raise UsageError(
            f"{what} has the shape {'x'.join(map(str, values.shape))}, "
            f"the network's {'x'.join(map(str, target.shape))}"
        )
    with torch.no_grad():
        target.copy_(torch.from_numpy(np.array(values)))


# -- TFLite ----------------------------------------------------------------------------------------------------------


def _from_tflite(net: nn.Module, source: Path) -> None:
    from twinnet.tflite.network import TfliteNetwork

    loaded = TfliteNetwork.load(source)
    graph = loaded.model.main
    if loaded.quantised:
        raise UsageError(f"{source} holds {loaded.quantised} weights", hint="give the float file")
    found = [op for op in graph.operators if op.op in _CONVS]
    layers = list(_layers(net))
    if len(found) != len(layers):
        raise UsageError(
            f"{source} has {len(found)} convolutions, {type(net).__name__} has {len(layers)}",
            hint="is it another network, or another depth?",
        )
    for op, (name, layer, norm) in zip(found, layers, strict=True):
        what = f"{name} in {source}"
        weight, bias = _constants(graph, op, what)
        if op.op == "DEPTHWISE_CONV_2D":
            weight = weight.transpose(3, 0, 1, 2)
        elif op.op == "CONV_2D":
            weight = weight.transpose(0, 3, 1, 2)
        _put(layer.weight, weight, what)
        if norm is not None:
            _only_bias(norm, bias, what)
        elif layer.bias is not None:
            _put(layer.bias, bias, what)
        elif bias.any():
            raise UsageError(f"{what} has a bias, the network's has none")
    for name, module in net.named_modules():
        if isinstance(module, nn.LayerNorm):
            _layer_norm(graph, module, f"{name} in {source}")


def _layers(net: nn.Module) -> Iterator[tuple[str, nn.Conv2d | nn.Linear, nn.BatchNorm2d | None]]:
    """Every layer with weights in the order it runs, with the normalisation that follows it."""
    modules = [
        (n, m) for n, m in net.named_modules() if isinstance(m, nn.Conv2d | nn.Linear | nn.BatchNorm2d)
    ]
    after = [m for _, m in modules[1:]] + [None]
    for (name, module), next_one in zip(modules, after, strict=True):
        if not isinstance(module, nn.BatchNorm2d):
            yield name, module, next_one if isinstance(next_one, nn.BatchNorm2d) else None


def _constants(graph: Subgraph, op: Operator, what: str) -> tuple[np.ndarray, np.ndarray]:
    tensors = [graph.tensors[t] for t in op.inputs[1:] if t >= 0]
    if not tensors or any(t.data is None or t.dtype != "float32" or t.sparse for t in tensors):
        raise UsageError(f"{what}: its weights are not stored as float32")
    weight = tensors[0].array()
    return weight, tensors[1].array() if len(tensors) > 1 else np.zeros(weight.shape[0], np.float32)


def _only_bias(norm: nn.BatchNorm2d, bias: np.ndarray, what: str) -> None:
    mean, variance = norm.running_mean, norm.running_var
    assert mean is not None and variance is not None
    with torch.no_grad():
        norm.weight.fill_(1.0)
        mean.zero_()
        variance.fill_(1.0 - norm.eps)
    _put(norm.bias, bias, what)


def _layer_norm(graph: Subgraph, norm: nn.LayerNorm, what: str) -> None:
    """Its scale and shift: the constants of its shape that something is multiplied by, and that are added."""
    for parameter, op in ((norm.weight, "MUL"), (norm.bias, "ADD")):
        shape = tuple(parameter.shape)
        tensors = (graph.tensors[t] for o in graph.operators if o.op == op for t in o.inputs if t >= 0)
        stored = (t for t in tensors if t.data is not None and t.dtype == "float32")
        fitting = [t for t in stored if (t.shape or ())[-len(shape) :] == shape]
        if len(fitting) != 1:
            raise UsageError(f"{what}: {len(fitting)} constants of an {op} have its shape, not one")
        _put(parameter, fitting[0].array().reshape(shape), what)
