"""Arithmetic of two or more operands, element by element, with broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import torch

from twinnet.layers.kinds._base import Attrs, Error, Errors, Kind, Tensors, add_up, mag, register, scaled

_WIDE = {torch.uint16, torch.uint32, torch.uint64}


def same_type(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """Operands as float64 if any of them is a float, else as integers that torch can calculate with.

    Beside a complex one all are complex.
    """
    if any(t.is_complex() for t in tensors):
        return [t.to(torch.complex128) for t in tensors]
    if any(t.is_floating_point() for t in tensors):
        return [t.to(torch.float64) for t in tensors]
    if any(t.dtype in _WIDE for t in tensors):
        return [t.to(torch.int64) for t in tensors]
    return list(tensors)


def back(y: torch.Tensor, *operands: torch.Tensor) -> torch.Tensor:
    """Unsigned types that torch cannot calculate with come back from int64."""
    first = operands[0].dtype
    return y.to(first) if y.dtype == torch.int64 and first in _WIDE else y


def _own(y: torch.Tensor, u: float) -> float:
    return u if y.is_floating_point() or y.is_complex() else 0.0


# add, sub: u(|a| + |b|), not u|y|: engines may compute x + 3 as 6(x/6 + 1/2)


def _add(attrs: Attrs, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor]:
    if a.dtype == b.dtype == torch.bool:
        return (a | b,)
    p, q = same_type(a, b)
    return (back(torch.add(p, q, alpha=attrs.get("alpha", 1)), a),)


def _sub(attrs: Attrs, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor]:
    p, q = same_type(a, b)
    return (back(torch.sub(p, q, alpha=attrs.get("alpha", 1)), a),)


def _add_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    alpha, y = abs(attrs.get("alpha", 1)), outputs[0]
    own = None
    if _own(y, u):
        large, small = sorted(inputs, key=lambda t: -t.numel())
        first, second = mag(large), mag(small)
        if alpha != 1:
            (first if large is inputs[1] else second).mul_(alpha)
        own = (first.add_(second) if first.shape == y.shape else first + second).mul_(u)
    eb = errors[1] if errors[1] is None or alpha == 1 else errors[1] * alpha
    return (add_up(y, own, errors[0], eb),)


register(Kind("add", _add, _add_error, elementwise=True))
register(Kind("sub", _sub, _add_error, elementwise=True))


# mul: u|y| + |a| eb + |b| ea + ea eb


def _mul(attrs: Attrs, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor]:
    p, q = same_type(a, b)
    return (back(p * q, a),)


def _mul_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    (a, b), (ea, eb), y = inputs, errors, outputs[0]
    from_a = None if ea is None else ea * (mag(b) if eb is None else mag(b) + eb)
    from_b = None if eb is None else eb * mag(a)
    return (add_up(y, scaled(y, _own(y, u)), from_a, from_b),)


register(Kind("mul", _mul, _mul_error, elementwise=True))


# div: 2u|y| + (ea + |y| eb) / (|b| - eb), unbounded if the divisor may be zero


def _div(attrs: Attrs, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor]:
    p, q = same_type(a, b)
    rounding = attrs.get("rounding")
    if rounding is None and not p.is_floating_point():
        rounding = "trunc"
    if not p.is_floating_point() and bool((q == 0).any()):  # integer division by zero has no defined value
        q = torch.where(q == 0, torch.ones_like(q), q)
    return (back(torch.div(p, q, rounding_mode=rounding), a),)


def _div_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    (a, b), (ea, eb), y = inputs, errors, outputs[0]
    whole = bool(attrs.get("rounding")) or not y.is_floating_point()
    exact = a.to(torch.float64) / b.to(torch.float64) if whole else y
    room = mag(b) if eb is None else (mag(b) - eb).clamp_(min=0)
    inherited = None
    if eb is not None:
        inherited = mag(exact).mul_(eb)
        inherited = (inherited if ea is None else inherited + ea) / room
    elif ea is not None:
        inherited = ea / room
    if not whole:
        return (add_up(y, scaled(y, 2 * u), inherited),)
    # floor and truncation: one step where the quotient is that close to a whole number
    margin = add_up(y, scaled(exact, 2 * u) if a.is_floating_point() else None, inherited)
    if margin is None:
        return (None,)
    near = (exact - exact.round()).abs().to(torch.float32) <= margin
    return (torch.where(near & (margin > 0), margin + 1, torch.zeros_like(margin)),)


register(Kind("div", _div, _div_error, elementwise=True))


# pow: 4u|y| + |p| (|x| + e)^(p-1) e, and |y log x| ep for the exponent


def _pow(attrs: Attrs, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor]:
    if a.is_floating_point() or b.is_floating_point():
        x, p = a.to(torch.float64), b.to(torch.float64)
        if p.numel() == 1 and p.dim() <= x.dim():
            y = torch.pow(x, float(p))
        else:
            y = torch.pow(x, p)
        return (y if a.is_floating_point() else y.to(a.dtype),)
    return (back(torch.pow(a.to(torch.int64), b.to(torch.int64)), a).to(a.dtype),)


def _pow_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    (x, p), (ex, ep), y = inputs, errors, outputs[0]
    from_x = from_p = None
    if ex is not None:
        power = p.to(torch.float32)
        reach = torch.where(power >= 1, mag(x) + ex, (mag(x) - ex).clamp_(min=0))
        from_x = power.abs() * torch.pow(reach, power - 1) * ex
        from_x = torch.where(power == 0, torch.zeros_like(from_x), from_x)
    if ep is not None:
        from_p = mag(y) * mag(x).log_().abs_() * ep
    return (add_up(y, scaled(y, 4 * _own(y, u)), from_x, from_p),)


register(Kind("pow", _pow, _pow_error, elementwise=True))


# mod: the errors of a and of the subtracted multiple of b; a whole divisor where the result may wrap


def _mod(attrs: Attrs, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor]:
    p, q = same_type(a, b)
    y = torch.fmod(p, q) if attrs.get("fmod") else torch.remainder(p, q)
    return (back(y, a),)


def _mod_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    (a, b), (ea, eb), y = inputs, errors, outputs[0]
    turns = None if eb is None else (mag(a) / mag(b)).ceil_() * eb
    own = None if attrs.get("fmod") else scaled(y, 2 * _own(y, u))  # fmod is exact, floor-mod is not
    moved = add_up(y, own, ea, turns)
    if moved is None:
        return (None,)
    size, rest = mag(b), mag(y)
    near = (rest <= moved) | ((size - rest).abs() <= moved)
    return (torch.where(near & (moved > 0), size.expand_as(moved), moved),)


register(Kind("mod", _mod, _mod_error, elementwise=True))


# atan2: 8u absolute, (|a| eb + |b| ea) / (a^2 + b^2), at most a full turn


def _atan2(attrs: Attrs, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor]:
    return (torch.atan2(*same_type(a, b)),)


def _atan2_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    (a, b), (ea, eb), y = inputs, errors, outputs[0]
    own = None if u == 0 else torch.full(y.shape, 8 * u)
    if ea is None and eb is None:
        return (own,)
    moved = add_up(y, None if eb is None else mag(a) * eb, None if ea is None else mag(b) * ea)
    assert moved is not None
    turned = moved / (mag(a) ** 2 + mag(b) ** 2)
    turned = torch.where(turned.isnan(), 0.0, turned).clamp_(
        max=6.2832
    )  # 0 / 0: nothing moves; else a turn at most
    return (add_up(y, own, turned),)


register(Kind("atan2", _atan2, _atan2_error, elementwise=True))


# max, min: exact; a bound of the result is the largest bound of the operands


def _fold(op: Callable[..., torch.Tensor]) -> Callable[..., tuple[torch.Tensor]]:
    def evaluate(attrs: Attrs, *inputs: torch.Tensor) -> tuple[torch.Tensor]:
        return (back(reduce(op, same_type(*inputs)), inputs[0]),)

    return evaluate


def largest_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    """The bound of a result that is one of the operands."""
    present = [e for e in errors if e is not None]
    if not present:
        return (None,)
    return (reduce(torch.maximum, present).expand(outputs[0].shape),)


register(Kind("max", _fold(torch.maximum), largest_error, exact=True, elementwise=True))
register(Kind("min", _fold(torch.minimum), largest_error, exact=True, elementwise=True))


# sum, mean of k operands: (k-1) u sum|terms|


def _mean(attrs: Attrs, *inputs: torch.Tensor) -> tuple[torch.Tensor]:
    return (reduce(torch.add, same_type(*inputs)) / len(inputs),)


def _sum_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    y = outputs[0]
    own = None
    if _own(y, u):
        own = reduce(torch.add, [mag(t) for t in inputs]) * (max(len(inputs) - 1, 1) * u)
    return (add_up(y, own, *errors),)


def _mean_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    (total,) = _sum_error(attrs, inputs, errors, outputs, u)
    shared = None if total is None else total / len(inputs)
    return (add_up(outputs[0], shared, scaled(outputs[0], u)),)


register(Kind("sum", _fold(torch.add), _sum_error, elementwise=True))
register(Kind("mean", _mean, _mean_error, elementwise=True))


# where: the chosen operand's error; both operands' distance where the condition itself may flip


def _where(attrs: Attrs, c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor]:
    p, q = same_type(a, b)
    return (back(torch.where(c.to(torch.bool), p, q), a),)


def _where_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    c, a, b = inputs
    ec, ea, eb = errors
    if ec is None and ea is None and eb is None:
        return (None,)
    zero = torch.zeros((), dtype=torch.float32)
    e = torch.where(c.to(torch.bool), zero if ea is None else ea, zero if eb is None else eb)
    if ec is not None:
        p, q = same_type(a, b)
        gap = mag(p - q) if p.dtype != torch.bool else (p ^ q).float()
        e = torch.where(ec > 0, e + gap, e)
    return (e.expand(outputs[0].shape),)


register(Kind("where", _where, _where_error, exact=True, elementwise=True))


# lerp: a + t (b - a) and its variants: 4u (|a| + |t| |b - a| + |b|)


def _lerp(attrs: Attrs, a: torch.Tensor, b: torch.Tensor, t: torch.Tensor) -> tuple[torch.Tensor]:
    a, b, t = same_type(a, b, t)
    return (a + t * (b - a),)


def _lerp_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    (a, b, t), (ea, eb, et), y = inputs, errors, outputs[0]
    gap, weight = mag(a - b), mag(t)
    own = (mag(a) + mag(b) + weight * gap) * (4 * u) if u else None
    from_a = None if ea is None else mag(1 - t) * ea
    from_b = None if eb is None else weight * eb
    return (add_up(y, own, from_a, from_b, None if et is None else gap * et),)


register(Kind("lerp", _lerp, _lerp_error, elementwise=True))


# logic and bits: exact; an operand that may flip may flip the result


def _any_flip(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    total = add_up(outputs[0], *errors)
    if total is None:
        return (None,)
    step = 1.0 if outputs[0].dtype == torch.bool else float("inf")
    return (torch.where(total > 0, step, 0.0).to(torch.float32),)


def _bits(op: Callable[..., torch.Tensor]) -> Callable[..., tuple[torch.Tensor]]:
    return lambda attrs, *inputs: (op(*[t.to(torch.int64) for t in inputs]).to(inputs[0].dtype),)


def _bool(op: Callable[..., torch.Tensor]) -> Callable[..., tuple[torch.Tensor]]:
    return lambda attrs, *inputs: (op(*[t.to(torch.bool) for t in inputs]),)


def _shift(attrs: Attrs, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor]:
    p, q = a.to(torch.int64), b.to(torch.int64)
    y = p << q if attrs.get("direction", "left") == "left" else p >> q
    return (y.to(a.dtype),)


_LOGIC: dict[str, Any] = {
    "and": _bool(torch.logical_and),
    "or": _bool(torch.logical_or),
    "xor": _bool(torch.logical_xor),
    "not": _bool(torch.logical_not),
    "bitwise_and": _bits(torch.bitwise_and),
    "bitwise_or": _bits(torch.bitwise_or),
    "bitwise_xor": _bits(torch.bitwise_xor),
    "bitwise_not": _bits(torch.bitwise_not),
    "bit_shift": _shift,
}
for _name, _op in _LOGIC.items():
    register(Kind(_name, _op, _any_flip, exact=True, discrete=True, elementwise=True))
