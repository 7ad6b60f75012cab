"""Nondeterminism: the error lies where two equal runs of the twin differ."""

from __future__ import annotations

import numpy as np
import torch

from twinnet.blame.problem import Problem
from twinnet.result import Cause, fact

__all__ = ["unsteady"]

_SHARE = 0.99


def unsteady(problem: Problem, varying: np.ndarray, spread: float) -> Cause | None:
    """The cause, if nearly all of a segment's error lies where two equal runs of the twin differ.

    `varying` marks those elements. Something that is wrong in the same way in every run is another fault.

    >>> from twinnet.layers import Layer
    >>> x = torch.zeros(2, 3)
    >>> got = torch.tensor([[0.0, 0.5, 0.0], [0.0, 0.0, 0.0]])
    >>> problem = Problem((Layer("identity", ("x",), ("y",)),), {}, {"x": x}, "y", got)
    >>> unsteady(problem, got.numpy() != 0, 0.75).sentence
    'two equal runs of the twin differ here by 0.75, in 1 of 6 elements'
    """
    if not problem.same_shape or varying.shape != tuple(problem.wanted.shape):
        return None
    off = (problem.wanted != problem.expected).double()
    error = problem.error.abs().double() if problem.is_float else off
    finite = torch.where(error.isfinite(), error, error[error.isfinite()].max() if error.numel() else 0.0)
    total = float((finite**2).sum())
    if not total:
        return None
    share = float((finite[torch.from_numpy(varying)] ** 2).sum()) / total
    if share < _SHARE:
        return None
    count = int(varying.sum())
    found = fact("nondeterminism", network=0.0, twin=spread, count=count, elements=varying.size)
    return Cause("nondeterminism", found, min(share, 1.0))
