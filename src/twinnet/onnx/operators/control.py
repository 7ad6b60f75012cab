"""Control flow: the bodies are graphs of their own, evaluated in float64 like everything else."""

from __future__ import annotations

import onnx

from twinnet.layers.graph import Graph
from twinnet.onnx.operators._node import Node, op


def captured(graph: onnx.GraphProto) -> list[str]:
    """Names that a body takes from outside, in order of first use."""
    made = {i.name for i in graph.input} | {t.name for t in graph.initializer}
    made |= {t.values.name for t in graph.sparse_initializer}
    found: dict[str, None] = {}
    for node in graph.node:
        wanted = list(node.input)
        for attribute in node.attribute:
            for body in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                wanted += captured(body)
        for name in wanted:
            if name and name not in made:
                found[name] = None
        made.update(node.output)
    for output in graph.output:
        if output.name not in made:
            found[output.name] = None
    return list(found)


def body(node: Node, name: str) -> tuple[Graph, list[str]]:
    """A body as a graph, and the names it captures (constants are known to it already)."""
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
