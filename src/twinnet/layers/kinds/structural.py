"""Kinds that only move values: bit equal, and errors go through the same rearrangement."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from twinnet.layers.kinds import ints
from twinnet.layers.kinds._base import Attrs, Error, Errors, Kind, Tensors, operand, register

Move = Callable[..., torch.Tensor]


def moving(name: str, move: Move, data: int | None = 1) -> None:
    """Register an exact kind; the first `data` inputs (None: all) carry data, the rest say how to move it."""

    def evaluate(attrs: Attrs, *inputs: Any) -> tuple[torch.Tensor]:
        return (move(attrs, *inputs),)

    def error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
        count = len(inputs) if data is None else data
        if all(e is None for e in errors[:count]):
            return (None,)
        moved = [_as_error(t, e) for t, e in zip(inputs[:count], errors[:count])]
        return (move({**attrs, "value": 0.0}, *moved, *inputs[count:]),)

    register(Kind(name, evaluate, error, exact=True))


def _as_error(t: Any, e: Error) -> Any:
    if t is None or e is not None:
        return e
    return torch.zeros(t.shape, dtype=torch.float32)


def axis_of(axis: int, rank: int) -> int:
    """A non-negative axis."""
    return axis + rank if axis < 0 else axis


# ---- shape only ----------------------------------------------------------------------------------


def _reshape(attrs: Attrs, x: torch.Tensor, shape: Any = None) -> torch.Tensor:
    wanted = list(ints(operand(attrs, "shape", (x, shape), 1, ())) or ())
    if not attrs.get("allowzero"):
        wanted = [x.shape[i] if s == 0 and i < x.dim() else s for i, s in enumerate(wanted)]
    if x.numel() == 0 and -1 in wanted:
        known = math.prod(s for s in wanted if s != -1)
        wanted = [(0 if known == 0 else x.numel() // known) if s == -1 else s for s in wanted]
    return x.reshape(wanted)


def _flatten(attrs: Attrs, x: torch.Tensor) -> torch.Tensor:
    axis = axis_of(attrs.get("axis", 1), x.dim())
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


def _transpose(attrs: Attrs, x: torch.Tensor) -> torch.Tensor:
    perm = attrs.get("perm")
    return x.permute(tuple(reversed(range(x.dim()))) if perm is None else tuple(perm)).contiguous()


def _squeeze(attrs: Attrs, x: torch.Tensor, axes: Any = None) -> torch.Tensor:
    wanted = ints(operand(attrs, "axes", (x, axes), 1))
    return x.squeeze() if wanted is None else x.squeeze(wanted)


def _unsqueeze(attrs: Attrs, x: torch.Tensor, axes: Any = None) -> torch.Tensor:
    wanted = ints(operand(attrs, "axes", (x, axes), 1, ())) or ()
    rank = x.dim() + len(wanted)
    for axis in sorted(axis_of(a, rank) for a in wanted):
        x = x.unsqueeze(axis)
    return x


def _expand(attrs: Attrs, x: torch.Tensor, shape: Any = None) -> torch.Tensor:
    wanted = list(ints(operand(attrs, "shape", (x, shape), 1, ())) or ())
    rank = max(len(wanted), x.dim())
    wanted = [1] * (rank - len(wanted)) + wanted
    sizes = [1] * (rank - x.dim()) + list(x.shape)
    return x.expand([s if w in (-1, 1) else w for w, s in zip(wanted, sizes)])


def _flip(attrs: Attrs, x: torch.Tensor) -> torch.Tensor:
    return x.flip(tuple(attrs["axes"]))


def _roll(attrs: Attrs, x: torch.Tensor) -> torch.Tensor:
    axes = attrs.get("axes")
    return x.roll(tuple(attrs["shifts"]), tuple(axes)) if axes else x.roll(tuple(attrs["shifts"]))


moving("identity", lambda attrs, x: x)
moving("reshape", _reshape)
moving("flatten", _flatten)
moving("transpose", _transpose)
moving("squeeze", _squeeze)
moving("unsqueeze", _unsqueeze)
moving("expand", _expand)
moving("flip", _flip)
moving("roll", _roll)
moving("tile", lambda attrs, x, repeats=None: x.repeat(ints(operand(attrs, "repeats", (x, repeats), 1, ()))))
moving(
    "concat", lambda attrs, *xs: torch.cat([x for x in xs if x.shape != (0,)] or xs[:1], attrs["axis"]), None
)
moving("stack", lambda attrs, *xs: torch.stack(xs, attrs.get("axis", 0)), None)
moving("select", lambda attrs, x: x.select(attrs["axis"], attrs["index"]))


# ---- parts ---------------------------------------------------------------------------------------


def _slice(
    attrs: Attrs, x: torch.Tensor, starts: Any = None, ends: Any = None, axes: Any = None, steps: Any = None
) -> torch.Tensor:
    inputs = (x, starts, ends, axes, steps)
    begin = ints(operand(attrs, "starts", inputs, 1, ())) or ()
    stop = ints(operand(attrs, "ends", inputs, 2, ())) or ()
    along = ints(operand(attrs, "axes", inputs, 3)) or tuple(range(len(begin)))
    stride = ints(operand(attrs, "steps", inputs, 4)) or (1,) * len(begin)
    for s, t, axis, step in zip(begin, stop, along, stride):
        size = x.shape[axis]
        if step > 0:
            first, last, _ = slice(s, t, step).indices(size)
            x = x[(slice(None),) * axis_of(axis, x.dim()) + (slice(first, max(first, last), step),)]
        else:
            stop_at = None if t < -size else t
            taken = range(*slice(s, stop_at, step).indices(size))
            x = x.index_select(axis, torch.tensor(list(taken), dtype=torch.int64))
    return x


def _pad(
    attrs: Attrs, x: torch.Tensor, pads: Any = None, value: Any = None, axes: Any = None
) -> torch.Tensor:
    inputs = (x, pads, value, axes)
    amounts = ints(operand(attrs, "pads", inputs, 1, ())) or ()
    along = ints(operand(attrs, "axes", inputs, 3)) or tuple(range(len(amounts) // 2))
    fill = operand(attrs, "value", inputs, 2, 0)
    mode = attrs.get("mode", "constant")
    half = len(along)
    before, after = [0] * x.dim(), [0] * x.dim()
    for i, axis in enumerate(along):
        before[axis], after[axis] = amounts[i], amounts[half + i]
    if mode == "constant":
        flat = [v for i in reversed(range(x.dim())) for v in (before[i], after[i])]
        number = fill.item() if isinstance(fill, torch.Tensor) else fill
        if x.dtype == torch.bool:
            return F.pad(x.to(torch.uint8), flat, value=int(bool(number))).to(torch.bool)
        return F.pad(x, flat, value=number)
    for axis in range(x.dim()):
        if before[axis] or after[axis]:
            x = x.index_select(axis, _border(mode, x.shape[axis], before[axis], after[axis]))
    return x


def _border(mode: str, size: int, before: int, after: int) -> torch.Tensor:
    """Where each position of a padded axis comes from."""
    place = torch.arange(-before, size + after)
    if mode == "edge":
        return place.clamp(0, size - 1)
    if mode == "wrap":
        return place.remainder(size)
    period = max(2 * (size - 1), 1)
    place = place.remainder(period)
    return torch.where(place >= size, period - place, place)


moving("slice", _slice)
moving("pad", _pad)


def _split_sizes(attrs: Attrs, x: torch.Tensor, sizes: Any) -> list[int]:
    given = ints(operand(attrs, "sizes", (x, sizes), 1))
    total = x.shape[attrs.get("axis", 0)]
    if given is not None:
        return list(given)
    count = int(attrs["count"])
    part = -(-total // count)
    return [max(min(part, total - i * part), 0) for i in range(count)]


def _split(attrs: Attrs, x: torch.Tensor, sizes: Any = None) -> tuple[torch.Tensor, ...]:
    return tuple(p.contiguous() for p in x.split(_split_sizes(attrs, x, sizes), attrs.get("axis", 0)))


def _split_error(
    attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float
) -> tuple[Error, ...]:
    if errors[0] is None:
        return (None,) * len(outputs)
    return _split(attrs, errors[0], inputs[1] if len(inputs) > 1 else None)


register(Kind("split", _split, _split_error, exact=True))


# ---- rearrangements ------------------------------------------------------------------------------


def _depth_to_space(attrs: Attrs, x: torch.Tensor) -> torch.Tensor:
    b = int(attrs["block"])
    n, c, h, w = x.shape
    if attrs.get("mode", "CRD") == "CRD":
        return (
            x.reshape(n, c // b**2, b, b, h, w).permute(0, 1, 4, 2, 5, 3).reshape(n, c // b**2, h * b, w * b)
        )
    return x.reshape(n, b, b, c // b**2, h, w).permute(0, 3, 4, 1, 5, 2).reshape(n, c // b**2, h * b, w * b)


def _space_to_depth(attrs: Attrs, x: torch.Tensor) -> torch.Tensor:
    b = int(attrs["block"])
    n, c, h, w = x.shape
    parts = x.reshape(n, c, h // b, b, w // b, b)
    order = (0, 3, 5, 1, 2, 4) if attrs.get("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    return parts.permute(order).reshape(n, c * b * b, h // b, w // b)


def _trilu(attrs: Attrs, x: torch.Tensor, k: Any = None) -> torch.Tensor:
    diagonal = int(operand(attrs, "k", (x, k), 1, 0))
    return torch.triu(x, diagonal) if attrs.get("upper", True) else torch.tril(x, diagonal)


def _reverse_sequence(attrs: Attrs, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    batch, time = attrs.get("batch_axis", 1), attrs.get("time_axis", 0)
    y = x.clone()
    for i, length in enumerate(ints(lengths) or ()):
        row = x.select(batch, i)
        axis = time if time < batch else time - 1
        y.select(batch, i).narrow(axis, 0, length).copy_(row.narrow(axis, 0, length).flip(axis))
    return y


def _center_crop_pad(attrs: Attrs, x: torch.Tensor, shape: Any = None) -> torch.Tensor:
    sizes = ints(operand(attrs, "shape", (x, shape), 1, ())) or ()
    axes = attrs.get("axes") or range(len(sizes))
    for axis, size in zip(axes, sizes):
        have = x.shape[axis]
        if have > size:
            x = x.narrow(axis, (have - size) // 2, size)
        elif have < size:
            before = (size - have) // 2
            x = _pad({"pads": (before, size - have - before), "axes": (axis,)}, x)
    return x


moving("depth_to_space", _depth_to_space)
moving("space_to_depth", _space_to_depth)
moving("trilu", _trilu)
moving("reverse_sequence", _reverse_sequence)
moving("center_crop_pad", _center_crop_pad)
