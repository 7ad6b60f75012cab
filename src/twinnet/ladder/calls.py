"""The calls of submodules in one run of a module: which, in which order, inside which other, with which operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import torch

from twinnet.network import ModuleNetwork
from twinnet.network.tree import register_containers
from twinnet.torch_versions import TorchDispatchMode, pytree

__all__ = ["Call", "Recorded", "record_calls"]

_HOUSEKEEPING = {"detach", "empty", "lift_fresh", "alias", "clone", "_to_copy", "to"}


@dataclass(eq=False)
class Call:
    """One call of a submodule.

    `opened` and `closed` say when it began and ended, `stop` how many operators had run until then. `shows` tells
    whether there are tensors in what it returns.
    """

    path: str
    number: int
    module: torch.nn.Module
    opened: int = 0
    closed: int = 0
    stop: int = 0
    shows: bool = True
    children: list[Call] = field(default_factory=list)

    @property
    def kind(self) -> str:
        return type(self.module).__name__

    @property
    def name(self) -> str:
        """Its path, with the number of the call if there are several."""
        return f"{self.path} (call {self.number + 1})" if self.number else self.path

    def __iter__(self) -> Iterator[Call]:
        """This call and all inside it, in the order they begin."""
        yield self
        for child in self.children:
            yield from child


@dataclass(frozen=True)
class Recorded:
    """The calls below a module, as a tree, and the operators that ran, in order."""

    root: Call
    ops: tuple[str, ...]

    def parameters(self, last: Call) -> int:
        """Parameters of everything that has run when a call returns."""
        found: dict[int, torch.Tensor] = {}
        for call in self.root:
            if call.opened < last.closed:
                done = call.closed <= last.closed
                found.update({id(p): p for p in call.module.parameters(recurse=done)})
        return sum(p.numel() for p in found.values())


def record_calls(network: ModuleNetwork, sample: Mapping[str, Any]) -> Recorded:
    """Run a network of modules once, and record the calls.

    >>> from twinnet.network import load_network
    >>> net = load_network((torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()), torch.ones(1, 2)))
    >>> [(c.path, c.kind) for c in record_calls(net, {"input": torch.ones(1, 2)}).root]
    [('', 'Sequential'), ('0', 'Linear'), ('1', 'ReLU')]
    """
    module = network.module
    ops: list[str] = []
    counts: Counter[str] = Counter()
    clock = count(1)
    root = Call("", 0, module)
    stack = [root]
    paths = {id(part): path for path, part in module.named_modules() if path}

    def enter(part: torch.nn.Module, given: Any) -> None:
        path = paths[id(part)]
        call = Call(path, counts[path], part, next(clock))
        counts[path] += 1
        stack[-1].children.append(call)
        stack.append(call)

    def leave(part: torch.nn.Module, given: Any, result: Any) -> None:
        call = stack.pop()
        call.closed, call.stop, call.shows = next(clock), len(ops), _has_tensors(result)

    def finish(part: torch.nn.Module, given: Any, result: Any) -> None:
        root.closed, root.stop = next(clock), len(ops)

    hooks = [module.register_forward_hook(finish)]
    for part in module.modules():
        if part is not module:
            hooks += [part.register_forward_pre_hook(enter), part.register_forward_hook(leave)]
    try:
        with _Operators(ops):
            network.call(sample)
    finally:
        for hook in hooks:
            hook.remove()
    return Recorded(root, tuple(ops))


def _has_tensors(result: Any) -> bool:
    if isinstance(result, torch.Tensor):
        return True
    register_containers(result)
    return any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(result))


class _Operators(TorchDispatchMode):
    """Notes the operators that run."""

    def __init__(self, ops: list[str]) -> None:
        super().__init__()
        self._ops = ops

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func).split(".")[1].rstrip("_")
        if name not in _HOUSEKEEPING:
            self._ops.append(name)
        return func(*args, **(kwargs or {}))
