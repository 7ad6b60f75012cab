"""What can be said about an error whose cause is not known: where it is, which way it goes, how much of
the tensor.
"""

from __future__ import annotations

import torch

from twinnet.blame.problem import Problem

__all__ = ["describe"]


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
