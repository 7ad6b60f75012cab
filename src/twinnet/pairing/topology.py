"""Pair by structure: the same operator on paired inputs computes the same tensor."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from twinnet.layers.graph import Graph, Layer
from twinnet.pairing.quantised import ROUNDERS, clamped

__all__ = ["apart_by", "by_topology"]

_BIASED = {"conv", "conv_transpose", "linear", "gemm"}


def _digest(graph: Graph, name: str, cache: dict[str, bytes]) -> bytes:
    """A hash of a constant, which distinguishes several projections of one tensor."""
    found = cache.get(name)
    if found is None:
        from twinnet.network.arrays import tensor_bytes

        tensor = graph.constants[name]
        key = str(tuple(tensor.shape)).encode()[:64]
        found = cache[name] = hashlib.blake2b(tensor_bytes(tensor), digest_size=16, key=key).digest()
    return found


def _key(
    layer: Layer, graph: Graph, names: Mapping[str, str], cache: dict[str, bytes]
) -> tuple[object, ...] | None:
    """Kind and operands of a layer in the network's names; None while an operand is not paired."""
    operands: list[object] = []
    for place, name in enumerate(layer.inputs):
        if name is None or (place == 2 and layer.kind in _BIASED and _is_zero(graph, name)):
            operands.append(None)
        elif name in graph.constants:
            operands.append(_digest(graph, name, cache))
        elif name in names:
            operands.append(names[name])
        else:
            return None
    while operands and operands[-1] is None:
        operands.pop()
    return (layer.kind, *operands)


def _is_zero(graph: Graph, name: str) -> bool:
    """Whether a bias adds nothing, as converters write where there is none."""
    value = graph.constants.get(name)
    return value is not None and not bool(value.any())


def by_topology(
    graph: Graph, twin_graph: Graph, names: dict[str, str], *, strict: bool = False
) -> Iterator[tuple[str, str]]:
    """Walk the twin in execution order from the pairs in `names` (twin to network); yield and add what is found.

    Quantisers are seen through: they are named, but not yielded. Of several layers of one kind on one operand that have
    other attributes the first is taken, or, if `strict`, none.
    """
    cache: dict[str, bytes] = {}
    twin_cache: dict[str, bytes] = {}
    itself = {n: n for n in (*graph.inputs, *graph.producer)}
    offered: dict[tuple[object, ...], list[Layer]] = defaultdict(list)
    loose: dict[tuple[object, ...], list[Layer]] = defaultdict(list)
    for layer in graph:
        key = _key(layer, graph, itself, cache)
        if key is not None:
            offered[key].append(layer)
            loose[_without_constants(key)].append(layer)
    used: set[int] = set()
    theirs_have = {_weights_of(layer, twin_graph, twin_cache) for layer in twin_graph}
    for layer in twin_graph:
        if all(n in names for n in layer.outputs if n):
            continue
        if layer.kind in ROUNDERS:
            ours = names.get(layer.inputs[0] or "")
            if ours is not None:
                names[layer.outputs[0]] = clamped(graph, ours, twin_graph, layer)
            continue
        key = _key(layer, twin_graph, names, twin_cache)
        if key is None:
            continue
        # Equal weights first; a layer with changed weights still matches if it is the only candidate.
        choices = [c for c in offered.get(key, ()) if id(c) not in used]
        if not choices:
            choices = [
                c
                for c in loose.get(_without_constants(key), ())
                if id(c) not in used and _weights_of(c, graph, cache) not in theirs_have
            ]
            if len(choices) > 1:
                choices = _nearest(choices, graph, layer, twin_graph)
            if len(choices) != 1:
                continue
        # Of several of one kind on one operand (slices, pools), take the one with the same attributes.
        alike = [c for c in choices if _same_attrs(c, layer)]
        if strict and not alike and len(choices) > 1:
            continue
        chosen = alike[0] if alike else choices[0]
        used.add(id(chosen))
        for ours, theirs in zip(chosen.outputs, layer.outputs, strict=False):
            if ours and theirs and theirs not in names:
                names[theirs] = ours
                yield ours, theirs


def _nearest(choices: list[Layer], graph: Graph, layer: Layer, twin_graph: Graph) -> list[Layer]:
    """The one whose weights are these up to a small error (rounded to another format), if there is one."""
    near = []
    for choice in choices:
        apart = [
            apart_by(graph.constants[a], twin_graph.constants[b])
            for a, b in zip(choice.inputs, layer.inputs, strict=False)
            if a is not None and b is not None and a in graph.constants and b in twin_graph.constants
        ]
        if apart and max(apart) < 0.1:
            near.append(choice)
    return near


def apart_by(a: Any, b: Any) -> float:
    """How far two tensors are apart, as a share of the first."""
    if a.shape != b.shape:
        return float("inf")
    size = float(a.double().norm())
    return float((a.double() - b.double()).norm()) / size if size else float(b.double().norm() > 0)


def _weights_of(layer: Layer, graph: Graph, cache: dict[str, bytes]) -> tuple[object, ...]:
    """A key for a layer's weights; unique for a layer without any."""
    held = tuple(_digest(graph, n, cache) for n in layer.inputs if n is not None and n in graph.constants)
    return (layer.kind, *held) if held else (id(layer),)


def _same_attrs(a: Layer, b: Layer) -> bool:
    try:
        return bool(a.attrs == b.attrs)
    except (RuntimeError, ValueError):  # tensors among them
        return False


def _without_constants(key: tuple[object, ...]) -> tuple[object, ...]:
    return tuple("constant" if isinstance(part, bytes) else part for part in key)
