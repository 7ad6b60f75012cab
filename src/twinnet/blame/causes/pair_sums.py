"""Products of 8-bit numbers added up in pairs of 16 bits, which saturate: as on processors without VNNI."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from twinnet.blame.causes.family import Candidate, NotApplicable, family
from twinnet.blame.problem import ByCause, Patch, Problem
from twinnet.layers import kinds
from twinnet.layers.graph import Layer
from twinnet.layers.kinds.linear import conv_window
from twinnet.pairing import Transform
from twinnet.result import fact

_LOW, _HIGH = -(1 << 15), (1 << 15) - 1
_WORK = 1 << 31
"""Products that are worth computing one by one."""


_LAYERS = ("conv", "linear", "matmul", "gemm")


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    if not problem.same_shape:
        return
    for lost in _declared_by_the_network(problem) if problem.kept is None else _kept_by_the_twin(problem):
        for channels_last in (True, False) if lost.layer.kind == "conv" else (False,):
            yield Candidate(
                kind="quantisation",
                fact=fact("steps.pairs", network="32 bits", twin="16 bits"),
                change=lambda p, lost=lost, last=channels_last: _less(p, lost.index, lost(last)),
                whole=True,
                close=True,  # single sums (under 1 %) were seen that kernels did not saturate where this does
            )


def _kept_by_the_twin(problem: Problem) -> Iterator[_Lost]:
    """Layers of a float network that the twin holds in 8 bits."""
    kept = problem.kept
    for weight in kept.weights if kept is not None else ():
        layer = problem.layers[weight.layer]
        steps = _steps_of(problem, layer.inputs[0])
        if steps is None and kept is not None and kept.dynamic:
            steps = _own_steps(problem.tensor(weight.layer, 0))
        if weight.place != 1 or steps is None or steps.dtype not in ("int8", "uint8"):
            continue
        if layer.kind not in _LAYERS or not bool((weight.half > 0).all()):
            continue
        integers = (weight.theirs / (2 * weight.half)).round()
        if float(integers.abs().max()) <= 128:
            yield _Lost(problem, weight.layer, steps, integers, 2 * weight.half)


def _declared_by_the_network(problem: Problem) -> Iterator[_Lost]:
    """Layers of a network that is quantised itself: both operands are 8-bit numbers, made real just before."""
    makers = {layer.outputs[0]: layer for layer in problem.layers if layer.kind == "dequantize_linear"}
    for index, layer in enumerate(problem.layers):
        if layer.kind not in _LAYERS:
            continue
        data, weight = (makers.get(name or "") for name in layer.inputs[:2])
        if data is None or weight is None:
            continue
        step, zero = (_constant(problem, data, place) for place in (1, 2))
        integers, scale, offset = (_constant(problem, weight, place) for place in range(3))
        if step is None or integers is None or scale is None or step.numel() != 1:
            continue
        if integers.dtype != torch.int8 or zero is None or zero.dtype not in (torch.int8, torch.uint8):
            continue
        if weight.attrs.get("block") or (offset is not None and bool(offset.any())):
            continue
        if scale.numel() > 1:
            axis = int(weight.attrs.get("axis", 1)) % integers.dim()
            scale = scale.reshape([-1 if d == axis else 1 for d in range(integers.dim())])
        steps = Transform(
            scale=(float(step),), zero=(int(zero),), dtype="int8" if zero.dtype == torch.int8 else "uint8"
        )
        yield _Lost(problem, index, steps, integers, scale.double().expand(integers.shape))


def _constant(problem: Problem, layer: Layer, place: int) -> torch.Tensor | None:
    """The constant that a layer reads there; None if it reads none."""
    return problem.constants.get(name) if (name := dict(enumerate(layer.inputs)).get(place)) else None


def _steps_of(problem: Problem, name: str | None) -> Transform | None:
    """The steps of a layer's data, also behind layers that only move or select them."""
    makers = {n: layer for layer in problem.layers for n in layer.outputs}
    while name not in problem.steps and name in makers and kinds.get(makers[name].kind).exact:
        name = makers[name].inputs[0] if makers[name].inputs else None
    return problem.steps.get(name or "")


def _own_steps(x: torch.Tensor) -> Transform:
    """The steps that dynamic quantisation gives to data."""
    low, high = min(float(x.min()), 0.0), max(float(x.max()), 0.0)
    scale = (high - low) / 255 or 1.0
    return Transform(scale=(scale,), zero=(round(-low / scale),), dtype="uint8")


def _less(problem: Problem, index: int, lost: torch.Tensor) -> Patch:
    return problem.then(index, "opaque", run=ByCause(lambda y: (y + lost,)))


class _Lost:
    """What saturation takes from the result of a layer."""

    def __init__(
        self, problem: Problem, index: int, steps: Transform, weight: torch.Tensor, scale: torch.Tensor
    ) -> None:
        self.layer, self.index = problem.layers[index], index
        self._x = problem.tensor(index, 0)
        self._steps, self._weight, self._scale = steps, weight, scale

    def __call__(self, channels_last: bool) -> torch.Tensor:
        if len(self._steps.scale or ()) != 1:
            raise NotApplicable("steps for each channel of the data")
        step = (self._steps.scale or (1.0,))[0]
        # Signed numbers are moved to 0..255 first: the instruction multiplies unsigned by signed ones.
        zero = self._steps.zero[0] + (128 if self._steps.dtype == "int8" else 0)
        x = ((self._x / step).round() + zero).clamp(0, 255).to(torch.float32)
        w, scale = self._weight.to(torch.float32), self._scale
        if self.layer.kind == "conv":
            per_channel = scale.reshape(len(w), -1)[:, 0].reshape(-1, 1, 1)
            return _conv(self.layer, x, w, zero, channels_last) * per_channel * step
        if self.layer.kind in ("matmul", "gemm") and not self.layer.attrs.get("trans_b"):
            w, scale = w.t(), scale.t()
        if w.dim() != 2 or x.shape[-1] != w.shape[1]:
            raise NotApplicable("not a product with one matrix")
        lost = _saturated(x.reshape(1, -1, x.shape[-1]).transpose(1, 2), w)
        return lost.transpose(1, 2).reshape(*x.shape[:-1], len(w)) * scale[:, 0] * step


def _conv(layer: Layer, x: torch.Tensor, w: torch.Tensor, zero: int, channels_last: bool) -> torch.Tensor:
    if w.dim() != 4 or int(layer.attrs.get("group", 1)) != 1:
        raise NotApplicable("other convolutions are not computed by these instructions")
    (sh, sw), (top, left, bottom, right), (dh, dw) = conv_window(layer.attrs, x, tuple(w.shape[2:]))
    padded = torch.nn.functional.pad(x, (left, right, top, bottom), value=float(zero))
    kh, kw = w.shape[2:]
    height = (padded.shape[2] - dh * (kh - 1) - 1) // sh + 1
    width = (padded.shape[3] - dw * (kw - 1) - 1) // sw + 1
    columns = torch.nn.functional.unfold(padded, (kh, kw), dilation=(dh, dw), stride=(sh, sw))
    rows = w.reshape(len(w), -1)
    if channels_last:
        n = w.shape[1]
        columns = columns.reshape(len(x), n, kh * kw, -1).transpose(1, 2).reshape(len(x), n * kh * kw, -1)
        rows = w.reshape(len(w), n, kh * kw).transpose(1, 2).reshape(len(w), -1)
    return _saturated(columns, rows).reshape(len(x), len(w), height, width)


def _saturated(columns: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """What is lost of each product of a row and a column if their terms are added up two by two."""
    if columns.shape[1] % 2:
        columns = torch.nn.functional.pad(columns, (0, 0, 0, 1))
        rows = torch.nn.functional.pad(rows, (0, 1))
    if math.prod(columns.shape) * len(rows) > _WORK:
        raise NotApplicable("too large to compute pair by pair")
    first, second = columns[:, ::2], columns[:, 1::2]
    lost = torch.zeros((len(columns), len(rows), columns.shape[2]), dtype=torch.float64)
    most = 255 * (rows[:, ::2].clamp_min(0) + rows[:, 1::2].clamp_min(0))
    least = 255 * (rows[:, ::2].clamp_max(0) + rows[:, 1::2].clamp_max(0))
    risky = (most > _HIGH) | (least < _LOW)
    if not bool(risky.any()):
        raise NotApplicable("no pair can saturate")
    for number in risky.any(1).nonzero().reshape(-1).tolist():
        pairs = risky[number].nonzero().reshape(-1)
        row = rows[number]
        sums = first[:, pairs] * row[::2][pairs][:, None] + second[:, pairs] * row[1::2][pairs][:, None]
        lost[:, number] = (sums.clamp(_LOW, _HIGH) - sums).sum(1)
    if not bool(lost.any()):
        raise NotApplicable("no pair saturates")
    return lost
