"""How one constant tensor relates to another, as a fact, and which kind of cause that is."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from twinnet.blame.fitting import nice
from twinnet.result import Fact, fact

__all__ = ["in_few_bits", "other_constant", "other_parameters", "other_vector"]

_LINEAR = {"conv", "conv_transpose", "matmul", "gemm", "linear", "lstm", "gru", "rnn", "einsum"}
_PLACES: dict[tuple[str, int], tuple[str, str]] = {
    ("batch_norm", 1): ("scale", "scale"),
    ("batch_norm", 2): ("bias", "bias"),
    ("batch_norm", 3): ("statistics", "running mean"),
    ("batch_norm", 4): ("statistics", "running variance"),
    ("pad", 1): ("padding", "pads"),
    ("pad", 2): ("padding", "pad value"),
    ("slice", 1): ("index", "starts"),
    ("slice", 2): ("index", "ends"),
    ("gather", 0): ("weights", "table"),
    ("gather", 1): ("index", "indices"),
    ("clip", 1): ("activation", "lower bound"),
    ("clip", 2): ("activation", "upper bound"),
    ("quantize_linear", 1): ("quantisation", "scale"),
    ("quantize_linear", 2): ("quantisation", "zero point"),
    ("dequantize_linear", 1): ("quantisation", "scale"),
    ("dequantize_linear", 2): ("quantisation", "zero point"),
    ("dequantize_linear", 0): ("weights", "quantised weights"),
    ("prelu", 1): ("constant", "slope"),
}
_SHOWN = 8
_LEARNED = {"weights", "scale", "bias", "statistics"}
"""What training finds."""


def other_constant(kind: str, place: int, old: torch.Tensor | None, new: torch.Tensor) -> tuple[str, Fact]:
    """Kind of cause and fact for another constant at an operand of a layer of this kind.

    >>> w = torch.arange(18.0).reshape(2, 1, 3, 3)
    >>> cause, found = other_constant("conv", 1, w, w.flip(3))
    >>> cause, found.code, found.params["axes"]
    ('weights', 'weights.mirrored', (3,))
    """
    cause, noun = _role(kind, place, old, new)
    if old is None:
        return cause, fact("constant.only_twin", of=noun, network=None, twin=_short(new))
    if old.shape != new.shape or not old.is_floating_point() or not new.is_floating_point():
        return cause, fact("constant.another", of=noun, network=_shown(old), twin=_shown(new), factor=None)
    a, b = old.double(), new.double()
    if a.numel() == 1:
        ratio = nice(float(b / a)) if float(a) else None
        return cause, fact("constant.another", of=noun, network=float(a), twin=float(b), factor=ratio)
    if cause == "weights":
        return _weights(kind, a, b)
    if a.dim() > 1 and (rolled := _rolled(noun, a, b)) is not None:
        return cause, rolled
    return cause, other_vector(noun, a, b)


def other_parameters(kind: str, other: Mapping[int, tuple[Any, torch.Tensor]]) -> Fact | None:
    """The fact that several learned constants of a layer differ; None for one, or if not all are learned.

    `other` holds the network's constant and the twin's by their places.

    >>> w, b = torch.ones(2, 3), torch.ones(2)
    >>> other_parameters("linear", {1: (w, 2 * w), 2: (b, 3 * b)}).params["of"]
    ('weights', 'bias')
    """
    same = all(
        isinstance(old, torch.Tensor) and old.shape == new.shape and old.is_floating_point()
        for old, new in other.values()
    )
    if len(other) < 2 or not same:
        return None
    roles = [_role(kind, place, old, new) for place, (old, new) in other.items()]
    if any(cause not in _LEARNED for cause, _ in roles):
        return None
    a, b = (torch.cat([pair[side].double().reshape(-1) for pair in other.values()]) for side in (0, 1))
    largest = max(other.values(), key=lambda pair: pair[1].numel())
    related = _alike(*(tensor.double() for tensor in largest)) > _RELATED
    apart = float((b - a).norm() / a.norm()) if related else None
    return fact(
        "weights.several",
        of=tuple(noun for _, noun in roles),
        differing=int((a != b).sum()),
        elements=a.numel(),
        share=apart,
    )


def other_vector(noun: str, old: torch.Tensor, new: torch.Tensor) -> Fact:
    """How a constant with one number for each channel differs: in one channel, by a factor, in some."""
    off = (old != new).reshape(-1).nonzero().reshape(-1)
    if len(off) == 1:
        at = int(off[0])
        x, y = float(old.reshape(-1)[at]), float(new.reshape(-1)[at])
        ratio = nice(y / x) if x else None
        return fact("vector.one", of=noun, channel=at, network=x, twin=y, factor=ratio)
    if not bool(new.any()):
        return fact("vector.zero", of=noun, network=_short(old), twin=0.0)
    factor = _factor(old, new)
    if torch.allclose(new, old * factor, rtol=1e-5, atol=0):
        return fact("scaled.all", of=noun, network=1.0, twin=_tidy(factor))
    return fact(
        "vector.some",
        of=noun,
        channels=len(off),
        count=old.numel(),
        network=_short(old),
        twin=_short(new),
    )


def _role(kind: str, place: int, old: torch.Tensor | None, new: torch.Tensor) -> tuple[str, str]:
    if (kind, place) in _PLACES:
        return _PLACES[kind, place]
    if kind in _LINEAR:
        bias = place == (3 if kind in ("lstm", "gru", "rnn") else 2)
        return ("bias", "bias") if bias else ("weights", "weights")
    if kind.endswith("_norm"):
        return ("scale", "scale") if place == 1 else ("bias", "bias")
    if kind.startswith("reduce_"):
        return "axis", "axes"
    if kind == "resize":
        return "resize", "sizes"
    if kind == "transpose":
        return "layout", "axes"
    many = max(new.numel(), 0 if old is None else old.numel()) > 1
    if many and kind in ("add", "sub"):
        table = sum(size > 1 for size in new.shape) > 1
        return ("constant", "added table") if table else ("bias", "bias")
    if many and kind in ("mul", "div"):
        return "scale", "factor"
    return "constant", f"{kind.replace('_', ' ')} with the constant"


def _weights(kind: str, a: torch.Tensor, b: torch.Tensor) -> tuple[str, Fact]:
    off = a != b
    count = int(off.sum())
    if count == 1:
        where = tuple(int(v) for v in off.nonzero()[0])
        found = fact("weights.one", index=where, network=float(a[where]), twin=float(b[where]), bit=None)
        return "weights", found
    if (moved := _moved(a, b) or _rolled("weights", a, b)) is not None:
        return "weights", moved
    axis = 1 if kind in ("matmul", "conv_transpose") else 0
    hit = off.movedim(axis, 0).reshape(a.shape[axis], -1).any(1).nonzero().reshape(-1).tolist()
    x, y = (v.movedim(axis, 0).reshape(a.shape[axis], -1) for v in (a, b))
    order = torch.cdist(y[hit], x[hit]).argmin(1) if len(hit) <= 512 else None
    if (
        order is not None
        and len(hit) > 1
        and sorted(order.tolist()) == list(range(len(hit)))
        and torch.equal(y[hit], x[hit][order])
    ):
        if len(hit) == 2:
            return "channel order", fact("channels.exchanged", channels=tuple(hit))
        return "channel order", fact("channels.weights_moved", moved=len(hit))
    if len(hit) == 1:
        c = hit[0]
        factor = _factor(x[c], y[c])
        if torch.allclose(y[c], x[c] * factor, rtol=1e-4, atol=0):
            found = fact("scaled.channel", of="weights", channel=c, network=1.0, twin=_tidy(factor))
            return "scale", found
    factor = _factor(a, b)
    if torch.allclose(b, a * factor, rtol=1e-4, atol=0):
        return "scale", fact("scaled.all", of="weights", network=1.0, twin=_tidy(factor))
    rounded = _rounded(a, b, axis, hit)
    if rounded is not None:
        return rounded
    if len(hit) == 1 < a.shape[axis]:
        return "weights", fact("weights.other_channel", channel=hit[0], count=a.shape[axis])
    if len(hit) < a.shape[axis]:
        return "weights", fact("weights.other", channels=len(hit), count=a.shape[axis])
    if (step := _grid(a, b)) is not None:
        truncated = bool((b.abs() <= a.abs()).all())
        return "weights", fact("weights.grid", step=step, truncated=truncated)
    if abs(_alike(a, b)) > _RELATED:
        apart = float((b - a).norm() / a.norm())
        return "weights", fact("weights.apart", differing=count, elements=a.numel(), share=apart)
    found = fact("weights.checkpoint", differing=count, elements=a.numel())
    return "weights", found


_RELATED = 0.5
"""Weights whose correlation with ours is less have little to do with them."""


def _grid(a: torch.Tensor, b: torch.Tensor) -> float | None:
    """The power of 2 whose multiples the twin's weights are, each within one step of ours."""
    for bits in range(2, 17):
        step = 2.0**-bits
        if bool(((b / step) == (b / step).round()).all()):
            return step if float((a - b).abs().max()) <= step else None
    return None


def _alike(a: torch.Tensor, b: torch.Tensor) -> float:
    """The correlation of two tensors."""
    x, y = a - a.mean(), b - b.mean()
    size = float(x.norm() * y.norm())
    return float((x * y).sum()) / size if size else 0.0


def _rolled(noun: str, a: torch.Tensor, b: torch.Tensor) -> Fact | None:
    """The same values, rolled along an axis of more than two: two are exchanged."""
    for axis, length in enumerate(a.shape):
        first = b.select(axis, 0)
        for shift in range(1, min(length, 4096) if length > 2 else 1):
            if torch.equal(first, a.select(axis, -shift)) and torch.equal(b, a.roll(shift, axis)):
                return fact("constant.rolled", of=noun, axis=axis, shift=shift, length=length)
    return None


def _moved(a: torch.Tensor, b: torch.Tensor) -> Fact | None:
    """The same weights mirrored, or with two axes exchanged."""
    for axes in (c for n in (1, 2) for c in itertools.combinations(range(2, a.dim()), n)):
        if torch.equal(b, a.flip(axes)):
            return fact("weights.mirrored", axes=axes, both=len(axes) == 2)
    for x, y in itertools.combinations(range(a.dim()), 2):
        if a.shape[x] == a.shape[y] and torch.equal(b, a.transpose(x, y)):
            return fact("weights.axes_exchanged", axes=(x, y))
    return None


def _rounded(a: torch.Tensor, b: torch.Tensor, axis: int, hit: list[int]) -> tuple[str, Fact] | None:
    """The same weights in a narrow float format, or in eight or four bits."""
    x, y = (v.movedim(axis, 0).reshape(a.shape[axis], -1) for v in (a, b))
    for name, to in (("float16", torch.float16), ("bfloat16", torch.bfloat16)):
        whole = torch.equal(b, a.to(to).double())
        if whole or (len(hit) == 1 and torch.equal(y[hit], x[hit].to(to).double())):
            channel = None if whole else hit[0]
            found = fact("precision.weights", network="float32", twin=name, channel=channel)
            return "precision", found
    for bits, per, few in in_few_bits(a, axis):
        if torch.allclose(b, few, rtol=1e-5, atol=1e-9):
            found = fact("quantisation.weights", network="float", twin=f"int{bits}", bits=bits, per=per)
            return "quantisation", found
    return None


def in_few_bits(w: torch.Tensor, axis: int) -> Iterator[tuple[int, str, torch.Tensor]]:
    """Weights rounded to eight and to four bits, with a scale per channel of `axis` and with one for the tensor.

    Steps are symmetric about zero, or, for a whole tensor in eight bits, from its smallest to its largest weight.
    """
    others = [k for k in range(w.dim()) if k != axis]
    for bits in (8, 4):
        for per, size in (("channel", w.abs().amax(others, keepdim=True)), ("tensor", w.abs().max())):
            step = (size / (2 ** (bits - 1) - 1)).clamp_min(1e-300)
            yield bits, per, (w / step).round() * step
    low, high = w.min().clamp(max=0), w.max().clamp(min=0)
    step = ((high - low) / 255).clamp_min(1e-300)
    zero = (-128 - low / step).round()
    yield 8, "tensor", (((w / step).round() + zero).clamp(-128, 127) - zero) * step


def _factor(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a * b).sum() / (a * a).sum()) if bool(a.any()) else 0.0


def _tidy(factor: float) -> float:
    round_one = nice(factor)
    return factor if round_one is None else round_one


def _short(value: torch.Tensor) -> object:
    return value.tolist() if value.numel() <= _SHOWN else None


def _shown(value: torch.Tensor) -> object:
    """A few values, or else the shape."""
    if value.numel() == 1:
        return value.reshape(-1)[0].item()
    if 1 < value.numel() <= _SHOWN:
        return tuple(value.reshape(-1).tolist())
    return fact("shape", dims=tuple(value.shape))
