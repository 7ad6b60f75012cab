"""The graph that OpenVINO compiled: which layers were fused, and which tensors remain between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["Step", "executed", "survivors"]


@dataclass(frozen=True, slots=True)
class Step:
    """A node of the compiled graph and the layers of the model that it computes."""

    name: str
    op: str
    layers: tuple[str, ...]


def executed(compiled: Any) -> list[Step]:
    """The compiled graph in execution order, without constants, inputs and outputs."""
    steps: list[Step] = []
    for node in compiled.get_runtime_model().get_ordered_ops():
        info = node.get_rt_info()
        kind = str(info["layerType"].get())
        if kind in ("Const", "Input", "Output"):
            continue
        layers = tuple(n for n in str(info["originalLayersNames"].get()).split(",") if n)
        steps.append(Step(node.get_friendly_name(), kind, layers))
    return steps


def survivors(model: Any, steps: Iterable[Step]) -> set[str]:
    """Tensors of the model that still pass between two steps of what was compiled from it, or leave it.

    A layer's result survives if another step reads it. Layers that no step names were optimised away; readers of their
    results are followed through them.
    """
    home: dict[str, set[int]] = {}
    for index, step in enumerate(steps):
        for layer in step.layers:
            home.setdefault(layer, set()).add(index)
    alive: set[str] = set()
    for operation in model.get_ordered_ops():
        places = home.get(operation.get_friendly_name())
        if not places:
            continue
        for port in operation.outputs():
            if port.names and any(not (home.get(name, set()) & places) for name in _readers(port, home)):
                alive.update(port.names)
    return alive


def _readers(port: Any, home: dict[str, set[int]]) -> Iterator[str]:
    """Names of the layers that read a result, seen through those that no step names."""
    stack, seen = [port], set()
    while stack:
        for target in stack.pop().get_target_inputs():
            node = target.get_node()
            name = node.get_friendly_name()
            if name in home or node.get_type_name() == "Result":
                yield name
            elif name not in seen:
                seen.add(name)
                stack.extend(node.outputs())
