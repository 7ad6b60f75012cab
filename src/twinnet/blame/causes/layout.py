"""Layout: axes permuted, swapped, flipped, or values read in another order before a reshape."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from twinnet.blame.causes.family import Candidate, changed, family
from twinnet.blame.problem import Patch, Problem
from twinnet.layers.graph import Layer
from twinnet.result import Fact, fact

_NAMES = {3: "NCW", 4: "NCHW", 5: "NCDHW"}


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    for i, layer in enumerate(problem.layers):
        if layer.kind == "transpose":
            yield from _transpose(problem, i, layer)
        elif layer.kind in ("reshape", "flatten", "squeeze", "unsqueeze"):
            yield from _reshape(problem, i)
        elif layer.kind in ("depth_to_space", "space_to_depth"):
            ours = layer.attrs.get("mode", "CRD" if layer.kind == "depth_to_space" else "DCR")
            other = "DCR" if ours == "CRD" else "CRD"
            found = fact("layout.blocks", operator=layer.kind, network=ours, twin=other)
            yield changed("layout", found, i, mode=other)
            yield from _as_stored(problem, i)
    yield from _output(problem)
    yield from _inputs(problem)


def _transpose(problem: Problem, i: int, layer: Layer) -> Iterator[Candidate]:
    x = problem.tensor(i, 0)
    ours = tuple(layer.attrs.get("perm") or reversed(range(x.dim())))
    if x.dim() > 6:
        return
    for perm in itertools.permutations(range(x.dim())):
        if perm != ours and tuple(x.shape[a] for a in perm) == tuple(x.shape[a] for a in ours):
            yield changed("layout", fact("layout.permuted", network=ours, twin=perm), i, perm=perm)
    if not problem.same_shape and problem.wanted.shape == x.shape:
        yield Candidate(
            kind="layout",
            fact=fact("layout.not_transposed", network=ours, twin=tuple(range(x.dim()))),
            change=lambda p: p.drop(i),
        )


def _reshape(problem: Problem, i: int) -> Iterator[Candidate]:
    """The data read with its axes in another order, as when a file in NHWC is flattened."""
    x = problem.tensor(i, 0)
    if not 2 <= x.dim() <= 5 or sum(n > 1 for n in x.shape) < 2:
        return
    for perm in itertools.permutations(range(x.dim())):
        if perm == tuple(range(x.dim())):
            continue
        # Moving axes of length 1 changes nothing.
        moved = [a for a in perm if x.shape[a] > 1]
        if moved == sorted(moved):
            continue
        named = _NAMES.get(x.dim())
        order = "".join(named[a] for a in perm) if named else perm
        ours = named or tuple(range(x.dim()))
        yield Candidate(
            kind="layout",
            fact=fact("layout.read_in_order", network=ours, twin=order),
            change=lambda p, o=perm: p.first(i, 0, "transpose", perm=o),
        )


def _as_stored(problem: Problem, i: int) -> Iterator[Candidate]:
    """An image with its channels last in memory, read as if they came first."""
    x, layer = problem.tensor(i, 0), problem.layers[i]
    if x.dim() != 4 or x.shape[1] == 1 or x.shape[2] * x.shape[3] == 1:
        return
    name = layer.inputs[0] or ""
    stored, read = f"{name} (as stored)", f"{name} (as read)"
    steps = (
        Layer("transpose", (name,), (stored,), {"perm": (0, 2, 3, 1)}),
        Layer("reshape", (stored,), (read,), {"shape": tuple(x.shape)}),
        replace(layer, inputs=(read, *layer.inputs[1:])),
    )
    yield Candidate(
        kind="layout", fact=fact("layout.as_stored"), change=lambda p: Patch(i, i + 1, steps), cost=1.25
    )


def _output(problem: Problem) -> Iterator[Candidate]:
    """The result transposed or mirrored as a whole."""
    y, last = problem.expected, len(problem.layers) - 1
    if y.dim() > 5 or not y.numel():
        return
    for a, b in itertools.combinations(range(y.dim()), 2):
        perm = list(range(y.dim()))
        perm[a], perm[b] = b, a
        if tuple(y.shape[p] for p in perm) == tuple(problem.wanted.shape) and max(y.shape[a], y.shape[b]) > 1:
            yield Candidate(
                kind="layout",
                fact=fact("layout.result_swapped", axes=(a, b)),
                change=lambda p, o=tuple(perm): p.then(last, "transpose", perm=o),
                cost=1.25,
            )
    if not problem.same_shape:
        return
    for axis in range(y.dim()):
        if y.shape[axis] > 1 and not (axis == 1 and y.dim() > 2):
            yield Candidate(
                kind="layout",
                fact=fact("layout.result_mirrored", axis=axis),
                change=lambda p, a=axis: p.then(last, "flip", axes=(a,)),
                cost=1.25,
            )


def _inputs(problem: Problem) -> Iterator[Candidate]:
    """An operand read with its two last axes swapped, or mirrored."""
    for i, layer in enumerate(problem.layers):
        if layer.kind not in ("conv", "matmul", "gemm", "linear", "attention", "add", "mul", "concat"):
            continue
        for place, name in enumerate(layer.inputs[:3]):
            x = problem.operand(i, place)
            if name is None or name in problem.constants or not isinstance(x, torch.Tensor) or x.dim() < 2:
                continue
            if x.shape[-1] == x.shape[-2] > 1:
                perm = (*range(x.dim() - 2), x.dim() - 1, x.dim() - 2)
                yield _moved(fact("layout.operand_swapped", operand=place), i, place, "transpose", perm=perm)
            for axis in range(2, x.dim()) if layer.kind == "conv" else ():
                if x.shape[axis] > 1:
                    yield _moved(fact("layout.data_mirrored", axis=axis), i, place, "flip", axes=(axis,))


def _moved(found: Fact, i: int, place: int, how: str, **attrs: Any) -> Candidate:
    """The operand of a layer at `place` moved by a layer of kind `how` before it is read."""
    return Candidate(kind="layout", fact=found, change=lambda p: p.first(i, place, how, **attrs), cost=1.25)
