"""Which values of a program from ExecuTorch's tools are which of the network's own graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from twinnet.executorch import Record
from twinnet.site import Site

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

    from twinnet.layers import Graph

__all__ = ["counted_names", "integer_biases", "quantised_names", "same_names"]

_KERNELS = {
    "conv1d": "convolution",
    "conv2d": "convolution",
    "conv3d": "convolution",
    "conv_transpose2d": "convolution",
    "linear": "addmm",
    "batch_norm": "_native_batch_norm_legit_no_training",
    "layer_norm": "native_layer_norm",
    "group_norm": "native_group_norm",
    "silu": "mul",
    "softmax": "_softmax",
    "log_softmax": "_log_softmax",
}
"""The kernel that gives an operator's result, where it is called otherwise."""
_NORMS = ("aten._native_batch_norm_legit_no_training.default", "aten.batch_norm.default")


def quantised_names(ours: ExportedProgram, theirs: ExportedProgram) -> dict[str, str]:
    """Values of a quantised program by those of the network: by name and operator, batch norms folded.

    A convolution that holds the batch norm after it gives that one's result.
    """
    own = {node.name: node for node in ours.graph.nodes}
    kept = {node.name for node in theirs.graph.nodes}
    found: dict[str, str] = {}
    for node in theirs.graph.nodes:
        same = own.get(node.name)
        if (
            same is not None
            and same.op == node.op
            and (node.op != "call_function" or same.target == node.target)
        ):
            found[node.name] = _after_norm(same, kept)
    return found


def _after_norm(node: Node, kept: set[str]) -> str:
    for user in node.users:
        if str(user.target) in _NORMS and user.name not in kept and len(node.users) == 1:
            results = [reader.name for reader in user.users if reader.args[1:] == (0,)]
            return results[0] if results else user.name
    return node.name


def same_names(program: ExportedProgram, record: Record) -> dict[str, str]:
    """Values of a recorded program that the network's own export has too, by name, operator and module."""
    from twinnet.layers.read_fx import read_fx

    own = {name: layer for layer in read_fx(program) for name in layer.outputs}
    nodes = () if record.exported is None else record.exported.nodes
    found: dict[str, str] = {}
    for node in nodes:
        for name in node.outputs:
            layer = own.get(name)
            if layer is not None and layer.op == node.op.split(".")[1] and layer.module == node.module:
                found[name] = name
    return found


def counted_names(program: ExportedProgram, sites: Sequence[Site]) -> dict[str, str]:
    """Values of a program without an ETRecord by those of the network: the first convolution of a shape is the first.

    Lowering keeps the order of operators, so the k-th of a kind and shape is the k-th, if both sides have as many. A
    delegate may run them in another order; then nothing is known.
    """
    from twinnet.layers.read_fx import read_fx

    if any(site.op == "delegate" for site in sites):
        return {}
    graph = read_fx(program)
    ours: dict[tuple[str, int, object], list[str]] = {}
    for layer in graph:
        for index, name in enumerate(layer.outputs):
            if name and not name.startswith(f"{layer.node}."):
                kernel = _KERNELS.get(layer.op, layer.op)
                ours.setdefault((kernel, index, graph.shapes.get(name)), []).append(name)
    theirs: dict[tuple[str, int, object], list[str]] = {}
    for site in sites:
        if site.role != "output":
            theirs.setdefault((site.op, site.index, site.shape), []).append(site.tensor)
    return {
        twin: name
        for key, names in ours.items()
        if len(theirs.get(key, ())) == len(names)
        for name, twin in zip(names, theirs[key])
    }


def integer_biases(graph: Graph) -> Graph:
    """The graph of a quantised program as a delegate runs it: biases are integers, in steps of the products.

    The program itself holds them as floats.
    """
    from dataclasses import replace

    import torch

    from twinnet.layers import Layer

    steps = {layer.outputs[0]: layer for layer in graph if layer.kind == "dequantize_linear"}
    constants = dict(graph.constants)
    layers: list[Layer] = []
    for layer in graph:
        data, weight, bias = (*layer.inputs[:3], None, None, None)[:3]
        held = constants.get(bias or "")
        if layer.kind in ("conv", "linear") and held is not None and data in steps and weight in steps:
            scale = constants[steps[data].inputs[1] or ""] * constants[steps[weight].inputs[1] or ""]
            if scale.numel() in (1, held.numel()):
                name = f"{layer.outputs[0]}.bias"
                constants[f"{name}.integers"] = torch.round(held / scale.reshape(-1)).to(torch.int32)
                constants[f"{name}.scale"] = scale.reshape(-1) if scale.numel() > 1 else scale.reshape(())
                constants[f"{name}.zero"] = torch.zeros_like(constants[f"{name}.scale"], dtype=torch.int32)
                inputs = tuple(f"{name}.{part}" for part in ("integers", "scale", "zero"))
                layers.append(Layer("dequantize_linear", inputs, (name,), {"axis": 0}))
                layer = replace(layer, inputs=(data, weight, name, *layer.inputs[3:]))
        layers.append(layer)
    return replace(graph, layers=tuple(layers), constants=constants)
