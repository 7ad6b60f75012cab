"""Kinds that pick or place values by index, and those that make integers from shapes."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

from twinnet.layers.kinds import ints
from twinnet.layers.kinds._base import (
    Attrs,
    Error,
    Errors,
    Kind,
    Tensors,
    add_up,
    along,
    growth,
    mag,
    no_error,
    operand,
    register,
)
from twinnet.layers.kinds.structural import axis_of, moving


def _wrapped(index: torch.Tensor, size: int) -> torch.Tensor:
    index = index.to(torch.int64)
    return torch.where(index < 0, index + size, index)


def _gather(attrs: Attrs, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    axis = axis_of(attrs.get("axis", 0), x.dim())
    index = _wrapped(index, x.shape[axis])
    flat = x.index_select(axis, index.reshape(-1))
    return flat.reshape(x.shape[:axis] + index.shape + x.shape[axis + 1 :])


def _gather_elements(attrs: Attrs, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    axis = attrs.get("axis", 0)
    return x.gather(axis, _wrapped(index, x.shape[axis]))


def _gather_nd(attrs: Attrs, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    b = attrs.get("batch_dims", 0)
    index = index.to(torch.int64)
    batch = x.shape[:b]
    flat = x.reshape((-1, *x.shape[b:]))
    places = index.reshape((flat.shape[0], -1, index.shape[-1]))
    rows = torch.arange(flat.shape[0]).reshape(-1, 1).expand(places.shape[:2])
    picked = flat[(rows, *places.unbind(-1))]
    return picked.reshape((*batch, *index.shape[b:-1], *picked.shape[2:]))


def _index(attrs: Attrs, x: torch.Tensor, *indices: torch.Tensor) -> torch.Tensor:
    where: list[Any] = [slice(None)] * x.dim()
    for dim, index in zip(attrs["dims"], indices):
        where[dim] = index if index.dtype == torch.bool else index.to(torch.int64)
    return x[tuple(where)]


def _compress(attrs: Attrs, x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
    axis = attrs.get("axis")
    if axis is None:
        x, axis = x.reshape(-1), 0
    return x.index_select(axis, condition.to(torch.bool).nonzero().reshape(-1))


def _one_hot(attrs: Attrs, index: torch.Tensor, *rest: Any) -> tuple[torch.Tensor]:
    values = rest[-1]
    (depth,) = ints(operand(attrs, "depth", (index, *rest), 1)) or (0,)
    axis = attrs.get("axis", -1)
    place = _wrapped(index.to(torch.int64), depth)
    axis = axis_of(axis, place.dim() + 1)
    hit = place.unsqueeze(axis) == along(torch.arange(depth), axis, place.dim() + 1)
    return (torch.where(hit, values[1], values[0]),)


moving("gather", _gather)
moving("gather_elements", _gather_elements)
moving("gather_nd", _gather_nd)
moving("index", _index)
moving("compress", _compress)
register(Kind("one_hot", _one_hot, no_error, exact=True))


# ---- scatter: exact when it places; with a reduction it sums, u times the sum of what meets ------

_REDUCTION = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def _scatter_elements(
    attrs: Attrs, x: torch.Tensor, index: torch.Tensor, updates: torch.Tensor
) -> torch.Tensor:
    axis, how = attrs.get("axis", 0), attrs.get("reduction", "none")
    index = _wrapped(index, x.shape[axis])
    updates = updates.to(x.dtype)
    if how == "none":
        return x.scatter(axis, index, updates)
    return x.scatter_reduce(axis, index, updates, _REDUCTION[how], include_self=True)


def _scatter_nd(attrs: Attrs, x: torch.Tensor, index: torch.Tensor, updates: torch.Tensor) -> torch.Tensor:
    how = attrs.get("reduction", "none")
    depth = index.shape[-1]
    places = index.reshape(-1, depth).to(torch.int64)
    block = x.shape[depth:]
    flat = torch.zeros(len(places), dtype=torch.int64)
    for i in range(depth):
        flat = flat * x.shape[i] + _wrapped(places[:, i], x.shape[i])
    rows = x.reshape((-1, *block)) if block else x.reshape(-1)
    parts = updates.to(x.dtype).reshape((len(places), *block))
    if how == "none":
        return rows.index_copy(0, flat, parts).reshape(x.shape)
    target = flat.reshape((-1,) + (1,) * len(block)).expand_as(parts)
    return rows.scatter_reduce(0, target, parts, _REDUCTION[how], include_self=True).reshape(x.shape)


def _scatter_error(place: Any) -> Any:
    def error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
        x, index, updates = inputs[:3]
        ex, eu = errors[0], errors[2]
        how, y = attrs.get("reduction", "none"), outputs[0]
        own: Error = None
        if how in ("add", "mul") and u and y.is_floating_point():
            meet = place({**attrs, "reduction": "add"}, torch.ones(x.shape), index, torch.ones(updates.shape))
            if how == "add":
                rounding = place(attrs, mag(x), index, mag(updates)) * (u * meet.sqrt())
            else:
                rounding = mag(y) * (u * meet)
            own = torch.where(meet > 1, rounding, torch.zeros_like(rounding))
        if ex is None and eu is None:
            return (own,)
        ex = torch.zeros(x.shape) if ex is None else ex
        eu = torch.zeros(updates.shape) if eu is None else eu
        if how == "mul":
            moved = place(attrs, mag(x) + ex, index, mag(updates) + eu) - mag(y)
        else:
            moved = place({**attrs, "reduction": "max" if how == "min" else how}, ex, index, eu)
        return (add_up(y, own, moved),)

    return error


def _placing(place: Any) -> Any:
    return lambda attrs, *inputs: (place(attrs, *inputs),)


register(Kind("scatter_elements", _placing(_scatter_elements), _scatter_error(_scatter_elements)))
register(Kind("scatter_nd", _placing(_scatter_nd), _scatter_error(_scatter_nd)))


# ---- patches -------------------------------------------------------------------------------------


def _patches(attrs: Attrs, kernel: tuple[int, ...]) -> tuple[Any, tuple[int, ...], Any]:
    k = len(kernel)
    return (
        tuple(attrs.get("strides") or (1,) * k),
        tuple(attrs.get("pads") or (0,) * 2 * k),
        tuple(attrs.get("dilations") or (1,) * k),
    )


def _unfold(attrs: Attrs, x: torch.Tensor) -> torch.Tensor:
    kernel = tuple(attrs["kernel"])
    strides, pads, dilations = _patches(attrs, kernel)
    padded = F.pad(x, (pads[1], pads[3], pads[0], pads[2]))
    return F.unfold(padded, kernel, dilations, 0, strides)


def _fold(attrs: Attrs, x: torch.Tensor, size: Any = None, block: Any = None) -> torch.Tensor:
    sizes = ints(operand(attrs, "size", (x, size, block), 1)) or ()
    kernel = ints(operand(attrs, "block", (x, size, block), 2)) or ()
    strides, pads, dilations = _patches(attrs, kernel)
    k = len(sizes)
    full = [s + pads[i] + pads[k + i] for i, s in enumerate(sizes)]
    if k == 2:
        y = F.fold(x, tuple(full), kernel, dilations, 0, strides)
    else:
        y = _fold_any(x, full, kernel, dilations, strides)
    for i in range(k):
        y = y.narrow(2 + i, pads[i], sizes[i])
    return y


def _fold_any(x: torch.Tensor, full: list[int], kernel: Any, dilations: Any, strides: Any) -> torch.Tensor:
    """Columns back to an array over any number of axes, one kernel tap at a time."""
    counts = [(f - d * (k - 1) - 1) // s + 1 for f, k, d, s in zip(full, kernel, dilations, strides)]
    channels = x.shape[1] // math.prod(kernel)
    columns = x.reshape(x.shape[0], channels, *kernel, *counts)
    y = torch.zeros(x.shape[0], channels, *full, dtype=x.dtype)
    for tap in torch.cartesian_prod(*[torch.arange(k) for k in kernel]).reshape(-1, len(kernel)).tolist():
        where = [
            slice(t * d, t * d + (c - 1) * s + 1, s) for t, d, c, s in zip(tap, dilations, counts, strides)
        ]
        y[(slice(None), slice(None), *where)] += columns[(slice(None), slice(None), *tap)]
    return y


def _fold_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    rest = [*inputs[1:], None, None][:2]
    own = None
    if u:
        block = ints(operand(attrs, "block", (None, *rest), 2)) or ()
        own = _fold(attrs, mag(inputs[0]), *rest) * (growth(math.prod(block)) * u)
    inherited = None if errors[0] is None else _fold(attrs, errors[0], *rest)
    return (add_up(outputs[0], own, inherited),)


moving("unfold", _unfold)
register(Kind("fold", lambda attrs, *xs: (_fold(attrs, *xs),), _fold_error))


# ---- from shapes ---------------------------------------------------------------------------------


def _shape(attrs: Attrs, x: torch.Tensor) -> tuple[torch.Tensor]:
    return (torch.tensor(list(x.shape)[attrs.get("start", 0) : attrs.get("end")], dtype=torch.int64),)


def _constant_of_shape(attrs: Attrs, shape: Any = None) -> tuple[torch.Tensor]:
    sizes = ints(operand(attrs, "shape", (shape,), 0, ())) or ()
    dtype = attrs.get("dtype", torch.float32)
    return (
        torch.tensor(attrs.get("value", 0.0), dtype=dtype).expand(sizes),
    )  # no memory for a million equal numbers


def _range(attrs: Attrs, *operands: Any) -> tuple[torch.Tensor]:
    values = [operand(attrs, name, operands, i) for i, name in enumerate(("start", "limit", "step"))]
    dtype = attrs.get("dtype")
    if dtype is None:
        tensors = [v for v in values if isinstance(v, torch.Tensor)]
        whole = all(
            isinstance(v, int) or (isinstance(v, torch.Tensor) and not v.is_floating_point()) for v in values
        )
        dtype = torch.float64 if not whole else tensors[0].dtype if tensors else torch.int64
    start, limit, step = (v.item() if isinstance(v, torch.Tensor) else v for v in values)
    wide = torch.float64 if dtype.is_floating_point else dtype
    return (torch.arange(start, limit, step, dtype=wide),)


def _eye_like(attrs: Attrs, x: torch.Tensor) -> tuple[torch.Tensor]:
    rows, columns = x.shape
    hit = torch.arange(rows).reshape(-1, 1) + attrs.get("k", 0) == torch.arange(columns)
    return (hit.to(attrs.get("dtype") or x.dtype),)


register(Kind("shape", _shape, no_error, exact=True))
register(Kind("size", lambda attrs, x: (torch.tensor(x.numel(), dtype=torch.int64),), no_error, exact=True))
register(Kind("rank", lambda attrs, x: (torch.tensor(x.dim(), dtype=torch.int64),), no_error, exact=True))
register(Kind("constant_of_shape", _constant_of_shape, no_error, exact=True))
register(Kind("range", _range, no_error))
register(Kind("eye_like", _eye_like, no_error, exact=True))
