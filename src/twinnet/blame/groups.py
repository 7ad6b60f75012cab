"""Segments that belong together: those that share one fault, and those that explain the output only together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from twinnet.blame.context import Blame, Context, problem_of
from twinnet.blame.contributors import rank
from twinnet.blame.impact import output_error
from twinnet.blame.problem import NotApplicable, Patch
from twinnet.blame.repertoire import GENERAL
from twinnet.blame.simulate import simulate
from twinnet.errors import EngineError
from twinnet.network.arrays import to_tensor
from twinnet.pairing import Pair
from twinnet.result import Cause, Fact, fact

__all__ = ["ENOUGH", "Group", "Tied", "merge_until_explained", "tied"]

ENOUGH = 0.9
"""The share of the output error that findings must explain; below it segments are merged."""

_MOST = 8


@dataclass(frozen=True)
class Group:
    """Segments by their network tensors, and the share of the output error that they explain together."""

    tensors: tuple[str, ...]
    explains: float


@dataclass(frozen=True)
class Tied:
    """Findings of one fault by their network tensors, the one that names the cause first, and why they are one."""

    tensors: tuple[str, ...]
    why: Fact


def tied(tensors: Sequence[str], context: Context, blamed: Mapping[str, Blame]) -> list[Tied]:
    """Group the findings of one fault.

    These are segments with the same guilty layer, whose own tensor is not observed; segments that read the same weight
    and do the same wrong with it; and segments that are kin by the repertoire of the network.
    """
    groups: list[_Growing] = []
    pairs = {p.site.tensor: p for p in context.pairs}
    for tensor in tensors:
        shared = _shared(pairs[tensor], context) if tensor in pairs else set()
        for group in groups:
            why = _one_fault(group.shared & shared, (group.members[0], tensor), context, blamed)
            if why is not None:
                named = (b := blamed.get(group.members[0])) is not None and b.cause is not None
                group.members.insert(len(group.members) if named else 0, tensor)
                group.why = group.why or why
                break
        else:
            groups.append(_Growing(shared, [tensor]))
    return [Tied(tuple(g.members), g.why) for g in groups if g.why is not None]


@dataclass
class _Growing:
    shared: set[_Key]
    members: list[str]
    why: Fact | None = None


def _one_fault(
    shared: set[_Key], tensors: tuple[str, str], context: Context, blamed: Mapping[str, Blame]
) -> Fact | None:
    """Why two findings that share these keys are one fault; None if they are not."""
    first, second = (blamed.get(tensor) for tensor in tensors)
    causes = [blame.cause for blame in (first, second) if blame is not None and blame.cause is not None]
    for key in shared:
        if isinstance(key, _Layer) and _same_layer(key, tensors, context, blamed):
            layer = context.graph.layers[context.graph.producer[key.tensor]]
            return fact("tie.layer", layer=layer.label)
    for key in shared:
        if isinstance(key, _Kin) and len({(c.fact.code, _names(c.fact)) for c in causes}) <= 1:
            # Each reads different values, so numbers differ, and one may show what another does not.
            return key.why
        if isinstance(key, _Weight) and len(causes) == 2 and _alike(*causes):
            return fact("tie.weight")
    return None


def _alike(one: Cause, other: Cause) -> bool:
    return (one.kind, one.fact) == (other.kind, other.fact)


def _names(found: Fact) -> tuple[str, ...]:
    """The strings among a fact's parameters."""
    return tuple(value for value in found.params.values() if isinstance(value, str))


def _same_layer(key: _Layer, tensors: tuple[str, str], context: Context, blamed: Mapping[str, Blame]) -> bool:
    """Whether the cause of one finding is this layer, and explains the other one too."""
    for known, other in (tensors, tensors[::-1]):
        one, two = blamed.get(known), blamed.get(other)
        if (
            one is None
            or one.cause is None
            or one.cause.layer is None
            or one.cause.layer.tensor != key.tensor
        ):
            continue
        theirs = two.cause if two is not None else None
        if theirs is not None and theirs.layer is not None:
            return theirs.layer.tensor == key.tensor and theirs.kind == one.cause.kind
        if one.patch is not None and _explains(one.patch, key, other, context):
            return True
    return False


def _explains(patch: Patch, key: _Layer, tensor: str, context: Context) -> bool:
    """Whether the same patch of layer `key` explains another segment too."""
    pair = next((p for p in context.pairs if p.site.tensor == tensor), None)
    try:
        problem = None if pair is None else problem_of(pair, context)
        if problem is None:
            return False
        at = next((i for i, layer in enumerate(problem.layers) if key.tensor in layer.outputs), None)
        if at is None:
            return False
        score = problem.score(Patch(at, at + 1, patch.layers, patch.constants))
    except (NotApplicable, EngineError):
        return False
    return score is not None and score.named()


class _Kin(NamedTuple):
    """The group that the repertoire of a network puts a segment into."""

    why: Fact


class _Layer(NamedTuple):
    """A layer inside a segment, by the tensor it makes."""

    tensor: str


class _Weight(NamedTuple):
    """A weight, identified by the address of its data."""

    address: int


_Key = _Kin | _Layer | _Weight


def _shared(pair: Pair, context: Context) -> set[_Key]:
    """What a segment may share with another: weights, layers before its end, and its kin.

    Vectors and scalars do not count: they are shared by chance.
    """
    found = context.frontier(pair) if pair.site.tensor in context.graph.producer else None
    if found is None:
        return set()
    layers = [context.graph.layers[i] for i in found[0]]
    read = {n for layer in layers for n in layer.inputs if n is not None}
    held = (context.graph.constants[n] for n in read if n in context.graph.constants)
    keys: set[_Key] = {
        _Weight(int(t.data_ptr()))
        for t in held
        if isinstance(t, torch.Tensor) and t.dim() > 1 and t.numel() > 1
    }
    keys |= {_Layer(n) for layer in layers for n in layer.outputs[:1] if n and n != pair.site.tensor}
    last = context.graph.layers[context.graph.producer[pair.site.tensor]]
    if (kin := (context.repertoire or GENERAL).kin(last)) is not None:
        keys.add(_Kin(kin))
    return keys


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
    """The findings and as many other segments as it takes to explain most of the output error.

    None if the findings explain it by themselves. The others join in the order of their impact.
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
