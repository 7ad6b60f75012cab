"""Describes an error of unknown cause: where it is, its sign, and how much of the tensor it affects."""

from __future__ import annotations

import difflib

import torch

from twinnet.blame.problem import Problem
from twinnet.result import Fact, fact

__all__ = ["constant", "describe", "layers_apart"]

_ENOUGH = 16
"""A result of fewer elements may hold one value only by chance."""

_MOVES = {
    "transpose",
    "reshape",
    "flatten",
    "squeeze",
    "unsqueeze",
    "expand",
    "identity",
    "cast",
    "constant_of_shape",
}
"""Layers that converters add and remove freely; they compute nothing."""


def describe(problem: Problem) -> Fact | None:
    """The evidence: share of elements, sign, channels, border. None if nothing differs.

    >>> from twinnet.layers import Layer
    >>> x = torch.zeros(1, 4, 8, 8)
    >>> got = x.clone(); got[:, 2] = 1.0
    >>> str(describe(Problem((Layer("identity", ("x",), ("y",)),), {}, {"x": x}, "y", got)))
    '25 % of the elements differ, all too large, only in channel 2 of 4'
    """
    if not problem.same_shape:
        return fact("shape.differs", network=tuple(problem.expected.shape), twin=tuple(problem.wanted.shape))
    error = problem.error if problem.is_float else (problem.wanted != problem.expected).double()
    off = error.abs() > 4 * problem.floor if problem.is_float else error != 0
    count = int(off.sum())
    if not count:
        return None
    sign = None
    if problem.is_float:
        up = float((torch.sign(error[off]) > 0).double().mean())
        sign = "too large" if up == 1 else "too small" if up == 0 else None
    channels, places = _where(off)
    return fact("evidence", count=count, elements=off.numel(), sign=sign, channels=channels, places=places)


def constant(problem: Problem) -> Fact | None:
    """That the twin's result is one number everywhere, where the network's is not; None if it is not so.

    Whatever ends in one number explains that equally well: a ReLU of negative numbers, a factor of 0, a bound.

    >>> from twinnet.layers import Layer
    >>> x = torch.linspace(-2, -1, 32)
    >>> str(constant(Problem((Layer("identity", ("x",), ("y",)),), {}, {"x": x}, "y", torch.zeros(32))))
    "the twin's result is 0 everywhere"
    """
    if not (problem.same_shape and problem.is_float) or problem.wanted.numel() < _ENOUGH:
        return None
    ours, theirs = problem.expected.reshape(-1), problem.wanted.reshape(-1)
    if not bool((theirs == theirs[0]).all()) or bool((ours == ours[0]).all()):
        return None
    return fact("evidence.constant", value=float(theirs[0]))


def layers_apart(problem: Problem) -> Fact | None:
    """The layers that only one side has here; None if the twin's are not known or do not correspond.

    >>> from twinnet.layers import Graph, Layer
    >>> ours = (Layer("relu", ("x",), ("y",)),)
    >>> theirs = Graph((Layer("conv", ("x", "w"), ("a",)), Layer("relu", ("a",), ("y",))), ("x",), ("y",))
    >>> str(layers_apart(Problem(ours, {}, {"x": torch.ones(1)}, "y", torch.ones(1), twin=theirs)))
    'only the twin has here: conv'
    """
    if problem.twin is None:
        return None
    ours, theirs = ([x.kind for x in g if x.kind not in _MOVES] for g in (problem.layers, problem.twin))
    more, less = [], []
    for what, a, b, c, d in difflib.SequenceMatcher(a=ours, b=theirs, autojunk=False).get_opcodes():
        if what == "replace":  # probably the same, written in another way
            return None
        more += theirs[c:d] if what == "insert" else []
        less += ours[a:b] if what == "delete" else []
    return fact("layers.apart", network=tuple(less), twin=tuple(more)) if more or less else None


def _where(off: torch.Tensor) -> tuple[object, tuple[object, ...]]:
    """In which channels, as (those, of how many), if not in all; and at which positions of which axes, if at few."""
    channels, places = None, []
    if off.dim() >= 2:
        axis = 1 if off.dim() > 2 else off.dim() - 1
        hit = off.movedim(axis, 0).reshape(off.shape[axis], -1).any(1)
        which = hit.nonzero().reshape(-1).tolist()
        if len(which) < len(hit):
            channels = (_few(which), len(hit))
    if off.dim() > 2:
        for axis in range(2, off.dim()):
            size = off.shape[axis]
            hit = off.movedim(axis, 0).reshape(size, -1).any(1).nonzero().reshape(-1).tolist()
            if size > 4 and len(hit) <= size // 2:
                places.append((_few(hit), size, axis, all(h < 2 or h >= size - 2 for h in hit)))
    return channels, tuple(places)


def _few(positions: list[int]) -> tuple[int, ...]:
    """The first few: one more than is shown, so that the sentence can say there are others."""
    return tuple(positions[:5])
