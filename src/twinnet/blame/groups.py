"""Segments that belong together: those that share a faulty weight, and those that explain the output only together."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from twinnet.blame.context import Blame, Context
from twinnet.blame.contributors import rank
from twinnet.blame.impact import output_error
from twinnet.blame.repertoire import GENERAL
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
    """Findings that are one, the one that names the cause first.

    These are segments that read the same weight and do the same wrong with it, and those that are kin by the repertoire
    of the network.
    """
    groups: list[tuple[set[Hashable], list[str]]] = []
    pairs = {p.site.tensor: p for p in context.pairs}
    for tensor in tensors:
        weights = _weights(pairs[tensor], context) if tensor in pairs else set()
        for shared, members in groups:
            if any(_alike(key, blamed.get(members[0]), blamed.get(tensor)) for key in weights & shared):
                named = (b := blamed.get(members[0])) is not None and b.cause is not None
                members.insert(len(members) if named else 0, tensor)
                break
        else:
            groups.append((weights, [tensor]))
    return [tuple(members) for _, members in groups if len(members) > 1]


def _alike(key: Hashable, a: Blame | None, b: Blame | None) -> bool:
    causes = [blame.cause for blame in (a, b) if blame is not None and blame.cause is not None]
    if isinstance(key, _Kin):
        # Each reads values of its own, so that numbers differ, and what one shows the next may not tell.
        return len({_NUMBER.sub("", c.sentence) for c in causes}) <= 1
    return len(causes) == 2 and len({(c.kind, c.sentence) for c in causes}) == 1


_NUMBER = re.compile(r"\d+(\.\d+)?")


class _Kin(NamedTuple):
    """What the repertoire of a network says that a segment belongs to."""

    to: Hashable


def _weights(pair: Pair, context: Context) -> set[Hashable]:
    """What ties a segment to others: the weights it reads, told by where their data lie, and its kin.

    Vectors and scalars are shared by chance.
    """
    found = context.frontier(pair) if pair.site.tensor in context.graph.producer else None
    if found is None:
        return set()
    layers = [context.graph.layers[i] for i in found[0]]
    read = {n for layer in layers for n in layer.inputs if n is not None}
    held = (context.graph.constants[n] for n in read if n in context.graph.constants)
    weights: set[Hashable] = {
        _identity(t) for t in held if isinstance(t, torch.Tensor) and t.dim() > 1 and t.numel() > 1
    }
    last = context.graph.layers[context.graph.producer[pair.site.tensor]]
    if (kin := (context.repertoire or GENERAL).kin(last)) is not None:
        weights.add(_Kin(kin))
    return weights


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
    # Without these segments the output may be further off: then they explain nothing.
    return best if len(best.tensors) > len(findings) and best.explains > 0 else None
