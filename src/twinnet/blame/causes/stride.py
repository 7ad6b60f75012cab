"""Stride, dilation and groups of convolutions and windows."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from twinnet.blame.causes.family import Candidate, changed, family
from twinnet.blame.problem import Patch, Problem
from twinnet.layers.graph import Layer
from twinnet.result import fact


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    for i, layer in enumerate(problem.layers):
        if layer.kind in ("conv", "conv_transpose", "max_pool", "average_pool"):
            yield from _dilation(problem, i, layer)
            yield from _stride(problem, i, layer)
        if layer.kind == "conv" and layer.attrs.get("group", 1) > 1:
            yield from _groups(problem, i, layer)


def _kernel(problem: Problem, i: int, layer: Layer) -> tuple[int, ...]:
    return tuple(layer.attrs["kernel"]) if "kernel" in layer.attrs else tuple(problem.tensor(i, 1).shape[2:])


def _dilation(problem: Problem, i: int, layer: Layer) -> Iterator[Candidate]:
    kernel = _kernel(problem, i, layer)
    k = len(kernel)
    if max(kernel) == 1:
        return
    ours = tuple(layer.attrs.get("dilations") or (1,) * k)
    pads = tuple(layer.attrs.get("pads") or (0,) * 2 * k)
    for new in (1, 2, 3, 4):
        theirs = tuple(new if size > 1 else 1 for size in kernel)
        if theirs == tuple(d if size > 1 else 1 for d, size in zip(ours, kernel)):
            continue
        grow = [(t - o) * (size - 1) for t, o, size in zip(theirs, ours, kernel)]
        # The pads that keep the size, and the pads as they are.
        kept = (*(p + g // 2 for p, g in zip(pads, grow)), *(p + g - g // 2 for p, g in zip(pads[k:], grow)))
        for other in dict.fromkeys((pads, kept)):
            if min(other) >= 0:
                found = fact("attribute.another", name="dilation", network=ours, twin=theirs)
                yield changed("stride", found, i, dilations=theirs, pads=other)


def _stride(problem: Problem, i: int, layer: Layer) -> Iterator[Candidate]:
    if problem.same_shape:
        return
    k = len(_kernel(problem, i, layer))
    ours = tuple(layer.attrs.get("strides") or (1,) * k)
    for new in (1, 2, 3, 4):
        theirs = (new,) * k
        if theirs != ours:
            found = fact("attribute.another", name="strides", network=ours, twin=theirs)
            yield changed("stride", found, i, strides=theirs)


def _groups(problem: Problem, i: int, layer: Layer) -> Iterator[Candidate]:
    """Channels dealt out to the groups one by one instead of in blocks."""
    channels, group = problem.tensor(i, 0).shape[1], layer.attrs["group"]
    outputs = problem.out(i).shape[1]
    if group < channels:
        dealt = torch.arange(channels).reshape(-1, group).t().reshape(-1)
        yield Candidate(
            kind="stride",
            fact=fact("groups.interleaved", of="input", network="blocks", twin="interleaved"),
            change=lambda p: _gather_first(p, i, dealt),
            whole=True,
        )
    if group < outputs:
        dealt = torch.arange(outputs).reshape(-1, group).t().reshape(-1)
        for order in (dealt, torch.argsort(dealt)):
            constant = {f"{layer.outputs[0]}/order": order}
            yield Candidate(
                kind="stride",
                fact=fact("groups.interleaved", of="output", network="blocks", twin="interleaved"),
                change=lambda p, c=constant: p.then(i, "gather", c, axis=1),
                whole=True,
            )


def _gather_first(problem: Problem, i: int, order: torch.Tensor) -> Patch:
    layer = problem.layers[i]
    name, new, index = layer.inputs[0], f"{layer.inputs[0]}/dealt", f"{layer.outputs[0]}/order"
    before = Layer("gather", (name, index), (new,), {"axis": 1})
    after = Layer(layer.kind, (new, *layer.inputs[1:]), layer.outputs, layer.attrs)
    return Patch(i, i + 1, (before, after), {index: order})
