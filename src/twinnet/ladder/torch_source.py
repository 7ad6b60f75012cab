"""PyTorch modules, cut where submodules return. Nothing is exported for it: it works if torch.export does not."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

import torch

from twinnet.cutting import Cut
from twinnet.errors import EngineError, UsageError
from twinnet.job import Arrays
from twinnet.ladder.calls import Call, record_calls
from twinnet.ladder.early import cut_short
from twinnet.ladder.source import MOST, Place, Source
from twinnet.network import ModuleNetwork
from twinnet.network.arrays import to_numpy
from twinnet.network.exported import ExportedNetwork
from twinnet.network.torch_network import TorchNetwork
from twinnet.network.tree import name_inputs

__all__ = ["TorchSource"]


class TorchSource(Source):
    """A module, cut at its stages: its children, and those of plain containers in their place."""

    def __init__(self, network: ModuleNetwork, samples: Sequence[Arrays], at: Sequence[str] = ()) -> None:
        if isinstance(network, ExportedNetwork):
            # As modules again, with the names they had.
            module = torch.export.unflatten(network.program)
            network = TorchNetwork(module, example=network.unflatten(samples[0]), name=network.name)
            names = [spec.name for spec in network.signature.inputs]
            samples = [dict(zip(names, sample.values(), strict=True)) for sample in samples]
        self.network = self._net = network
        self.samples = samples
        self._recorded = record_calls(network, samples[0])
        self._calls = self._matching(at) if at else _natural(self._recorded.root)

    def _places(self) -> Iterator[Place]:
        before = 0
        for call in self._calls:
            known = set(self._recorded.ops[:before])
            ops = tuple(dict.fromkeys(op for op in self._recorded.ops[before : call.stop] if op not in known))
            own = sum(p.numel() for p in call.module.parameters())
            whole = call is self._recorded.root
            up_to = self.network.parameters if whole else self._recorded.parameters(call)
            yield Place(call.name or "(the end)", call.kind, up_to, own, ops)
            before = call.stop

    def _matching(self, patterns: Sequence[str]) -> list[Call]:
        root = self._recorded.root
        calls = [c for c in root if c.path and c.shows and any(fnmatchcase(c.path, p) for p in patterns)]
        if not calls:
            names = ", ".join(dict.fromkeys(c.path for c in _natural(root) if c.path))
            raise UsageError(
                f"{self.network.name} runs no module that matches --at {' '.join(patterns)}",
                hint=f"some that it runs: {names}",
            )
        return _with_end(sorted(calls, key=lambda c: c.stop), root)

    def prefix(self, index: int) -> Cut:
        if index == len(self._calls) - 1:
            return Cut(self.network, self.samples)
        call = self._calls[index]
        cut = cut_short(self._net.module, call.path, call.number)
        name = f"{self.network.name} up to {call.name}"
        example = self._net.unflatten(self.samples[0])
        return Cut(TorchNetwork(cut, example=example, name=name, path=self.network.path), self.samples)

    def block(self, index: int) -> Cut | None:
        call = self._calls[index]
        if not call.path:
            return None
        examples = [self._given(call, sample) for sample in self.samples]
        samples: list[Arrays] = []
        for args, kwargs in examples:
            names, leaves, _ = name_inputs(call.module, args, kwargs)
            samples.append(
                {n: to_numpy(v) for n, v in zip(names, leaves, strict=True) if isinstance(v, torch.Tensor)}
            )
        if not samples[0]:
            return None
        return Cut(TorchNetwork(call.module, example=examples[0], name=call.name), samples)

    def _given(self, call: Call, sample: Arrays) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What a call is given when the network runs a sample."""
        found: list[Any] = []
        seen = 0

        def note(part: Any, args: Any, kwargs: Any) -> None:
            nonlocal seen
            if seen == call.number:
                # A copy: a later operator may write into the same memory.
                found.append(copy.deepcopy((args, kwargs)))
            seen += 1

        hook = call.module.register_forward_pre_hook(note, with_kwargs=True)
        try:
            self._net.call(sample)
        finally:
            hook.remove()
        if not found:
            raise EngineError(f"{call.name} is not called for every input", stage="cut")
        return found[0]

    def index_of(self, module: str) -> int | None:
        for index, call in enumerate(self._calls):
            if call.path and (module == call.path or module.startswith(f"{call.path}.")):
                return index
        return None


def _natural(root: Call) -> list[Call]:
    """The stages: what the network calls itself; a container that does nothing else is replaced by what it calls."""
    found = root.children
    while len(found) == 1 and found[0].children:
        found = found[0].children
    found = list(found)
    for call in found.copy():
        plain = type(call.module) is torch.nn.Sequential
        if plain and len(call.children) > 1 and len(found) + len(call.children) <= MOST:
            place = found.index(call)
            found[place : place + 1] = call.children
    return _with_end(found, root)


def _with_end(calls: list[Call], root: Call) -> list[Call]:
    """With the network itself as the last rung, unless nothing runs after the last call."""
    shown = [call for call in calls if call.shows]
    return shown if shown and shown[-1].stop == root.stop else [*shown, root]
