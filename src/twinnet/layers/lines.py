"""Functions that a kernel draws as straight lines between the values of a table.

Kernels with 16-bit activations hold 513 values of a function, 128 steps of the data apart. Each value is moved by half
of what the line is off in the middle of the stretch behind it, so that the curve lies on both sides of its lines. Where
a curve bends sharply (1 / sqrt(x) near 0) they are far off: by how much at each place follows from the two steps.
"""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["drawn", "lines_off"]

_STRETCHES = 512
_LOW, _HIGH = -(2**15), 2**15 - 1


def drawn(kind: Any, attrs: Any, x: torch.Tensor) -> torch.Tensor:
    """What lines give for a function of x; `attrs["lines"]` are the steps of its data and of its result.

    >>> from twinnet.layers import kinds
    >>> x = torch.tensor([0.01, 0.5], dtype=torch.float64)
    >>> lines = drawn(kinds.get("rsqrt"), {"lines": (2**-15, 2**-11)}, x)
    >>> [round(float(v), 3) for v in lines * x.sqrt()]
    [1.011, 1.0]
    """
    step, made = attrs["lines"]
    # The table ends at the largest integer, not behind it: its stretches are a little shorter than 128 steps.
    stretch = step * (_HIGH - _LOW) / _STRETCHES
    unit = made * (_HIGH - _LOW) / 2**16

    # Where a function is not defined, the table holds the end that it tends to at 0.
    (end,) = kind.evaluate(attrs, torch.zeros((), dtype=torch.float64))
    undefined = float(_LOW if end < 0 else _HIGH)

    def at(place: torch.Tensor) -> torch.Tensor:
        (y,) = kind.evaluate(attrs, step * _LOW + place * stretch)
        return torch.where(y.isfinite(), y / unit, undefined)

    def value(place: torch.Tensor) -> torch.Tensor:
        here, behind = at(place), at(place + 1)
        off = torch.where(place < _STRETCHES, (here + behind) / 2 - at(place + 0.5), 0.0)
        return (here - off / 2).clamp(_LOW, _HIGH)

    q = (x / step).clamp(_LOW, _HIGH) - _LOW
    place = (q / 128).floor()
    start = value(place)
    return (start + (value(place + 1) - start) * (q / 128 - place)) * made


def lines_off(kind: Any, attrs: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """How far lines are off from y, the function of x, as far as its steps reach."""
    made = attrs["lines"][1]
    return (drawn(kind, attrs, x) - y.clamp(_LOW * made, _HIGH * made)).abs().to(torch.float32)
