"""Stride, dilation and groups of convolutions and windows."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from twinnet.blame.causes.family import Candidate, family, in_words, plain
from twinnet.blame.problem import Problem
from twinnet.layers.graph import Layer


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    for i, layer in enumerate(problem.layers):
        if layer.kind in ("conv", "conv_transpose", "max_pool", "average_pool"):
            yield from _dilation(problem, i, layer)
            yield from _stride(problem, i, layer)
        if layer.kind == "conv" and layer.attrs.get("group", 1) > 1:
            yield from _groups(problem, i, layer)


def _kernel(problem: Problem, i: int, layer: Layer) -> tuple[int, ...]:
    return tuple(layer.attrs["kernel"]) if "kernel" in layer.attrs else tuple(problem.operand(i, 1).shape[2:])


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
            if min(other) < 0:
                continue
            sentence = f"dilation {plain(theirs)} where the network has {plain(ours)}"

            def change(p: Problem, d=theirs, o=other):
                return p.change(i, dilations=d, pads=o)

            yield in_words("stride", sentence, change, ours, theirs)


def _stride(problem: Problem, i: int, layer: Layer) -> Iterator[Candidate]:
    if problem.same_shape:
        return
    k = len(_kernel(problem, i, layer))
    ours = tuple(layer.attrs.get("strides") or (1,) * k)
    for new in (1, 2, 3, 4):
        theirs = (new,) * k
        if theirs != ours:
            sentence = f"strides {plain(theirs)} where the network has {plain(ours)}"
            yield in_words("stride", sentence, lambda p, s=theirs: p.change(i, strides=s), ours, theirs)


def _groups(problem: Problem, i: int, layer: Layer) -> Iterator[Candidate]:
    """Channels dealt out to the groups one by one instead of in blocks."""
    channels, group = problem.operand(i, 0).shape[1], layer.attrs["group"]
    outputs = problem.out(i).shape[1]
    if group < channels:
        dealt = torch.arange(channels).reshape(-1, group).t().reshape(-1)
        sentence = "takes the input channels of a group interleaved where the network takes them in blocks"
        yield in_words(
            "stride", sentence, lambda p: _gather_first(p, i, dealt), "blocks", "interleaved", whole=True
        )
    if group < outputs:
        dealt = torch.arange(outputs).reshape(-1, group).t().reshape(-1)
        for order in (dealt, torch.argsort(dealt)):
            sentence = (
                "writes the output channels of the groups interleaved where the network writes them in blocks"
            )

            def change(p: Problem, o=order):
                return p.then(i, "gather", {f"{layer.outputs[0]}/order": o}, axis=1)

            yield in_words("stride", sentence, change, "blocks", "interleaved", whole=True)


def _gather_first(problem: Problem, i: int, order: torch.Tensor):
    from twinnet.blame.problem import Patch

    layer = problem.layers[i]
    name, new, index = layer.inputs[0], f"{layer.inputs[0]}/dealt", f"{layer.outputs[0]}/order"
    before = Layer("gather", (name, index), (new,), {"axis": 1})
    after = Layer(layer.kind, (new, *layer.inputs[1:]), layer.outputs, layer.attrs)
    return Patch(i, i + 1, (before, after), {index: order})
