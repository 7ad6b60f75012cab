"""Layers of PyTorch networks, by the graph that torch.export makes of them."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from twinnet.cache import content_key
from twinnet.cutting import Cut, Layer
from twinnet.errors import EngineError
from twinnet.network import Network
from twinnet.network.arrays import tensor_bytes, to_tensor
from twinnet.network.content import exported_program
from twinnet.network.program_parts import ProgramParts, is_tensor
from twinnet.network.torch_network import TorchNetwork

__all__ = ["ProgramCutter"]


class ProgramCutter:
    """One module or program. A layer is an ATen operator with its weights; parts of a result belong to it."""

    def __init__(self, network: Network, sample: Mapping[str, np.ndarray]) -> None:
        self._parts = ProgramParts(exported_program(network, sample, "taken apart", "FILE.onnx"))

    def layers(self) -> tuple[Layer, ...]:
        found: list[Layer] = []
        moving = self._parts.moving
        for node in self._parts.program.graph.nodes:
            if node.op != "call_function" or node not in moving or node.target is operator.getitem:
                continue
            made = tuple(n.name for n in _results(node) if n.users)
            if made and any(n in moving for n in node.all_input_nodes):
                op = str(getattr(node.target, "__name__", node.target)).partition(".")[0]
                found.append(Layer.numbered(op, len(found), made))
        return tuple(found)

    def cut(self, layer: Layer, values: Mapping[str, np.ndarray], name: str) -> Cut:
        part = self._parts.part(layer.outputs, lambda node: True)
        missing = [n for n in part.reads if n not in values]
        if missing:
            raise EngineError(f"the value of {missing[0]} was not captured", stage="cut")
        if not part.reads:
            raise EngineError("it reads nothing that depends on the inputs", stage="cut")
        fed = {n: np.asarray(values[n]) for n in part.reads}
        identity = _identity(part.graph, part.attributes, fed)
        example = tuple(to_tensor(a).clone() for a in fed.values())
        return Cut(TorchNetwork(part.module, example=example, name=name), [fed], identity)


def _results(node: Node) -> list[Node]:
    """The tensors that an operator makes."""
    if is_tensor(node):
        return [node]
    return [user for user in node.users if user.target is operator.getitem and is_tensor(user)]


def _identity(graph: Graph, attributes: Mapping[str, Any], fed: Mapping[str, np.ndarray]) -> str:
    order = {node: number for number, node in enumerate(graph.nodes)}
    words: list[str | bytes] = [repr([(a.shape, str(a.dtype)) for a in fed.values()])]
    for node in graph.nodes:
        if node.op == "get_attr":
            value = attributes[str(node.target)]
            if isinstance(value, torch.Tensor):
                words += [f"{value.dtype} {tuple(value.shape)}", bytes(tensor_bytes(value))]
            else:
                words.append(repr(value))
        elif node.op == "call_function":
            arguments = map_arg((node.args, node.kwargs), lambda n: f"%{order[n]}")
            words.append(f"{node.target} {arguments!r}")
    return content_key(*words)
