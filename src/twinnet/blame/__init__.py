"""Blame: why a segment differs (causes) and how much of the output error it accounts for (impact).

`blame` finds the cause and the impact of failing pairs in a `Context`: the network's canonical graph, the pairs, the
twin's graph where it has one, and the traces of one sample. `solve` explains one segment, given as a `Problem`.

>>> import torch
>>> from twinnet.blame import Problem, solve
>>> from twinnet.layers import Layer
>>> x = torch.linspace(-3, 3, 64).reshape(8, 8)
>>> got = torch.nn.functional.gelu(x, approximate="tanh")
>>> problem = Problem((Layer("gelu", ("x",), ("y",)),), {}, {"x": x}, "y", got)
>>> solve(problem).cause.sentence
'GELU tanh approximation instead of erf'
"""

from __future__ import annotations

from twinnet.blame.causes import FAMILIES, KINDS
from twinnet.blame.context import Blame, Context, blame
from twinnet.blame.problem import Patch, Problem
from twinnet.blame.search import Explanation, solve

__all__ = [
    "FAMILIES",
    "KINDS",
    "Blame",
    "Context",
    "Explanation",
    "Patch",
    "Problem",
    "blame",
    "solve",
]
