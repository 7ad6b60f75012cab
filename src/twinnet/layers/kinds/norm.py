"""Normalisation."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from twinnet.layers.kinds._base import (
    Attrs,
    Error,
    Errors,
    Kind,
    Tensors,
    add_up,
    growth,
    mag,
    per_channel,
    register,
    scaled,
)

# ---- batch_norm: u((|x| + |mean|) 4|r| + |b| + |y|), r = scale / sqrt(var + eps) -----------------


def _rate(attrs: Attrs, inputs: Tensors) -> torch.Tensor:
    rate = torch.rsqrt(inputs[4] + attrs.get("eps", 1e-5))
    return rate if inputs[1] is None else rate * inputs[1]


def _batch_norm(attrs: Attrs, *inputs: Any) -> tuple[torch.Tensor]:
    x, _, bias, mean, _ = inputs[:5]
    rate = _rate(attrs, inputs)
    offset = -mean * rate if bias is None else bias - mean * rate
    return (torch.addcmul(per_channel(offset, x), x, per_channel(rate, x)),)


def _batch_norm_error(
    attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float
) -> tuple[Error]:
    x, scale, bias, mean, var = inputs[:5]
    y, rate = outputs[0], _rate(attrs, inputs)
    size = per_channel(mag(rate), x)
    own = None
    if u:
        fixed = 4 * mag(mean) * mag(rate) if bias is None else 4 * mag(mean) * mag(rate) + mag(bias)
        own = mag(x).mul_(4 * u * size).add_(u * per_channel(fixed, x)).add_(mag(y), alpha=u)
    if all(e is None for e in errors):
        return (own,)
    e, e_scale, e_bias, e_mean, e_var = [*errors, None, None, None, None][:5]
    gap = None if e_scale is None and e_var is None else mag(x - per_channel(mean, x))
    terms: list[Error] = [None if e is None else e * size]
    if e_mean is not None:
        terms.append(per_channel(e_mean, x) * size)
    if e_bias is not None:
        terms.append(per_channel(e_bias, x))
    if e_scale is not None and gap is not None:
        terms.append(gap * per_channel(e_scale * mag(rate / scale), x))
    if e_var is not None and gap is not None:
        half = e_var / (2 * mag(var + attrs.get("eps", 1e-5)))
        terms.append(gap * size * per_channel(half, x))
    return (add_up(y, own, *terms),)


register(Kind("batch_norm", _batch_norm, _batch_norm_error))


# ---- mean and deviation over some axes -----------------------------------------------------------
# The mean's error, growth(n) u mean|x|, goes through 1/sd; the deviation's relative error is half that of the
# variance, growth(n) u plus twice the part that the errors of x - mean contribute.


def normalised(
    x: torch.Tensor, axes: tuple[int, ...], eps: float, centre: bool = True
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(x - mean) / sqrt(mean((x - mean)^2) + eps), the mean, and the inverse deviation."""
    mean = x.mean(axes, keepdim=True) if centre else torch.zeros((), dtype=x.dtype)
    gap = x - mean if centre else x
    inverse = torch.rsqrt(gap.square().mean(axes, keepdim=True) + eps)
    return gap * inverse, mean, inverse


def normalised_error(
    x: torch.Tensor, e: Error, axes: tuple[int, ...], eps: float, u: float, centre: bool = True
) -> tuple[torch.Tensor, Error]:
    """|normalised x| and its bound, before scale and bias."""
    hat, mean, inverse = normalised(x, axes, eps, centre)
    n = math.prod(x.shape[a] for a in axes)
    rate, size = mag(inverse), mag(hat)
    off: Error = None
    if u:
        off = mag(x).mul_(u)
        if centre:
            off = off + (off.mean(axes, keepdim=True) * growth(n) + mag(mean) * u)
    if e is not None:
        moved = e + e.mean(axes, keepdim=True) if centre else e
        off = moved if off is None else off.add_(moved)
    if off is None:
        return size, None
    off = off * rate
    spread = (size * off).mean(axes, keepdim=True) + (growth(n) / 2 + 4) * u
    return size, off.add_(size * spread)


class _Affine(NamedTuple):
    """Scale and bias behind a normalisation, and their errors."""

    scale: Any
    bias: Any
    e_scale: Error
    e_bias: Error

    @staticmethod
    def of(inputs: Tensors, errors: Errors) -> _Affine:
        return _Affine(*_pad_none(inputs, 3)[1:], *_pad_none(errors, 3)[1:])

    def error(self, size: torch.Tensor, off: Error, y: torch.Tensor, u: float) -> Error:
        """Bound of the result `y`, from the size and the bound of what was normalised."""
        terms = [off if off is None or self.scale is None else off * mag(self.scale)]
        if self.bias is not None and u:
            terms.append(mag(self.bias) * u)
        terms.append(None if self.e_scale is None else size * self.e_scale)
        return add_up(y, scaled(y, 2 * u), *terms, self.e_bias)


def _pad_none(items: Any, count: int) -> list[Any]:
    return [*items, *[None] * (count - len(items))]


def _layer_axes(attrs: Attrs, x: torch.Tensor) -> tuple[int, ...]:
    first = attrs.get("axis", -1)
    return tuple(range(first if first >= 0 else first + x.dim(), x.dim()))


def _layer_norm(attrs: Attrs, *inputs: Any) -> tuple[torch.Tensor, ...]:
    x, scale, bias = _pad_none(inputs, 3)
    hat, mean, inverse = normalised(x, _layer_axes(attrs, x), attrs.get("eps", 1e-5))
    if scale is not None:
        hat = hat * scale
    return (hat if bias is None else hat + bias, mean, inverse)


def _layer_norm_error(
    attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float
) -> tuple[Error, ...]:
    x, e, axes = inputs[0], errors[0], _layer_axes(attrs, inputs[0])
    size, off = normalised_error(x, e, axes, attrs.get("eps", 1e-5), u)
    first = _Affine.of(inputs, errors).error(size, off, outputs[0], u)
    if len(outputs) == 1:
        return (first,)
    n = math.prod(x.shape[a] for a in axes)
    mean_off = add_up(outputs[1], mag(x).mean(axes, keepdim=True) * (growth(n) * u))
    if e is not None:
        mean_off = add_up(outputs[1], mean_off, e.mean(axes, keepdim=True))
    rate_off = None
    if off is not None:
        rate_off = mag(outputs[2]) * ((size * off).mean(axes, keepdim=True) + 4 * u)
    return (first, mean_off, rate_off)[: len(outputs)]


register(Kind("layer_norm", _layer_norm, _layer_norm_error))


def _rms_norm(attrs: Attrs, *inputs: Any) -> tuple[torch.Tensor]:
    x, scale = _pad_none(inputs, 2)
    hat, _, _ = normalised(x, _layer_axes(attrs, x), attrs.get("eps", 1e-5), centre=False)
    return (hat if scale is None else hat * scale,)


def _rms_norm_error(
    attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float
) -> tuple[Error]:
    x, eps = inputs[0], attrs.get("eps", 1e-5)
    size, off = normalised_error(x, errors[0], _layer_axes(attrs, x), eps, u, centre=False)
    return (_Affine.of(inputs, errors).error(size, off, outputs[0], u),)


register(Kind("rms_norm", _rms_norm, _rms_norm_error))


def _grouped(x: torch.Tensor, groups: int) -> torch.Tensor:
    return x.reshape(x.shape[0], groups, -1)


def _channel_vector(t: Any, x: torch.Tensor, groups: int) -> Any:
    if t is None:
        return None
    if t.numel() == groups and t.numel() != x.shape[1]:
        t = t.repeat_interleave(x.shape[1] // groups)
    return per_channel(t, x)


def _group_norm(attrs: Attrs, *inputs: Any) -> tuple[torch.Tensor]:
    x, scale, bias = _pad_none(inputs, 3)
    groups = attrs["groups"]
    hat, _, _ = normalised(_grouped(x, groups), (2,), attrs.get("eps", 1e-5))
    y = hat.reshape(x.shape)
    if scale is not None:
        y = y * _channel_vector(scale, x, groups)
    return (y if bias is None else y + _channel_vector(bias, x, groups),)


def _group_norm_error(
    attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float
) -> tuple[Error]:
    x, e, groups = inputs[0], errors[0], attrs["groups"]
    grouped_e = None if e is None else _grouped(e, groups)
    size, off = normalised_error(_grouped(x, groups), grouped_e, (2,), attrs.get("eps", 1e-5), u)
    affine = _Affine(*(_channel_vector(t, x, groups) for t in _Affine.of(inputs, errors)))
    off = None if off is None else off.reshape(x.shape)
    return (affine.error(size.reshape(x.shape), off, outputs[0], u),)


register(Kind("group_norm", _group_norm, _group_norm_error))


def _instance_norm(attrs: Attrs, *inputs: Any) -> tuple[torch.Tensor]:
    return _group_norm({**attrs, "groups": inputs[0].shape[1]}, *inputs)


def _instance_norm_error(
    attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float
) -> tuple[Error]:
    return _group_norm_error({**attrs, "groups": inputs[0].shape[1]}, inputs, errors, outputs, u)


register(Kind("instance_norm", _instance_norm, _instance_norm_error))

_MVN_EPS = 1e-9  # ONNX divides by (deviation + 1e-9)


def _mvn(attrs: Attrs, x: torch.Tensor) -> tuple[torch.Tensor]:
    axes = tuple(attrs.get("axes", (0, 2, 3)))
    gap = x - x.mean(axes, keepdim=True)
    return (gap / (gap.square().mean(axes, keepdim=True).sqrt() + _MVN_EPS),)


def _mvn_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    axes = tuple(a % inputs[0].dim() for a in attrs.get("axes", (0, 2, 3)))
    _, off = normalised_error(inputs[0], errors[0], axes, _MVN_EPS**2, u)
    n = math.prod(
        inputs[0].shape[a] for a in axes
    )  # engines take E[x^2] - E[x]^2: its cancellation, relative to var
    x, y = inputs[0], outputs[0]
    ratio = x.square().mean(axes, keepdim=True) / (x.var(axes, correction=0, keepdim=True) + _MVN_EPS**2)
    return (add_up(y, off, mag(y) * (mag(ratio) * (growth(n) * u))),)


register(Kind("mean_variance_norm", _mvn, _mvn_error))


# ---- lp_norm: u|y| (2 + growth(n)); inherited (e + |y| * norm of e) / norm -----------------------


def _norm(attrs: Attrs, x: torch.Tensor) -> torch.Tensor:
    y = torch.linalg.vector_norm(x, attrs.get("p", 2), attrs.get("axis", -1), keepdim=True)
    return y.clamp_(min=attrs.get("eps", 0.0))


def _lp_norm(attrs: Attrs, x: torch.Tensor) -> tuple[torch.Tensor]:
    norm = _norm(attrs, x)
    return (torch.where(norm == 0, torch.zeros_like(x), x / norm),)


def _lp_norm_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    x, e, y = inputs[0], errors[0], outputs[0]
    own = scaled(y, u * (2 + growth(x.shape[attrs.get("axis", -1)])))
    if e is None:
        return (own,)
    norm = mag(_norm(attrs, x))
    spread = torch.linalg.vector_norm(e, attrs.get("p", 2), attrs.get("axis", -1), keepdim=True)
    room = (norm - spread).clamp_(min=0)
    return (add_up(y, own, (e + mag(y) * spread) / room),)


register(Kind("lp_norm", _lp_norm, _lp_norm_error))


# ---- lrn: y = x / d^beta, d = bias + alpha/size * sum of squares over neighbouring channels ------
# u|y| (6 + beta (growth(size) + 2)); inherited e / d^beta + |y| beta alpha/size sum(2|x| e) / d


def _neighbours(t: torch.Tensor, size: int) -> torch.Tensor:
    """Sum over `size` neighbouring channels, (size-1)//2 before and size//2 after."""
    shape = t.shape
    flat = F.pad(t.reshape(shape[0], shape[1], -1), (0, 0, (size - 1) // 2, size // 2))
    total = flat[:, : shape[1]].clone()
    for i in range(1, size):
        total += flat[:, i : i + shape[1]]
    return total.reshape(shape)


def _lrn_base(attrs: Attrs, x: torch.Tensor) -> torch.Tensor:
    size = attrs["size"]
    return _neighbours(x.square(), size).mul_(attrs.get("alpha", 1e-4) / size).add_(attrs.get("bias", 1.0))


def _lrn(attrs: Attrs, x: torch.Tensor) -> tuple[torch.Tensor]:
    return (x / _lrn_base(attrs, x).pow_(attrs.get("beta", 0.75)),)


def _lrn_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    x, e, y = inputs[0], errors[0], outputs[0]
    beta, size = attrs.get("beta", 0.75), attrs["size"]
    own = scaled(y, u * (6 + beta * (growth(size) + 2)))
    if e is None:
        return (own,)
    base = mag(_lrn_base(attrs, x))
    through = e / base**beta
    around = mag(y) * beta * (attrs.get("alpha", 1e-4) / size) * _neighbours(2 * mag(x) * e, size) / base
    return (add_up(y, own, through, around),)


register(Kind("lrn", _lrn, _lrn_error))
