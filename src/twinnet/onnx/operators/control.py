"""Control flow: bodies are graphs, evaluated in float64 like everything else."""

from __future__ import annotations

from twinnet.layers.graph import Graph
from twinnet.onnx.graph import captured
from twinnet.onnx.operators._node import Node, op


def body(node: Node, name: str) -> tuple[Graph, list[str]]:
    """A body as a graph, and the names it captures; it already knows the constants."""
    proto = node.get(name)
    graph = node.scope.read_graph(proto, node.scope)
    return graph, [n for n in captured(proto) if n not in node.scope.constants]


@op("If")
def _if(node: Node) -> None:
    then, names_then = body(node, "then_branch")
    orelse, names_else = body(node, "else_branch")
    names = list(dict.fromkeys([*names_then, *names_else]))
    node.emit("if", [node.inputs[0], *names], then=then, orelse=orelse, names=tuple(names))


@op("Loop")
def _loop(node: Node) -> None:
    graph, names = body(node, "body")
    states = max(len(node.inputs) - 2, 0)
    heads = [node.input(0), node.input(1)]
    node.emit("loop", [*heads, *node.inputs[2:], *names], body=graph, states=states, names=tuple(names))
