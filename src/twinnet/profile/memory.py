"""How much memory a network needs at least: its weights, and the values that are alive at the same time."""

from __future__ import annotations

import math

from twinnet.layers.graph import Graph
from twinnet.profile.cost import Shapes, itemsize

__all__ = ["alive_bytes", "least_memory"]


def alive_bytes(graph: Graph, shapes: Shapes, width: int) -> list[int]:
    """Bytes of the values alive while each layer runs: the inputs of the network, and what depends on them.

    A layer that works place by place, or only moves values, may write over one that is not needed any more.

    >>> from twinnet.layers.graph import Layer
    >>> graph = Graph((Layer("conv", ("x",), ("y",)), Layer("neg", ("y",), ("z",))), ("x",), ("z",))
    >>> alive_bytes(graph, {"x": (2,), "y": (4,), "z": (4,)}, 4)
    [24, 16]
    """
    from twinnet.layers import kinds

    sizes = {name: math.prod(shape) * itemsize(graph, name, width) for name, shape in shapes.items()}
    ends = {name: users[-1] for name, users in graph.consumers.items() if users}
    ends.update(dict.fromkeys(graph.outputs, len(graph.layers)))
    alive = {name for name in graph.inputs if name in ends}
    found = []
    for index, layer in enumerate(graph.layers):
        made = [name for name in layer.outputs if name and name not in graph.static]
        alive.update(made)
        dead = {name for name in alive if ends.get(name, index) <= index}
        kind = kinds.get(layer.kind)
        inplace = kind.elementwise or kind.exact
        free = max((sizes.get(n, 0) for n in layer.inputs if n in dead), default=0) if inplace else 0
        new = sum(sizes.get(name, 0) for name in made)
        found.append(sum(sizes.get(name, 0) for name in alive) - min(free, new))
        alive -= dead
    return found


def least_memory(graph: Graph | None, shapes: Shapes, width: int) -> int | None:
    """Weights and the most that is alive at once; None without layers or shapes."""
    if graph is None or not shapes:
        return None
    weights = sum(
        held.numel() * (width if held.is_floating_point() else held.element_size())
        for held in graph.constants.values()
    )
    return weights + max(alive_bytes(graph, shapes, width), default=0)
