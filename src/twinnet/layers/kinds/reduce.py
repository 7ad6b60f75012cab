"""Reductions and running sums. Floor: max(sqrt n, n/100) * u * sum|terms| over the n reduced elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from twinnet.layers.kinds import ints
from twinnet.layers.kinds._base import (
    Attrs,
    Error,
    Errors,
    Kind,
    Tensors,
    add_up,
    growth,
    mag,
    operand,
    register,
    scaled,
)

Reduce = Callable[[torch.Tensor, tuple[int, ...], bool], torch.Tensor]


@dataclass(frozen=True)
class Reduced:
    """One reduction to bound: `x` with error `e` became `y`; `n` elements met in each output, rounded by `u`."""

    x: Any
    e: Error
    y: Any
    axes: tuple[int, ...]
    keep: bool
    n: int
    u: float

    def sum(self, t: torch.Tensor) -> torch.Tensor:
        return _sum(t, self.axes, self.keep)


Bound = Callable[[Reduced], Error]


def _plan(attrs: Attrs, inputs: Tensors) -> tuple[tuple[int, ...] | None, bool, int]:
    """Axes (None: nothing is reduced), keepdims, and how many elements meet in one output."""
    x = inputs[0]
    axes = ints(operand(attrs, "axes", inputs, 1))
    if not axes:
        if attrs.get("noop_with_empty_axes"):
            return None, True, 1
        axes = tuple(range(x.dim()))
    axes = tuple(a % x.dim() for a in axes) if x.dim() else ()
    return axes, bool(attrs.get("keepdims", True)), math.prod(x.shape[a] for a in axes)


def reduction(
    name: str,
    fn: Reduce,
    bound: Bound,
    exact: bool = False,
    single: Callable[[torch.Tensor], torch.Tensor] = lambda x: x,
) -> None:
    """Register a reduction; `single` is what remains of it when no axis is reduced."""

    def evaluate(attrs: Attrs, *inputs: Any) -> tuple[torch.Tensor]:
        x = inputs[0]
        axes, keep, _ = _plan(attrs, inputs)
        if x.is_floating_point():
            return (single(x) if axes is None else fn(x, axes, keep),)
        wide = x.to(torch.int64)
        y = single(wide) if axes is None else fn(wide, axes, keep)
        return (y.to(x.dtype),)

    def error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
        axes, keep, n = _plan(attrs, inputs)
        own = u if inputs[0].is_floating_point() else 0.0
        return (bound(Reduced(inputs[0], errors[0], outputs[0], axes or (), keep, n, own)),)

    register(Kind(name, evaluate, error, exact=exact))


def _sum(x: torch.Tensor, axes: tuple[int, ...], keep: bool) -> torch.Tensor:
    return x.sum(axes, keepdim=keep) if axes else x


def _mean(x: torch.Tensor, axes: tuple[int, ...], keep: bool) -> torch.Tensor:
    if x.is_floating_point():
        return x.mean(axes, keepdim=keep) if axes else x
    n = math.prod(x.shape[a] for a in axes)
    return torch.div(_sum(x, axes, keep), n, rounding_mode="trunc")


def _each(fn: Callable[..., torch.Tensor], empty: float) -> Reduce:
    def run(x: torch.Tensor, axes: tuple[int, ...], keep: bool) -> torch.Tensor:
        if not axes:
            return x
        if any(x.shape[a] == 0 for a in axes):
            shape = [1 if i in axes else s for i, s in enumerate(x.shape)]
            if not x.is_floating_point():  # the smallest or largest integer of the type
                raise ValueError("the extreme of an empty integer tensor depends on its type")
            full = torch.full(shape, empty, dtype=torch.float64)
            return full if keep else full.squeeze(axes)
        return fn(x, axes, keepdim=keep)

    return run


def _prod(x: torch.Tensor, axes: tuple[int, ...], keep: bool) -> torch.Tensor:
    for axis in sorted(axes, reverse=True):
        x = x.prod(axis, keepdim=keep)
    return x


def _sum_bound(r: Reduced) -> Error:
    own = r.sum(mag(r.x)).mul(growth(r.n) * r.u) if r.u and r.axes else None
    return add_up(r.y, own, None if r.e is None else r.sum(r.e))


def _mean_bound(r: Reduced) -> Error:
    total = _sum_bound(r)
    return add_up(r.y, None if total is None else total / max(r.n, 1), scaled(r.y, r.u))


def _extreme_bound(r: Reduced) -> Error:
    return r.e if r.e is None or not r.axes else _each(torch.amax, 0.0)(r.e, r.axes, r.keep)


def _prod_bound(r: Reduced) -> Error:
    own = scaled(r.y, r.u * max(r.n - 1, 0))
    return add_up(r.y, own, None if r.e is None else _prod(mag(r.x) + r.e, r.axes, r.keep) - mag(r.y))


def _l2_bound(r: Reduced) -> Error:
    # sqrt halves the relative error of the sum of squares; a norm moves by at most the norm of the error
    moved = None if r.e is None else r.sum(r.e.square()).sqrt()
    return add_up(r.y, scaled(r.y, r.u * (growth(r.n) / 2 + 2)), moved)


def _square_bound(r: Reduced) -> Error:
    moved = None if r.e is None else r.sum((2 * mag(r.x) + r.e) * r.e)
    return add_up(r.y, scaled(r.y, r.u * (growth(r.n) + 1)), moved)


def _log_sum_bound(r: Reduced) -> Error:
    part = _sum_bound(r)
    own = scaled(r.y, 3 * r.u)
    own = own if own is None else own.add_(r.u / 2)
    if part is None:
        return own
    ratio = part / mag(r.sum(r.x))
    return add_up(r.y, own, torch.where(ratio < 1, -torch.log1p(-ratio.clamp(max=0.999)), float("inf")))


def _lse_bound(r: Reduced) -> Error:
    own = None if not r.u else mag(r.y).mul_(3).add_(4 + growth(r.n)).mul_(r.u)
    return add_up(r.y, own, _extreme_bound(r))


reduction("reduce_sum", _sum, _sum_bound)
reduction("reduce_mean", _mean, _mean_bound)
reduction("reduce_max", _each(torch.amax, -math.inf), _extreme_bound, exact=True)
reduction("reduce_min", _each(torch.amin, math.inf), _extreme_bound, exact=True)
reduction("reduce_prod", _prod, _prod_bound)
reduction("reduce_l1", lambda x, a, k: _sum(x.abs(), a, k), _sum_bound, single=torch.abs)
reduction(
    "reduce_l2",
    lambda x, a, k: _sum(x.to(torch.float64).square(), a, k).sqrt(),
    _l2_bound,
    single=torch.abs,
)
reduction("reduce_sum_square", lambda x, a, k: _sum(x.square(), a, k), _square_bound, single=torch.square)
reduction(
    "reduce_log_sum", lambda x, a, k: _sum(x, a, k).to(torch.float64).log(), _log_sum_bound, single=torch.log
)
reduction(
    "reduce_log_sum_exp",
    lambda x, a, k: torch.logsumexp(x.to(torch.float64), a, keepdim=k),
    _lse_bound,
)


# ---- variance: (growth(n) + 2) u var + 2 mean(|x - m| (error of x - m)) --------------------------


def _var(attrs: Attrs, *inputs: Any) -> tuple[torch.Tensor]:
    axes, keep, _ = _plan(attrs, inputs)
    return (inputs[0].var(axes or (), correction=attrs.get("correction", 1), keepdim=keep),)


def _var_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    axes, keep, n = _plan(attrs, inputs)
    x, e, y = inputs[0], errors[0], outputs[0]
    axes = axes or ()
    rest = max(n - attrs.get("correction", 1), 1)
    mean = x.mean(axes, keepdim=True)
    gap = mag(x - mean)
    off = mag(x).add_(mag(mean)).mul_(u) + mag(x).mean(axes, keepdim=True) * (growth(n) * u)
    if e is not None:
        off = off + e + e.mean(axes, keepdim=True)
    return (
        add_up(y, scaled(y, (growth(n) + 2) * u), ((2 * gap + off) * off).sum(axes, keepdim=keep) / rest),
    )


def _std(attrs: Attrs, *inputs: Any) -> tuple[torch.Tensor]:
    return (_var(attrs, *inputs)[0].sqrt(),)


def _std_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    y = outputs[0]
    (off,) = _var_error(attrs, inputs, errors, (y * y,), u)
    moved = None
    if off is not None:
        size = y.to(torch.float32)
        moved = torch.where(size * size > off, off / size, off.sqrt())
    return (add_up(y, scaled(y, u), moved),)


register(Kind("reduce_var", _var, _var_error))
register(Kind("reduce_std", _std, _std_error))


# ---- any, all ------------------------------------------------------------------------------------


def _logic(every: bool) -> Any:
    def evaluate(attrs: Attrs, *inputs: Any) -> tuple[torch.Tensor]:
        axes, keep, _ = _plan(attrs, inputs)
        x = inputs[0].to(torch.bool)
        for axis in sorted(axes or (), reverse=True):
            x = x.all(axis, keepdim=keep) if every else x.any(axis, keepdim=keep)
        return (x,)

    return evaluate


def _logic_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    if errors[0] is None:
        return (None,)
    axes, keep, _ = _plan(attrs, inputs)
    return ((errors[0].amax(axes or (), keepdim=keep) > 0).to(torch.float32),)


register(Kind("reduce_any", _logic(False), _logic_error, exact=True, discrete=True))
register(Kind("reduce_all", _logic(True), _logic_error, exact=True, discrete=True))


# ---- running sums and products -------------------------------------------------------------------


def _running(fn: Callable[[torch.Tensor, int], torch.Tensor], neutral: int) -> Any:
    def run(attrs: Attrs, x: torch.Tensor, axis: Any) -> torch.Tensor:
        (axis,) = ints(axis) or (0,)
        if attrs.get("reverse"):
            x = x.flip(axis)
        y = fn(x, axis)
        if attrs.get("exclusive"):
            first = torch.full_like(y.narrow(axis, 0, 1), neutral)
            y = torch.cat([first, y.narrow(axis, 0, y.shape[axis] - 1)], axis)
        return y.flip(axis) if attrs.get("reverse") else y

    return run


_running_sum = _running(lambda x, axis: x.cumsum(axis), 0)
_running_product = _running(lambda x, axis: x.cumprod(axis), 1)


def _cumulative(run: Any) -> Any:
    def evaluate(attrs: Attrs, x: torch.Tensor, *rest: Any) -> tuple[torch.Tensor]:
        return (run(attrs, x, operand(attrs, "axis", (x, *rest), 1, 0)).to(x.dtype),)

    return evaluate


def _cumsum_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    axis = operand(attrs, "axis", inputs, 1, 0)
    x, e, y = inputs[0], errors[0], outputs[0]
    own = None
    if u and x.is_floating_point():
        own = _running_sum(attrs, mag(x), axis) * (growth(x.shape[(ints(axis) or (0,))[0]]) * u)
    return (add_up(y, own, None if e is None else _running_sum(attrs, e, axis)),)


def _cumprod_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    axis = operand(attrs, "axis", inputs, 1, 0)
    x, e, y = inputs[0], errors[0], outputs[0]
    own = scaled(y, u * x.shape[(ints(axis) or (0,))[0]]) if x.is_floating_point() else None
    moved = None if e is None else (_running_product(attrs, mag(x) + e, axis) - mag(y)).clamp_(min=0)
    return (add_up(y, own, moved),)


register(Kind("cumsum", _cumulative(_running_sum), _cumsum_error))
register(Kind("cumprod", _cumulative(_running_product), _cumprod_error))
