"""Pooling: kind, window, counting, rounding of the size."""

from __future__ import annotations

from collections.abc import Iterator

from twinnet.blame.causes.family import Candidate, changed, family
from twinnet.blame.problem import Problem
from twinnet.layers.graph import Layer
from twinnet.result import fact

_LOCAL = ("max_pool", "average_pool", "lp_pool")
_GLOBAL = ("global_average_pool", "global_max_pool", "global_lp_pool")
_ADAPTIVE = ("adaptive_average_pool", "adaptive_max_pool")


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    for i, layer in enumerate(problem.layers):
        for group in (_LOCAL, _GLOBAL, _ADAPTIVE):
            for other in group if layer.kind in group else ():
                if other != layer.kind:
                    found = fact("operator.another", network=layer.kind, twin=other)
                    yield changed("pooling", found, i, kind=other)
        if layer.kind in _LOCAL:
            yield from _window(i, layer)
            yield from _beyond(problem, i, layer)
        elif layer.kind == "global_average_pool":
            axes = tuple(range(2, problem.tensor(i, 0).dim()))
            yield Candidate(
                kind="pooling",
                fact=fact("pooling.sum", network="average", twin="sum"),
                change=lambda p, i=i, axes=axes: p.become(i, "reduce_sum", axes=axes, keepdims=True),
            )


def _window(i: int, layer: Layer) -> Iterator[Candidate]:
    """Padding counted or not, rounding of the output size, size of the window."""
    largest = layer.kind == "max_pool"
    counts = not largest and bool(layer.attrs.get("count_include_pad", False))
    found = fact("pooling.counts_padding", network=counts, twin=not counts, instead_of_max=largest)
    kind = "average_pool" if largest else None
    yield changed("pooling", found, i, kind=kind, count_include_pad=not counts)
    ceil = bool(layer.attrs.get("ceil_mode", False))
    yield changed("pooling", fact("pooling.size_rounded", network=ceil, twin=not ceil), i, ceil_mode=not ceil)
    kernel = tuple(layer.attrs["kernel"])
    for size in (1, 2, 3, 4, 5):
        theirs = (size,) * len(kernel)
        if theirs != kernel:
            yield changed("pooling", fact("pooling.window", network=kernel, twin=theirs), i, kernel=theirs)


def _beyond(problem: Problem, i: int, layer: Layer) -> Iterator[Candidate]:
    """An average that also counts what a rounded-up size takes from beyond the padding, as zeros."""
    attrs = layer.attrs
    if layer.kind != "average_pool" or not attrs.get("ceil_mode") or not attrs.get("count_include_pad"):
        return
    x, y, kernel = problem.tensor(i, 0), problem.out(i), tuple(attrs["kernel"])
    spatial = len(kernel)
    if attrs.get("auto_pad") or x.dim() != spatial + 2:
        return
    pads = tuple(attrs.get("pads") or (0,) * 2 * spatial)
    strides, dilations = (tuple(attrs.get(n) or (1,) * spatial) for n in ("strides", "dilations"))
    over = tuple(
        max(
            (y.shape[2 + a] - 1) * strides[a] + (kernel[a] - 1) * dilations[a] + 1 - x.shape[2 + a] - pads[a],
            0,
        )
        for a in range(spatial)
    )
    if over == pads[spatial:]:
        return
    found = fact("pooling.counts_beyond", network=False, twin=True)
    wider = (*pads[:spatial], *map(max, over, pads[spatial:]))
    yield changed("pooling", found, i, pads=wider, ceil_mode=False)
