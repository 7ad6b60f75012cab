"""Observing eager PyTorch when a network cannot be exported: every ATen call, with the module it happened in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import torch

from twinnet.errors import guarded
from twinnet.job import Arrays
from twinnet.network import ModuleNetwork
from twinnet.network.arrays import to_numpy, to_tensor
from twinnet.site import Site
from twinnet.torch_versions import TorchDispatchMode
from twinnet.trace import Trace, TraceBuilder

__all__ = ["eager_sites", "eager_trace"]


class _Watcher(TorchDispatchMode):
    """Names each result `module.op[.n]` in the order of execution."""

    def __init__(self, module: torch.nn.Module, patches: Mapping[str, torch.Tensor]) -> None:
        super().__init__()
        self._patches = patches
        self.seen: list[tuple[Site, torch.Tensor]] = []
        self._stack: list[tuple[str, int]] = [("", 0)]
        self._calls: Counter[str] = Counter()
        self._names: Counter[str] = Counter()
        self._hooks = []
        for path, child in module.named_modules():
            if path:
                self._hooks.append(child.register_forward_pre_hook(self._enter(path)))
                self._hooks.append(child.register_forward_hook(self._leave, always_call=True))

    def _enter(self, path: str) -> Any:
        def hook(*_: Any) -> None:
            self._stack.append((path, self._calls[path]))
            self._calls[path] += 1

        return hook

    def _leave(self, *_: Any) -> None:
        self._stack.pop()

    def remove(self) -> None:
        for hook in self._hooks:
            hook.remove()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        module, call = self._stack[-1]
        op = func.overloadpacket.__name__.rstrip("_")
        tensors = result if isinstance(result, list | tuple) else [result]
        for index, tensor in enumerate(tensors):
            if not isinstance(tensor, torch.Tensor):
                continue
            base = f"{module}.{op}" if module else op
            count = self._names[base]
            self._names[base] += 1
            site = Site(f"{base}.{count}" if count else base, base, op, module, call, index)
            if site.tensor in self._patches:
                # Write into the same memory, as an in-place call does, so that views see it.
                tensor.copy_(self._patches[site.tensor])
            # A copy: in-place calls may write into this memory later.
            self.seen.append((site, tensor.detach().clone()))
        return result


def _observe(
    network: ModuleNetwork,
    module: torch.nn.Module,
    tensors: dict[str, Any],
    patches: Mapping[str, torch.Tensor] | None = None,
) -> tuple[_Watcher, dict[str, Any]]:
    watcher = _Watcher(module, patches or {})
    try:
        with torch.no_grad(), watcher:
            outputs = network.call(tensors, module=guarded(module, "run the network", "torch"))
    finally:
        watcher.remove()
    return watcher, outputs


def eager_sites(network: ModuleNetwork, inputs: Arrays) -> tuple[Site, ...]:
    """The sites of one eager run; outputs come last under their own names."""
    watcher, outputs = _observe(
        network, network.module, {n: to_tensor(np.array(a)) for n, a in inputs.items()}
    )
    inner = tuple(site for site, _ in watcher.seen)
    return inner + tuple(Site(name, name, "output", role="output") for name in outputs)


def eager_trace(
    network: ModuleNetwork,
    module: torch.nn.Module,
    tensors: dict[str, Any],
    watch: Collection[str],
    builder: TraceBuilder,
    patches: Mapping[str, torch.Tensor] | None = None,
) -> Trace:
    """Run eagerly and record the watched ATen results; those in `patches` are overwritten when computed."""
    for name, tensor in tensors.items():
        if isinstance(tensor, torch.Tensor):
            builder.add(name, np.array(to_numpy(tensor)))
    watcher, outputs = _observe(network, module, tensors, patches)
    for site, tensor in watcher.seen:
        if site.tensor in watch:
            builder.add(site.tensor, to_numpy(tensor))
    for name, tensor in outputs.items():
        replaced = (patches or {}).get(name)
        builder.add(name, np.array(to_numpy(tensor if replaced is None else replaced)))
    return builder.done()
