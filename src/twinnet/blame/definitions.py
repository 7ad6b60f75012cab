"""Where engines differ by definition: places at which an operator has no agreed result, or only few digits.

Such a difference is not the fault of the conversion. It is still a difference, so it is judged like any other, and the
finding says what it is about.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from twinnet.blame.problem import Problem
from twinnet.layers.graph import Layer
from twinnet.result import Fact, fact

__all__ = ["by_definition"]

_MASKED = -1e30
"""What masks add to mean minus infinity."""

_SELECT = {"max", "min", "relu", "clip", "reduce_max", "reduce_min", "max_pool", "sign", "argmax", "argmin"}


def by_definition(problem: Problem, *, surely: bool = False) -> Fact | None:
    """Why the sides may differ here although both do as documented; None if that does not explain where they do.

    `surely` takes it only where every differing element is known to be such a place.

    >>> ours = (Layer("div", ("x", "y"), ("z",)),)
    >>> x, y = torch.tensor([1.0, 2.0]), torch.tensor([0.0, 1.0])
    >>> by_definition(Problem(ours, {}, {"x": x, "y": y}, "z", torch.tensor([0.0, 2.0]))).code
    'definition.division'
    """
    if not problem.same_shape:
        return None
    if problem.is_float:
        off = ~(problem.error.abs() <= 4 * problem.floor)
    else:
        off = problem.wanted != problem.expected
    for i, layer in enumerate(problem.layers):
        rule = _RULES.get(layer.kind) or (_fourier if layer.op.startswith("fft_") else None)
        found = None if rule is None else rule(problem, i, layer)
        if found is not None and _only_there(off, found[0], surely):
            return found[1]
    return None


Places = tuple[torch.Tensor | None, Fact]
"""Elements that may differ (None: all), and why."""


def _only_there(off: torch.Tensor, places: torch.Tensor | None, surely: bool) -> bool:
    """Whether all differing elements are at these places; with another shape, whether there are such places."""
    if places is None:
        return not surely
    if not bool(places.any()):
        return False
    try:
        return not bool((off & ~places.expand(off.shape)).any())
    except RuntimeError:  # a later layer moved them
        return not surely


def _division(problem: Problem, i: int, layer: Layer) -> Places | None:
    by = problem.tensor(i, 1)
    return by == 0, fact("definition.division", integer=not by.is_floating_point())


def _remainder(problem: Problem, i: int, layer: Layer) -> Places | None:
    x, by = problem.tensor(i, 0).double(), problem.tensor(i, 1).double()
    if bool((by == 0).any()):
        return by == 0, fact("definition.division", integer=True)
    turns = x / by
    near = (turns - turns.round()).abs() <= 16 * problem.unit * turns.abs().clamp_min(1)
    exact = (x == x.round()) & (by == by.round())  # whole numbers leave nothing to round
    return near & ~exact, fact("definition.remainder")


def _masked_rows(problem: Problem, i: int, layer: Layer) -> Places | None:
    if layer.kind == "softmax":
        axis = layer.attrs.get("axis", -1)
        empty = (problem.tensor(i, 0) <= _MASKED).all(axis, keepdim=True)
    else:
        mask = problem.operand(i, 3)
        if not isinstance(mask, torch.Tensor):
            return None
        seen = mask if mask.dtype == torch.bool else mask > _MASKED
        empty = ~seen.any(-1, keepdim=True)
    return empty, fact("definition.masked_row", operator=layer.kind)


def _log_sigmoid(problem: Problem, i: int, layer: Layer) -> Places | None:
    x = problem.tensor(i, 0)
    if problem.twin is not None and not {"sigmoid", "log"} <= {t.kind for t in problem.twin}:
        return None
    # Sigmoid is rounded by about 8 units of 1, which is that over its own size in the logarithm.
    lost = 8 * problem.unit * torch.exp(-x) > 4 * problem.unit * (8 + x.abs())
    return lost, fact("definition.log_sigmoid", below=float(x[lost].max()) if bool(lost.any()) else 0.0)


def _selects_nan(problem: Problem, i: int, layer: Layer) -> Places | None:
    x = problem.tensor(i, 0)
    if not x.is_floating_point():
        return None
    nan = x.isnan()
    places = nan if nan.shape == problem.expected.shape else nan.any()
    return places, fact("definition.nan", operator=layer.kind)


def _fourier(problem: Problem, i: int, layer: Layer) -> Places | None:
    lengths = [n for n in layer.attrs.get("lengths", ()) if n & (n - 1)]
    return (
        (None, fact("definition.fourier", length=lengths[0], next=2 ** math.ceil(math.log2(lengths[0]))))
        if lengths
        else None
    )


_RULES: dict[str, Callable[[Problem, int, Layer], Places | None]] = {
    "div": _division,
    "reciprocal": lambda problem, i, layer: (
        problem.tensor(i, 0) == 0,
        fact("definition.division", integer=False),
    ),
    "mod": _remainder,
    "softmax": _masked_rows,
    "attention": _masked_rows,
    "log_sigmoid": _log_sigmoid,
    **dict.fromkeys(_SELECT, _selects_nan),
}
