"""Segments that belong together: those that share a faulty weight, and those that explain the output only together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from twinnet.blame.context import Blame, Context
from twinnet.blame.contributors import rank
from twinnet.blame.impact import output_error
from twinnet.blame.simulate import simulate
from twinnet.network.arrays import to_tensor
from twinnet.pairing import Pair

__all__ = ["ENOUGH", "Group", "merge_until_explained", "tied"]

ENOUGH = 0.9
"""The share of the output error that findings must explain; below it segments are merged."""

_MOST = 8


@dataclass(frozen=True)
class Group:
    """Segments by their network tensors, and the share of the output error that they explain together."""

    tensors: tuple[str, ...]
    explains: float


def tied(tensors: Sequence[str], context: Context, blamed: Mapping[str, Blame]) -> list[tuple[str, ...]]:
    """Findings that are one: segments that read the same weight and do the same wrong with it, the first one first."""
    groups: list[tuple[set[int], list[str]]] = []
    pairs = {p.site.tensor: p for p in context.pairs}
    for tensor in tensors:
        weights = _weights(pairs[tensor], context) if tensor in pairs else set()
        for shared, members in groups:
            if weights & shared and _alike(blamed.get(members[0]), blamed.get(tensor)):
                members.append(tensor)
                break
        else:
            groups.append((weights, [tensor]))
    return [tuple(members) for _, members in groups if len(members) > 1]


def _alike(a: Blame | None, b: Blame | None) -> bool:
    if a is None or b is None or a.cause is None or b.cause is None:
        return False
    return (a.cause.kind, a.cause.sentence) == (b.cause.kind, b.cause.sentence)


def _weights(pair: Pair, context: Context) -> set[int]:
    """The weights a segment reads, told by where their data lie; vectors and scalars are shared by chance."""
    found = context.frontier(pair) if pair.site.tensor in context.graph.producer else None
    if found is None:
        return set()
    read = {n for i in found[0] for n in context.graph.layers[i].inputs if n is not None}
    held = (context.graph.constants[n] for n in read if n in context.graph.constants)
    return {_identity(t) for t in held if isinstance(t, torch.Tensor) and t.dim() > 1 and t.numel() > 1}


def _identity(tensor: torch.Tensor) -> int:
    return int(tensor.data_ptr())


def explained(context: Context, tensors: Sequence[str]) -> float:
    """The share of the output error that is gone when these segments create none."""
    without = simulate(context, set(tensors))
    before, after = 0.0, 0.0
    twins = dict(context.outputs)
    for ours, array in without.items():
        if ours not in context.trace:
            continue
        reference = to_tensor(context.trace[ours])
        before = max(before, output_error(reference, to_tensor(context.twin_trace[twins[ours]])))
        after = max(after, output_error(reference, to_tensor(array)))
    if before == 0 or before == float("inf"):
        return 1.0
    return 1.0 - after / before


def merge_until_explained(
    findings: Sequence[str],
    others: Sequence[tuple[Pair, float]],
    context: Context,
    blamed: Mapping[str, Blame],
) -> Group | None:
    """The findings with as many other segments as it takes to explain most of the output error.

    None where the findings explain it by themselves. The others join in the order of their impact.
    """
    shares = (blamed[t].born_share for t in findings if t in blamed)
    if any(s is not None and ENOUGH <= s <= 2 - ENOUGH for s in shares):
        return None  # one of them is the output error
    share = explained(context, findings) if findings else 0.0
    if share >= ENOUGH:
        return None
    more = list(rank(others, context, most=_MOST))
    best = Group(tuple(findings), share)
    count = 1
    while more and best.explains < ENOUGH:
        group = (*findings, *more[:count])
        share = explained(context, group)
        if share > best.explains:
            best = Group(group, share)
        if count >= len(more):
            break
        count *= 2
    return best if len(best.tensors) > len(findings) else None
