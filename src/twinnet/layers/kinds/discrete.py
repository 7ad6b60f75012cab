"""Kinds whose result jumps: comparisons, rounding, indices. Bit equal, but near an edge they may flip."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from twinnet.layers.kinds import ints
from twinnet.layers.kinds._base import (
    Attrs,
    Error,
    Errors,
    Flips,
    Kind,
    Tensors,
    add_up,
    mag,
    no_error,
    operand,
    register,
)
from twinnet.layers.kinds.elementwise import same_type

# ---- comparisons: may flip where |a - b| <= ea + eb ----------------------------------------------


def _compare(op: Callable[..., torch.Tensor]) -> Any:
    def evaluate(attrs: Attrs, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor]:
        return (op(*same_type(a, b)),)

    return evaluate


def _compare_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    slack = add_up(outputs[0], *errors)
    if slack is None:
        return (None,)
    a, b = (t.to(torch.float64) for t in inputs)
    return (((a - b).abs().to(torch.float32) <= slack).logical_and_(slack > 0).to(torch.float32),)


for _name, _op in {
    "equal": torch.eq,
    "not_equal": torch.ne,
    "less": torch.lt,
    "less_equal": torch.le,
    "greater": torch.gt,
    "greater_equal": torch.ge,
}.items():
    register(Kind(_name, _compare(_op), _compare_error, exact=True, discrete=True, elementwise=True))


# ---- rounding: one unit where an edge lies within the error --------------------------------------


def _rounding(fn: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    return lambda attrs, x: (fn(x) if x.is_floating_point() else x,)


def steps_across(x: torch.Tensor, e: Error, fn: Callable[[torch.Tensor], torch.Tensor]) -> Error:
    """How far a step function may move when x moves by up to e."""
    if e is None or not x.is_floating_point():
        return e
    wide = e.to(torch.float64)
    y = fn(x)
    return torch.maximum(fn(x + wide) - y, y - fn(x - wide)).abs_().to(torch.float32)


def _rounding_error(fn: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    def error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
        return (steps_across(inputs[0], errors[0], fn),)

    return error


for _name, _fn in {
    "round": torch.round,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "trunc": torch.trunc,
}.items():
    register(Kind(_name, _rounding(_fn), _rounding_error(_fn), exact=True, discrete=True, elementwise=True))


def _sign(attrs: Attrs, x: torch.Tensor) -> tuple[torch.Tensor]:
    return (torch.sign(x if x.is_floating_point() else x.to(torch.int64)).to(x.dtype),)


register(Kind("sign", _sign, _rounding_error(torch.sign), exact=True, discrete=True, elementwise=True))


def _mask(fn: Callable[[Attrs, torch.Tensor], torch.Tensor]) -> Any:
    return lambda attrs, x: (fn(attrs, x.to(torch.float64)),)


def _isnan(attrs: Attrs, x: torch.Tensor) -> torch.Tensor:
    return torch.isnan(x)


def _isinf(attrs: Attrs, x: torch.Tensor) -> torch.Tensor:
    hit = torch.zeros(x.shape, dtype=torch.bool)
    if attrs.get("positive", True):
        hit |= x == math.inf
    if attrs.get("negative", True):
        hit |= x == -math.inf
    return hit


register(Kind("isnan", _mask(_isnan), no_error, exact=True, discrete=True, elementwise=True))
register(Kind("isinf", _mask(_isinf), no_error, exact=True, discrete=True, elementwise=True))


# ---- cast: between floats u_target |y| (a rounding that is allowed, not made); to integers discret

_UNIT = {
    torch.float16: 2.0**-11,
    torch.bfloat16: 2.0**-8,
    torch.float32: 2.0**-24,
    torch.float64: 0.0,
    torch.float8_e4m3fn: 2.0**-4,
    torch.float8_e4m3fnuz: 2.0**-4,
    torch.float8_e5m2: 2.0**-3,
    torch.float8_e5m2fnuz: 2.0**-3,
}


def unit_of(dtype: torch.dtype) -> float:
    """Unit roundoff of a float type."""
    return _UNIT[dtype]


def _cast(attrs: Attrs, x: torch.Tensor) -> tuple[torch.Tensor]:
    to = attrs["to"]
    if to.is_floating_point:
        y = x.to(torch.float64)
        if y.dtype == torch.float64 and to != torch.float64 and y.numel():
            limit = torch.finfo(to).max
            top = y.abs().amax()
            if not top <= limit and bool(((y.abs() > limit * (1 + unit_of(to))) & torch.isfinite(y)).any()):
                over = math.inf if to in (torch.float16, torch.bfloat16, torch.float32) else limit
                y = torch.where(y.abs() > limit * (1 + unit_of(to)), y.sign() * over, y)
        return (y,)
    if to == torch.bool:
        return (x != 0,)
    if x.is_floating_point():
        x = torch.where(x.isnan(), 0.0, x).trunc()
    return (x.to(torch.int64).to(to) if to != torch.uint64 else x.to(to),)


def _cast_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    x, e, y, to = inputs[0], errors[0], outputs[0], attrs["to"]
    if to.is_floating_point:
        coarse = unit_of(to)
        # integers below the mantissa, and floats already no finer than the target, do not round
        if u == 0 or coarse == 0 or (x.is_floating_point() and coarse <= u):
            return (e,)
        if not x.is_floating_point() and (not y.numel() or float(y.abs().amax()) * coarse <= 0.5):
            return (e,)
        own = mag(y).mul_(coarse)
        return (add_up(y, own, e),)
    if e is None:
        return (None,)
    if to == torch.bool:
        return (((mag(x) <= e) & (e > 0)).to(torch.float32),)
    return (steps_across(x, e, torch.trunc),)


class _CastKind(Kind):
    """A cast is discrete only when it leaves the floats."""

    def flips(
        self, attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float = 2.0**-24
    ) -> tuple[Flips | None, ...]:
        if attrs["to"].is_floating_point:
            return (None,)
        return super().flips(attrs, inputs, errors, outputs, u)


register(_CastKind("cast", _cast, _cast_error, discrete=True, elementwise=True))


# ---- indices: any index whose value ties with the best within the errors -------------------------


def _axis(attrs: Attrs, x: torch.Tensor) -> tuple[torch.Tensor, int]:
    axis = attrs.get("axis")
    return (x.reshape(-1), 0) if axis is None else (x, axis % max(x.dim(), 1))


def _arg(largest: bool) -> Any:
    def evaluate(attrs: Attrs, x: torch.Tensor) -> tuple[torch.Tensor]:
        flat, axis = _axis(attrs, x)
        ordered = flat if flat.is_floating_point() else flat.to(torch.int64)
        if attrs.get("select_last"):
            ordered = ordered.flip(axis)
        best = ordered.amax(axis, keepdim=True) if largest else ordered.amin(axis, keepdim=True)
        index = (ordered == best).to(torch.uint8).argmax(axis, keepdim=True)  # the first of equals
        if attrs.get("select_last"):
            index = flat.shape[axis] - 1 - index
        if attrs.get("axis") is None:
            keep = attrs.get("keepdims", True)
            return (index.reshape((1,) * x.dim() if keep else ()),)
        return (index if attrs.get("keepdims", True) else index.squeeze(axis),)

    return evaluate


def _slack(x: torch.Tensor, e: Error, axis: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Errors of each element, and the largest along the axis."""
    each = torch.zeros(x.shape) if e is None else e.reshape(x.shape)
    return each, each.amax(axis, keepdim=True)


def _arg_error(largest: bool) -> Any:
    def error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
        x, axis = _axis(attrs, inputs[0].to(torch.float64))
        each, _ = _slack(x, errors[0], axis)
        best = x.amax(axis, keepdim=True) if largest else x.amin(axis, keepdim=True)
        at_best = torch.where(x == best, each, 0.0).amax(axis, keepdim=True)
        slack = each + at_best
        near = (x != best) & ((best - x).abs() <= slack)
        # Of equal numbers that are known exactly the first one counts.
        tied = near.any(axis) | (((x == best) & (slack > 0)).sum(axis) > 1)
        return (torch.where(tied, math.inf, 0.0).to(torch.float32).reshape(outputs[0].shape),)

    return error


def _arg_ties(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors) -> tuple[Flips]:
    x, axis = _axis(attrs, inputs[0].to(torch.float64))
    each, _ = _slack(x, errors[0], axis)
    squeezed = attrs.get("axis") is not None and not attrs.get("keepdims", True)

    def lift(index: torch.Tensor) -> torch.Tensor:
        if attrs.get("axis") is None:
            return index.reshape(1)
        return index.unsqueeze(axis) if squeezed else index

    def ties(got: torch.Tensor) -> torch.Tensor:
        size = x.shape[axis]
        place = lift(got.to(torch.int64))
        inside = (place >= -size) & (place < size)
        place = torch.where(inside, place % size, 0)
        best = lift(outputs[0])
        gap = (x.gather(axis, best) - x.gather(axis, place)).abs()
        slack = each.gather(axis, best) + each.gather(axis, place)
        return (inside & (gap <= slack) & (slack > 0)).reshape(got.shape)

    return (Flips(None, ties),)


register(Kind("argmax", _arg(True), _arg_error(True), discrete=True, tie_rules=_arg_ties))
register(Kind("argmin", _arg(False), _arg_error(False), discrete=True, tie_rules=_arg_ties))


def _topk(attrs: Attrs, x: torch.Tensor, k: Any = None) -> tuple[torch.Tensor, torch.Tensor]:
    (count,) = ints(operand(attrs, "k", (x, k), 1)) or (0,)
    axis = attrs.get("axis", -1)
    wide = x if x.is_floating_point() else x.to(torch.int64)
    values, index = torch.sort(wide, dim=axis, descending=bool(attrs.get("largest", True)), stable=True)
    return values.narrow(axis, 0, count).to(x.dtype), index.narrow(axis, 0, count)


def _sorted(attrs: Attrs, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    axis = attrs.get("axis", -1)
    return _topk({"axis": axis, "largest": attrs.get("descending", False), "k": x.shape[axis]}, x)


def _order_error(
    attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float
) -> tuple[Error, Error]:
    # an order statistic moves by at most the largest error on its axis
    e, axis = errors[0], attrs.get("axis", -1)
    if e is None:
        return (None, None)
    top = e.amax(axis, keepdim=True).expand(outputs[0].shape)
    close = steps_between(outputs[0], axis) <= 2 * top
    return top, torch.where(close, math.inf, 0.0).to(torch.float32)


def steps_between(values: torch.Tensor, axis: int) -> torch.Tensor:
    """Distance of each sorted value to its nearer neighbour."""
    gap = values.diff(dim=axis).abs()
    end = torch.full_like(values.narrow(axis, 0, 1), math.inf)
    return torch.minimum(torch.cat([end, gap], axis), torch.cat([gap, end], axis)).to(torch.float32)


def _order_ties(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors) -> tuple[None, Flips]:
    x, axis = inputs[0].to(torch.float64), attrs.get("axis", -1)
    _, top = _slack(x, errors[0], axis)

    def ties(got: torch.Tensor) -> torch.Tensor:
        size = x.shape[axis]
        inside = (got >= 0) & (got < size)
        chosen = x.gather(axis, torch.where(inside, got, 0).to(torch.int64))
        return inside & ((chosen - outputs[0].to(torch.float64)).abs() <= 2 * top)

    return (None, Flips(None, ties))


register(Kind("topk", _topk, _order_error, exact=True, tie_rules=_order_ties))
register(Kind("sort", _sorted, _order_error, exact=True, tie_rules=_order_ties))


# ---- data-dependent shapes: the set may change only if some element is within its error of zero --


def _nonzero(attrs: Attrs, x: torch.Tensor) -> tuple[torch.Tensor]:
    found = x.nonzero()
    return (found if attrs.get("layout", "rows") == "columns" else found.t().contiguous(),)


def _nonzero_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    x, e = inputs[0], errors[0]
    if e is None or not bool(((mag(x) <= e) & (e > 0)).any()):
        return (None,)
    return (torch.full(outputs[0].shape, math.inf),)


register(Kind("nonzero", _nonzero, _nonzero_error, discrete=True))


def _unique(attrs: Attrs, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    axis = attrs.get("axis")
    flat = x.reshape(-1) if axis is None else x
    along = 0 if axis is None else axis
    y, inverse, counts = torch.unique(flat, return_inverse=True, return_counts=True, dim=along)
    inverse = inverse.reshape(-1)
    first = torch.full((y.shape[along],), flat.shape[along], dtype=torch.int64)
    first = first.scatter_reduce(0, inverse, torch.arange(flat.shape[along]), "amin")
    if not attrs.get("sorted", True):
        order = first.argsort()
        y, first, counts = y.index_select(along, order), first[order], counts[order]
        inverse = order.argsort()[inverse]
    return y, first, inverse, counts


register(Kind("unique", _unique, no_error, discrete=True))
