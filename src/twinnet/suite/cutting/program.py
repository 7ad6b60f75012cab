"""Layers of PyTorch networks, by the graph that torch.export makes of them."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from twinnet.cache import content_key
from twinnet.errors import EngineError
from twinnet.network.arrays import tensor_bytes, to_tensor
from twinnet.network.content import exported_program
from twinnet.network.torch_network import TorchNetwork
from twinnet.suite.cutting import Cut, Layer

__all__ = ["ProgramCutter"]


class ProgramCutter:
    """One module or program. A layer is an ATen operator with its weights; parts of a result belong to it."""

    def __init__(self, network: Any, sample: Mapping[str, np.ndarray]) -> None:
        self._program = exported_program(network, sample, "taken apart", "FILE.onnx")
        self._nodes = {node.name: node for node in self._program.graph.nodes}
        signature = self._program.graph_signature
        held = {**self._program.state_dict, **self._program.constants}
        stored = {
            **signature.inputs_to_parameters,
            **signature.inputs_to_buffers,
            **signature.inputs_to_lifted_tensor_constants,
        }
        self._weights = {name: held[target] for name, target in stored.items() if target in held}
        self._moving = _dependent(self._program.graph, self._weights)

    def layers(self) -> tuple[Layer, ...]:
        found: list[Layer] = []
        for node in self._program.graph.nodes:
            if node.op != "call_function" or node not in self._moving or node.target is operator.getitem:
                continue
            made = tuple(n.name for n in _results(node) if n.users)
            if made and _starts(node, self._moving):
                op = str(getattr(node.target, "__name__", node.target)).partition(".")[0]
                found.append(Layer.numbered(op, len(found), made))
        return tuple(found)

    def cut(self, layer: Layer, values: Mapping[str, np.ndarray], name: str) -> Cut:
        graph, attributes = Graph(), dict[str, Any]()
        copied: dict[Node, Node] = {}
        fed: dict[str, np.ndarray] = {}
        targets = [self._nodes[n] for n in layer.outputs]
        inner = {*targets, *(t.args[0] for t in targets if t.target is operator.getitem)}
        order = self._needed(targets, inner)
        start = [n for n in order if n in self._moving and n not in inner and _is_tensor(n)]
        for node in start:
            if node.name not in values:
                raise EngineError(f"the value of {node.name} was not captured", stage="cut")
            fed[node.name] = np.asarray(values[node.name])
            copied[node] = graph.placeholder(node.name)
        if not fed:
            raise EngineError("it reads nothing that depends on the inputs", stage="cut")
        for node in order:
            if node in copied:
                continue
            if node.op == "placeholder":
                attributes[node.name] = self._weights[node.name]
                copied[node] = graph.get_attr(node.name)
            elif node.op == "get_attr":
                attributes[str(node.target)] = getattr(self._program.graph_module, str(node.target))
                copied[node] = graph.get_attr(str(node.target))
            else:
                copied[node] = graph.node_copy(node, copied.__getitem__)
        results = tuple(copied[t] for t in targets)
        graph.output(results[0] if len(results) == 1 else results)
        module = GraphModule(_holder(attributes), graph)
        identity = _identity(graph, attributes, fed)
        example = tuple(to_tensor(a).clone() for a in fed.values())
        return Cut(TorchNetwork(module, example=example, name=name), fed, identity)

    def _needed(self, targets: list[Node], inner: set[Any]) -> list[Node]:
        """The nodes of a layer and what it reads, in the order of the graph."""
        found: set[Node] = set()
        stack = list(targets)
        while stack:
            node = stack.pop()
            if node in found:
                continue
            found.add(node)
            stops = node in self._moving and node not in inner and _is_tensor(node)
            if not stops:
                stack.extend(node.all_input_nodes)
        return [node for node in self._program.graph.nodes if node in found]


def _dependent(graph: Graph, weights: Mapping[str, Any]) -> set[Node]:
    """Nodes whose value depends on an input."""
    found: set[Node] = set()
    for node in graph.nodes:
        given = node.op == "placeholder" and node.name not in weights
        if (given and _is_tensor(node)) or any(n in found for n in node.all_input_nodes):
            found.add(node)
    return found


def _results(node: Node) -> list[Node]:
    """The tensors that an operator makes."""
    if _is_tensor(node):
        return [node]
    return [user for user in node.users if user.target is operator.getitem and _is_tensor(user)]


def _starts(node: Node, moving: set[Node]) -> bool:
    return any(n in moving for n in node.all_input_nodes)


def _is_tensor(node: Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)


def _holder(attributes: Mapping[str, Any]) -> torch.nn.Module:
    module = torch.nn.Module()
    for name, value in attributes.items():
        if isinstance(value, torch.nn.Parameter):
            module.register_parameter(name, torch.nn.Parameter(value.detach(), requires_grad=False))
        elif isinstance(value, torch.Tensor):
            module.register_buffer(name, value.detach())
        else:
            setattr(module, name, value)
    return module


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
