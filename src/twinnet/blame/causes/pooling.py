"""Pooling: kind, window, counting, rounding of the size."""

from __future__ import annotations

from collections.abc import Iterator

from twinnet.blame.causes.family import Candidate, family, in_words, plain
from twinnet.blame.problem import Problem

_LOCAL = ("max_pool", "average_pool", "lp_pool")
_GLOBAL = ("global_average_pool", "global_max_pool", "global_lp_pool")


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    for i, layer in enumerate(problem.layers):
        if layer.kind in _LOCAL:
            for other in _LOCAL:
                if other != layer.kind:
                    yield _kind(i, layer.kind, other)
            if layer.kind == "max_pool":
                yield _counting(i, False, True, kind="average_pool")
            else:
                ours = bool(layer.attrs.get("count_include_pad", False))
                yield _counting(i, ours, not ours)
            ceil = bool(layer.attrs.get("ceil_mode", False))
            words = "rounds the size " + (
                "down where the network rounds up" if ceil else "up where the network rounds down"
            )
            yield in_words(
                "pooling", words, lambda p, i=i, c=ceil: p.change(i, ceil_mode=not c), ceil, not ceil
            )
            kernel = tuple(layer.attrs["kernel"])
            for size in (1, 2, 3, 4, 5):
                theirs = (size,) * len(kernel)
                if theirs == kernel:
                    continue
                words = f"a window of {plain(theirs)} where the network has {plain(kernel)}"
                yield in_words(
                    "pooling", words, lambda p, i=i, t=theirs: p.change(i, kernel=t), kernel, theirs
                )
        elif layer.kind in _GLOBAL:
            for other in _GLOBAL:
                if other != layer.kind:
                    yield _kind(i, layer.kind, other)
            rank = problem.operand(i, 0).dim()
            if layer.kind == "global_average_pool":
                axes = tuple(range(2, rank))

                def total(p: Problem, i=i, axes=axes):
                    return p.become(i, "reduce_sum", axes=axes, keepdims=True)

                yield in_words("pooling", "sums where the network averages", total, "average", "sum")
        elif layer.kind in ("adaptive_average_pool", "adaptive_max_pool"):
            other = "adaptive_max_pool" if "average" in layer.kind else "adaptive_average_pool"
            yield _kind(i, layer.kind, other)


def _kind(i: int, ours: str, theirs: str) -> Candidate:
    words = f"{theirs.replace('_', ' ')} where the network has {ours.replace('_', ' ')}"
    return in_words("pooling", words, lambda p: p.change(i, kind=theirs), ours, theirs)


def _counting(i: int, ours: bool, theirs: bool, kind: str | None = None) -> Candidate:
    words = "counts the padding in the mean" if theirs else "leaves the padding out of the mean"
    if kind is None:
        words += f" where the network {'counts it' if ours else 'leaves it out'}"
    else:
        words = "averages, counting the padding, where the network takes the maximum"
    return in_words(
        "pooling", words, lambda p: p.change(i, kind=kind, count_include_pad=theirs), ours, theirs
    )
