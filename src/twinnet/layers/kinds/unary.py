"""Functions of one operand, element by element.

Each row: the function, how far an input error `e` moves it (exact where the function is steep, so that a
singularity inside the error gives `inf` and not a small number), and its own rounding in units of u: relative
to |y|, plus an absolute part for functions that engines compute by a formula with absolute error (erf: 8u;
log: u/2).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from twinnet.layers.kinds._base import Attrs, Error, Errors, Kind, Tensors, add_up, register, scaled

Fn = Callable[[torch.Tensor], torch.Tensor]
Carry = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]

_INF = float("inf")


def unary(
    name: str, fn: Fn, carry: Carry, relative: float = 0.0, absolute: float = 0.0, exact: bool = False
) -> None:
    """Register a function of one operand; `carry(x, y, e)` works on float32 copies."""

    def evaluate(attrs: Attrs, x: torch.Tensor) -> tuple[torch.Tensor]:
        if x.is_floating_point() or not exact:
            return (fn(x.to(torch.float64)),)
        return (fn(x.to(torch.int64)).to(x.dtype),)

    def error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
        y, e = outputs[0], errors[0]
        own = scaled(y, relative * u)
        if absolute and u:
            own = torch.full(y.shape, absolute * u) if own is None else own.add_(absolute * u)
        moved = None if e is None else carry(inputs[0].to(torch.float32), y.to(torch.float32), e)
        return (add_up(y, own, moved),)

    register(Kind(name, evaluate, error, exact=exact, elementwise=True))


def _sqrt(x: torch.Tensor, y: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
    return torch.where(x > e, e / (y + (x - e).clamp_(min=0).sqrt_()), e.sqrt())


def _rsqrt(x: torch.Tensor, y: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
    return torch.where(x > e, y * torch.expm1(-0.5 * torch.log1p(-e / x)), _INF)


def _reciprocal(x: torch.Tensor, y: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
    return torch.where(x.abs() > e, e / (x.abs() * (x.abs() - e)), _INF)


def _log(scale: float, offset: float = 0.0) -> Carry:
    def carry(x: torch.Tensor, y: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
        x = x + offset
        return torch.where(x > e, torch.log1p(-e / x) * -scale, _INF)

    return carry


def _tan(x: torch.Tensor, y: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
    room = 1 - y.abs() * e
    return torch.where(room > 0, (1 + y * y) * e / room, _INF)


def _arc(x: torch.Tensor, y: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
    far = x.abs() + e
    return torch.where(far < 1, e / (1 - far * far).clamp_(min=0).sqrt_(), (8 * e).sqrt())


def _acosh(x: torch.Tensor, y: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
    near = x - e
    return torch.where(near > 1, e / (near * near - 1).clamp_(min=0).sqrt_(), (8 * e).sqrt())


def _atanh(x: torch.Tensor, y: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
    far = x.abs() + e
    return torch.where(far < 1, e / (1 - far * far), _INF)


def _plain(x: torch.Tensor, y: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
    return e


_LN2, _LN10 = math.log(2.0), math.log(10.0)
_TABLE: tuple[tuple[Any, ...], ...] = (
    ("neg", torch.neg, _plain, 0, 0, True),
    ("abs", torch.abs, _plain, 0, 0, True),
    ("sqrt", torch.sqrt, _sqrt, 1),
    ("rsqrt", torch.rsqrt, _rsqrt, 3),
    ("reciprocal", torch.reciprocal, _reciprocal, 2),
    ("square", torch.square, lambda x, y, e: (2 * x.abs() + e) * e, 1),
    ("exp", torch.exp, lambda x, y, e: y * torch.expm1(e), 4),
    ("exp2", torch.exp2, lambda x, y, e: y * torch.expm1(e * _LN2), 4),
    ("expm1", torch.expm1, lambda x, y, e: (y + 1) * torch.expm1(e), 4, 0.5),
    ("log", torch.log, _log(1.0), 3, 0.5),
    ("log1p", torch.log1p, _log(1.0, 1.0), 3, 0.5),
    ("log2", torch.log2, _log(1 / _LN2), 3, 1.0),
    ("log10", torch.log10, _log(1 / _LN10), 3, 0.5),
    ("sin", torch.sin, lambda x, y, e: e.clamp(max=2.0), 0, 4),
    ("cos", torch.cos, lambda x, y, e: e.clamp(max=2.0), 0, 4),
    ("tan", torch.tan, _tan, 8),
    ("asin", torch.asin, _arc, 4, 4),
    ("acos", torch.acos, _arc, 4, 4),
    ("atan", torch.atan, lambda x, y, e: e.clamp(max=math.pi), 4),
    ("sinh", torch.sinh, lambda x, y, e: torch.cosh(x.abs() + e) * e, 4, 4),
    ("cosh", torch.cosh, lambda x, y, e: torch.sinh(x.abs() + e) * e, 4),
    ("asinh", torch.asinh, _plain, 4, 4),
    ("acosh", torch.acosh, _acosh, 4, 4),
    ("atanh", torch.atanh, _atanh, 4, 4),
    ("erf", torch.erf, lambda x, y, e: (e * 1.1284).clamp_(max=2.0), 0, 8),
    ("erfc", torch.erfc, lambda x, y, e: (e * 1.1284).clamp_(max=2.0), 0, 8),
)
for _name, _fn, _carry, *_own in _TABLE:
    unary(_name, _fn, _carry, *_own)  # pyright: ignore[reportArgumentType]
