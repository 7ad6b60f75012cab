"""Run a module eagerly and observe its submodules' results, for comparison with the exported program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from twinnet.layers.graph import Graph
    from twinnet.network.torch_network import TorchNetwork

__all__ = ["eager_twin", "module_results"]


def eager_twin(network: TorchNetwork, inputs: Sequence[str]) -> Callable[..., dict[str, np.ndarray]]:
    """A function that runs the module and returns its outputs and, as `eager:PATH#CALL`, its submodules' results.

    >>> import torch
    >>> from twinnet.network import load_network
    >>> net = load_network(torch.nn.Sequential(torch.nn.ReLU()), example=torch.ones(1, 2))
    >>> list(eager_twin(net, ["input"])(np.ones((1, 2), "float32")))
    ['output', 'eager:0#0']
    """
    import torch

    from twinnet.network.arrays import to_numpy, to_tensor

    def eager(*arrays: np.ndarray) -> dict[str, np.ndarray]:
        seen: dict[str, np.ndarray] = {}
        calls: Counter[str] = Counter()

        def watch(path: str) -> Callable[..., None]:
            def hook(part: Any, given: Any, result: Any) -> None:
                if isinstance(result, torch.Tensor):
                    # A copy: a later submodule may write into the same memory.
                    seen[_name(path, calls[path])] = np.array(to_numpy(result.detach()))
                calls[path] += 1

            return hook

        hooks = [
            part.register_forward_hook(watch(path)) for path, part in network.module.named_modules() if path
        ]
        try:
            tensors = {name: to_tensor(array) for name, array in zip(inputs, arrays, strict=True)}
            outputs = network.call(tensors)
        finally:
            for hook in hooks:
                hook.remove()
        return {**{name: np.array(to_numpy(value)) for name, value in outputs.items()}, **seen}

    return eager


def module_results(graph: Graph) -> dict[str, str]:
    """Map the value of `graph` that each module call returns to its name in `eager_twin`.

    A module returns the one value that is read outside of it. Modules with several or no such values are left out.
    """
    owner: dict[str, tuple[str, int]] = {}
    readers: dict[str, list[tuple[str, int]]] = {}
    for layer in graph:
        place = (layer.module, layer.call)
        owner.update(dict.fromkeys((n for n in layer.outputs if n), place))
        for name in layer.inputs:
            if name is not None:
                readers.setdefault(name, []).append(place)
    outputs = set(graph.outputs)
    found: dict[str, str] = {}
    for (path, call), within in _modules(owner).items():
        leaving = [
            name
            for name, place in owner.items()
            if within(place) and (name in outputs or any(not within(r) for r in readers.get(name, ())))
        ]
        if len(leaving) == 1:
            found.setdefault(leaving[0], _name(path, call))
    return found


def _modules(
    owner: Mapping[str, tuple[str, int]],
) -> dict[tuple[str, int], Callable[[tuple[str, int]], bool]]:
    """Every module call, innermost first, with a test whether a place is inside it."""
    places = {place for place in owner.values() if place[0]}
    calls: dict[str, set[int]] = {}
    for path, call in places:
        calls.setdefault(path, set()).add(call)
    parents = {path.rpartition(".")[0] for path in calls}
    while more := {p.rpartition(".")[0] for p in parents} - parents:
        parents |= more
    found: dict[tuple[str, int], Callable[[tuple[str, int]], bool]] = {}
    holding = parents - {""}
    for path, call in sorted(places, key=lambda p: (-p[0].count("."), p)):
        if path not in holding:
            found[(path, call)] = lambda place, own=(path, call): place == own
    for path in sorted(holding, key=lambda p: (-p.count("."), p)):
        # Which call of a child belongs to which call of its parent is not recorded, so only single calls count.
        inside = [p for p in places if p[0] == path or p[0].startswith(f"{path}.")]
        if all(call == 0 for _, call in inside):
            found[(path, 0)] = lambda place, path=path: place[0] == path or place[0].startswith(f"{path}.")
    return found


def _name(path: str, call: int) -> str:
    return f"eager:{path}#{call}"
