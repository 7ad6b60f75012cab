"""How one constant tensor relates to another, in words, and which kind of cause that is."""

from __future__ import annotations

import itertools

import torch

from twinnet.blame.causes.family import plain
from twinnet.blame.fitting import nice

__all__ = ["constant_words"]

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


def constant_words(kind: str, place: int, old: torch.Tensor | None, new: torch.Tensor) -> tuple[str, str]:
    """Kind of cause and sentence for another constant at an operand.

    >>> w = torch.arange(18.0).reshape(2, 1, 3, 3)
    >>> constant_words("conv", 1, w, w.flip(3))
    ('weights', 'the kernel is mirrored along axis 3')
    """
    cause, noun = _role(kind, place, old, new)
    if old is None:
        return cause, f"has a {noun} that the network does not have"
    if old.shape != new.shape or not old.is_floating_point() or not new.is_floating_point():
        return cause, f"{noun} {_show(new)} where the network has {_show(old)}"
    a, b = old.double(), new.double()
    if a.numel() == 1:
        ratio = nice(float(b / a)) if float(a) else None
        told = "" if ratio is None else f" ({plain(ratio)}x)"
        return cause, f"{noun} {plain(float(b))} where the network has {plain(float(a))}{told}"
    if cause == "weights":
        return _weights(kind, a, b)
    return cause, _vector(noun, a, b)


def _role(kind: str, place: int, old: torch.Tensor | None, new: torch.Tensor) -> tuple[str, str]:
    if (kind, place) in _PLACES:
        return _PLACES[kind, place]
    if kind in _LINEAR:
        return (
            ("bias", "bias")
            if place == (3 if kind in ("lstm", "gru", "rnn") else 2)
            else ("weights", "weights")
        )
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
        return "bias", "bias"
    if many and kind in ("mul", "div"):
        return "scale", "factor"
    return "constant", f"{kind.replace('_', ' ')} with the constant"


def _show(value: torch.Tensor) -> str:
    return (
        plain(tuple(value.reshape(-1).tolist()))
        if 1 < value.numel() <= 8
        else plain(value.reshape(-1)[0].item())
        if value.numel() == 1
        else f"of shape {plain(tuple(value.shape))}"
    )


def _vector(noun: str, a: torch.Tensor, b: torch.Tensor) -> str:
    off = (a != b).reshape(-1).nonzero().reshape(-1)
    if len(off) == 1:
        at = int(off[0])
        x, y = float(a.reshape(-1)[at]), float(b.reshape(-1)[at])
        ratio = nice(y / x) if x else None
        told = "" if ratio is None else f" ({plain(ratio)}x)"
        return f"{noun} of channel {at} is {plain(y)} where the network has {plain(x)}{told}"
    factor = float((a * b).sum() / (a * a).sum()) if bool(a.any()) else 0.0
    if not bool(b.any()):
        return f"the {noun} is 0 throughout"
    if torch.allclose(b, a * factor, rtol=1e-5, atol=0):
        return f"the {noun} is {plain(nice(factor) if nice(factor) is not None else factor)}x"
    return f"another {noun} in {len(off)} of {a.numel()} channels"


def _weights(kind: str, a: torch.Tensor, b: torch.Tensor) -> tuple[str, str]:
    off = a != b
    count = int(off.sum())
    if count == 1:
        where = tuple(int(v) for v in off.nonzero()[0])
        return (
            "weights",
            f"weight {plain(where)} is {plain(float(b[where]))} "
            f"where the network has {plain(float(a[where]))}",
        )
    for axes in (c for n in (1, 2) for c in itertools.combinations(range(2, a.dim()), n)):
        if torch.equal(b, a.flip(axes)):
            named = "both ways" if len(axes) == 2 else f"along axis {axes[0]}"
            return "weights", f"the kernel is mirrored {named}"
    for x, y in itertools.combinations(range(a.dim()), 2):
        if a.shape[x] == a.shape[y] and torch.equal(b, a.transpose(x, y)):
            return "weights", f"axes {x} and {y} of the weights are exchanged"
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
        pair = (
            f"channels {hit[0]} and {hit[1]} are exchanged"
            if len(hit) == 2
            else f"{len(hit)} output channels of the weights are in another order"
        )
        return "channel order", pair
    if len(hit) == 1:
        c = hit[0]
        factor = float((x[c] * y[c]).sum() / (x[c] * x[c]).sum()) if bool(x[c].any()) else 0.0
        if torch.allclose(y[c], x[c] * factor, rtol=1e-4, atol=0):
            value = nice(factor)
            return "scale", f"weights of channel {c} are {plain(factor if value is None else value)}x"
    factor = float((a * b).sum() / (a * a).sum()) if bool(a.any()) else 0.0
    if torch.allclose(b, a * factor, rtol=1e-4, atol=0):
        value = nice(factor)
        return "scale", f"the weights are {plain(factor if value is None else value)}x"
    for name, to in (("float16", torch.float16), ("bfloat16", torch.bfloat16)):
        if torch.equal(b, a.to(to).double()):
            return "precision", f"the weights are rounded to {name}"
        if len(hit) == 1 and torch.equal(y[hit], x[hit].to(to).double()):
            return "precision", f"weights of channel {hit[0]} are rounded to {name}"
    for bits in (8, 4):
        top = 2 ** (bits - 1) - 1
        others = [k for k in range(a.dim()) if k != axis]
        for words, size in (
            ("per channel", a.abs().amax(others, keepdim=True)),
            ("per tensor", a.abs().max()),
        ):
            step = (size / top).clamp_min(1e-300)
            if torch.allclose(b, (a / step).round() * step, rtol=1e-5, atol=1e-9):
                return "quantisation", f"the weights are rounded to {bits} bits {words}"
    if len(hit) == 1 < a.shape[axis]:
        return "weights", f"other weights in channel {hit[0]} of {a.shape[axis]}"
    if len(hit) < a.shape[axis]:
        return "weights", f"other weights in {len(hit)} of {a.shape[axis]} channels"
    return "weights", f"other weights throughout, as from another checkpoint ({count} of {a.numel()} differ)"
