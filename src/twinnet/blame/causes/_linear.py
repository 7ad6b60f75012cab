"""A matrix product and the sum with its bias, as the one layer that PyTorch has for both."""

from __future__ import annotations

from dataclasses import replace

import torch

from twinnet.layers.graph import Graph, Layer

__all__ = ["with_linear_layers"]


def with_linear_layers(graph: Graph) -> Graph:
    """The graph with `linear` wherever it multiplies by a constant matrix, and adds a constant vector or does not.

    >>> w, b = torch.ones(2, 3), torch.ones(3)
    >>> layers = (Layer("matmul", ("x", "w"), ("p",)), Layer("add", ("p", "b"), ("y",)))
    >>> made = with_linear_layers(Graph(layers, ("x",), ("y",), {"w": w, "b": b}))
    >>> [layer.kind for layer in made], made.constants[made.layers[0].inputs[1]].shape
    (['linear'], torch.Size([3, 2]))
    """
    constants = dict(graph.constants)
    layers: list[Layer] = []
    for layer in graph:
        vector = _added(layer, layers[-1] if layers else None, graph)
        if vector is not None:
            product = layers.pop()
            layers.append(replace(product, inputs=(*product.inputs[:2], vector), outputs=layer.outputs))
        elif layer.kind == "matmul" and _rank(graph, layer.inputs[1]) == 2:
            turned = f"{layer.inputs[1]}/turned"
            constants[turned] = graph.constants[layer.inputs[1] or ""].t()
            layers.append(replace(layer, kind="linear", inputs=(layer.inputs[0], turned), attrs={}))
        else:
            layers.append(layer)
    return replace(graph, layers=tuple(layers), constants=constants)


def _added(layer: Layer, before: Layer | None, graph: Graph) -> str | None:
    """The constant vector that a layer adds to the product just before it, which nobody else reads."""
    if layer.kind != "add" or before is None or before.kind != "linear" or len(before.inputs) > 2:
        return None
    made = before.outputs[0]
    others = [n for n in layer.inputs if n != made]
    readers = sum(made in x.inputs for x in graph) + (made in graph.outputs)
    if len(others) != 1 or readers != 1 or _rank(graph, others[0]) != 1:
        return None
    return others[0]


def _rank(graph: Graph, name: str | None) -> int | None:
    constant = graph.constants.get(name or "")
    return constant.dim() if isinstance(constant, torch.Tensor) else None
