"""Pooling: kind, window, counting, rounding of the size."""

from __future__ import annotations

from collections.abc import Iterator

from twinnet.blame.causes.family import Candidate, family
from twinnet.blame.problem import Problem
from twinnet.result import fact

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
            yield Candidate(
                kind="pooling",
                fact=fact("pooling.size_rounded", network=ceil, twin=not ceil),
                change=lambda p, i=i, c=ceil: p.change(i, ceil_mode=not c),
            )
            kernel = tuple(layer.attrs["kernel"])
            for size in (1, 2, 3, 4, 5):
                theirs = (size,) * len(kernel)
                if theirs == kernel:
                    continue
                yield Candidate(
                    kind="pooling",
                    fact=fact("pooling.window", network=kernel, twin=theirs),
                    change=lambda p, i=i, t=theirs: p.change(i, kernel=t),
                )
        elif layer.kind in _GLOBAL:
            for other in _GLOBAL:
                if other != layer.kind:
                    yield _kind(i, layer.kind, other)
            rank = problem.tensor(i, 0).dim()
            if layer.kind == "global_average_pool":
                axes = tuple(range(2, rank))

                def total(p: Problem, i=i, axes=axes):
                    return p.become(i, "reduce_sum", axes=axes, keepdims=True)

                found = fact("pooling.sum", network="average", twin="sum")
                yield Candidate(kind="pooling", fact=found, change=total)
        elif layer.kind in ("adaptive_average_pool", "adaptive_max_pool"):
            other = "adaptive_max_pool" if "average" in layer.kind else "adaptive_average_pool"
            yield _kind(i, layer.kind, other)


def _kind(i: int, ours: str, theirs: str) -> Candidate:
    return Candidate(
        kind="pooling",
        fact=fact("operator.another", network=ours, twin=theirs),
        change=lambda p: p.change(i, kind=theirs),
    )


def _counting(i: int, ours: bool, theirs: bool, kind: str | None = None) -> Candidate:
    return Candidate(
        kind="pooling",
        fact=fact("pooling.counts_padding", network=ours, twin=theirs, instead_of_max=kind is not None),
        change=lambda p: p.change(i, kind=kind, count_include_pad=theirs),
    )
