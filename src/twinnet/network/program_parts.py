"""Parts of an exported program as modules of their own, cut between values of its graph."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node

__all__ = ["ProgramPart", "ProgramParts", "is_tensor"]


@dataclass(frozen=True)
class ProgramPart:
    """A part: its graph, the weights and constants it reads, and the names of the values it starts from."""

    graph: Graph
    attributes: Mapping[str, Any]
    reads: tuple[str, ...]

    @property
    def module(self) -> GraphModule:
        """The part as a module that takes these values in order, in eval mode: the export has settled that."""
        made = GraphModule(_holder(self.attributes), self.graph)
        made.eval()  # gives a plain Module to the type checker
        return made

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators of the part, in order."""
        return tuple(str(node.target) for node in self.graph.nodes if node.op == "call_function")


class ProgramParts:
    """An exported program that can be cut. `moving` are the nodes that depend on an input."""

    def __init__(self, program: ExportedProgram) -> None:
        self.program = program
        self.nodes: dict[str, Node] = {node.name: node for node in program.graph.nodes}
        signature = program.graph_signature
        held = {**program.state_dict, **program.constants}
        stored = {
            **signature.inputs_to_parameters,
            **signature.inputs_to_buffers,
            **signature.inputs_to_lifted_tensor_constants,
        }
        self.weights = {name: held[target] for name, target in stored.items() if target in held}
        self.moving = self._moving()

    def part(self, outputs: Sequence[str], stops: Callable[[Node], bool]) -> ProgramPart:
        """What makes these values from the tensors where it `stops`, of those that depend on an input."""
        graph, attributes = Graph(), dict[str, Any]()
        copied: dict[Node, Node] = {}
        targets = [self.nodes[n] for n in outputs]
        inner = {*targets, *(n for t in targets if t.target is operator.getitem for n in t.all_input_nodes)}

        def starts(node: Node) -> bool:
            given = node.op == "placeholder" or stops(node)
            return node in self.moving and node not in inner and is_tensor(node) and given

        order = self._needed(targets, starts)
        start = [n for n in order if starts(n)]
        for node in start:
            copied[node] = graph.placeholder(node.name)
        for node in order:
            if node in copied:
                continue
            if node.op == "placeholder":
                attributes[node.name] = self.weights[node.name]
                copied[node] = graph.get_attr(node.name)
            elif node.op == "get_attr":
                attributes[str(node.target)] = getattr(self.program.graph_module, str(node.target))
                copied[node] = graph.get_attr(str(node.target))
            else:
                copied[node] = graph.node_copy(node, copied.__getitem__)
        results = tuple(copied[t] for t in targets)
        graph.output(results[0] if len(results) == 1 else results)
        return ProgramPart(graph, attributes, tuple(node.name for node in start))

    def _needed(self, targets: Sequence[Node], starts: Callable[[Node], bool]) -> list[Node]:
        """The nodes of a part and what it reads, in the order of the graph."""
        found: set[Node] = set()
        stack = list(targets)
        while stack:
            node = stack.pop()
            if node in found:
                continue
            found.add(node)
            if not starts(node):
                stack.extend(node.all_input_nodes)
        return [node for node in self.program.graph.nodes if node in found]

    def _moving(self) -> set[Node]:
        found: set[Node] = set()
        for node in self.program.graph.nodes:
            given = node.op == "placeholder" and node.name not in self.weights
            if (given and is_tensor(node)) or any(n in found for n in node.all_input_nodes):
                found.add(node)
        return found


def is_tensor(node: Node) -> bool:
    """Whether a node of a program makes a tensor."""
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
