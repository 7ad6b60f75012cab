"""What can be said about an error whose cause is not known: where it is, which way it goes, how much of
the tensor.
"""

from __future__ import annotations

import difflib

import torch

from twinnet.blame.problem import Problem

__all__ = ["describe", "layers_apart"]


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
"""Layers that come and go as a network is converted, and compute nothing."""


def describe(problem: Problem) -> str:
    """The evidence in one sentence: share of elements, sign, channels, border.

    >>> from twinnet.layers import Layer
    >>> x = torch.zeros(1, 4, 8, 8)
    >>> got = x.clone(); got[:, 2] = 1.0
    >>> describe(Problem((Layer("identity", ("x",), ("y",)),), {}, {"x": x}, "y", got))
    '25 % of the elements differ, all too large, only in channel 2 of 4'
    """
    if not problem.same_shape:
        return f"shape {_dims(problem.wanted)} where the network has {_dims(problem.expected)}"
    error = problem.error if problem.is_float else (problem.wanted != problem.expected).double()
    off = error.abs() > 4 * problem.floor if problem.is_float else error != 0
    count = int(off.sum())
    if not count:
        return ""
    share = count / off.numel()
    parts = [
        f"{count} of {off.numel()} elements differ"
        if share < 0.01
        else f"{round(100 * share)} % of the elements differ"
    ]
    if problem.is_float:
        signs = torch.sign(error[off])
        up = float((signs > 0).double().mean())
        parts += ["all too large"] if up == 1 else ["all too small"] if up == 0 else []
    parts += _where(off)
    return ", ".join(parts)


def layers_apart(problem: Problem) -> str:
    """Which layers only one side has here, where the twin's own are known and the others correspond; else nothing.

    >>> from twinnet.layers import Graph, Layer
    >>> ours = (Layer("relu", ("x",), ("y",)),)
    >>> theirs = Graph((Layer("conv", ("x", "w"), ("a",)), Layer("relu", ("a",), ("y",))), ("x",), ("y",))
    >>> layers_apart(Problem(ours, {}, {"x": torch.ones(1)}, "y", torch.ones(1), twin=theirs))
    'only the twin has here: conv'
    """
    if problem.twin is None:
        return ""
    ours, theirs = ([x.kind for x in g if x.kind not in _MOVES] for g in (problem.layers, problem.twin))
    more, less = [], []
    for what, a, b, c, d in difflib.SequenceMatcher(a=ours, b=theirs, autojunk=False).get_opcodes():
        if what == "replace":  # other words for the same, as likely as not
            return ""
        more += theirs[c:d] if what == "insert" else []
        less += ours[a:b] if what == "delete" else []
    said = [f"only the twin has here: {_listed(more)}"] if more else []
    said += [f"only the network has here: {_listed(less)}"] if less else []
    return ", ".join(said)


def _listed(names: list[str]) -> str:
    return " ".join(name.replace("_", " ") + "," for name in names[:6]).rstrip(",") + (
        " ..." if len(names) > 6 else ""
    )


def _where(off: torch.Tensor) -> list[str]:
    said: list[str] = []
    if off.dim() >= 2:
        axis = 1 if off.dim() > 2 else off.dim() - 1
        hit = off.movedim(axis, 0).reshape(off.shape[axis], -1).any(1)
        which = hit.nonzero().reshape(-1).tolist()
        if len(which) < len(hit):
            noun = "channel" if len(which) == 1 else "channels"
            shown = ", ".join(map(str, which[:4])) + (" ..." if len(which) > 4 else "")
            said.append(f"only in {noun} {shown} of {len(hit)}")
    if off.dim() > 2:
        for axis in range(2, off.dim()):
            size = off.shape[axis]
            hit = off.movedim(axis, 0).reshape(size, -1).any(1).nonzero().reshape(-1).tolist()
            if size > 4 and len(hit) <= size // 2:
                edge = " (the border)" if all(h < 2 or h >= size - 2 for h in hit) else ""
                shown = ", ".join(map(str, hit[:4])) + (" ..." if len(hit) > 4 else "")
                said.append(f"only at {shown} of {size} along axis {axis}{edge}")
    return said


def _dims(t: torch.Tensor) -> str:
    return "x".join(map(str, t.shape)) or "scalar"
