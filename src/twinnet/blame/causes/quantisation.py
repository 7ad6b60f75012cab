"""Quantised values: scale, zero point, range, overflow, rounding; and floats forced to a grid."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from twinnet.blame.causes.family import Candidate, family
from twinnet.blame.causes.scale_bias import WEIGHTED
from twinnet.blame.fitting import nice
from twinnet.blame.problem import ByCause, Patch, Problem
from twinnet.blame.relations import in_few_bits
from twinnet.layers.graph import Layer
from twinnet.layers.kinds import along
from twinnet.result import Fact, fact

WAYS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "half to even": torch.round,
    "half away from zero": lambda v: torch.sign(v) * (v.abs() + 0.5).floor(),
    "half up": lambda v: (v + 0.5).floor(),
    "down": torch.floor,
    "up": torch.ceil,
    "towards zero": torch.trunc,
}
"""Ways to round to whole numbers."""


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    for i, layer in enumerate(problem.layers):
        if layer.kind == "quantize_linear":
            yield from _quantize(problem, i, layer)
        elif layer.kind == "dequantize_linear":
            yield from _dequantize(problem, i, layer)
        elif layer.kind in WEIGHTED:
            yield from _weights(problem, i, layer)
    yield from _grid(problem)


def _parts(problem: Problem, i: int, layer: Layer) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    x = problem.tensor(i, 0)
    found = []
    for place, name, default in ((1, "scale", 1.0), (2, "zero", 0.0)):
        value = layer.attrs.get(name)
        value = problem.operand(i, place) if value is None else value
        t = torch.as_tensor(default if value is None else value).to(torch.float64)
        axis = layer.attrs.get("axis", 1)
        found.append(along(t, axis, x.dim()) if t.numel() > 1 else t.reshape(()))
    return x.to(torch.float64), found[0], found[1]


def _quantize(problem: Problem, i: int, layer: Layer) -> Iterator[Candidate]:
    x, scale, zero = _parts(problem, i, layer)
    out = problem.out(i)
    if out.is_floating_point():
        return
    info = torch.iinfo(out.dtype)
    low, high = layer.attrs.get("qmin", info.min), layer.attrs.get("qmax", info.max)

    def made_of(found: Fact, value: torch.Tensor, cost: float = 1.0) -> Candidate:
        held = value.clamp(low, high).to(out.dtype)
        return Candidate(
            kind="quantisation",
            fact=found,
            change=lambda p: p.made(i, held),
            cost=cost,
            whole=True,
            close=True,
        )

    for words, way in WAYS.items():
        if words != "half to even":
            found = fact("quantisation.rounding", network="half to even", twin=words)
            yield made_of(found, way(x / scale) + zero)
    wrapped = ((x / scale).round() + zero - info.min).remainder(info.max - info.min + 1) + info.min
    yield made_of(fact("quantisation.overflows", network="saturates", twin="overflows"), wrapped)
    if problem.same_shape and i == len(problem.layers) - 1:
        t = problem.wanted.to(torch.float64)
        inner = (t > low) & (t < high)
        if bool(inner.any()):
            shift = int((t - out.to(torch.float64))[inner].median())
            if shift:
                ours = int(zero.reshape(-1)[0])
                found = fact("quantisation.zero_point", network=ours, twin=ours + shift)
                yield made_of(found, (x / scale).round() + zero + shift)
            steps = x / scale
            top = float(((t - zero) * steps)[inner].sum())
            ratio = float((steps * steps)[inner].sum()) / top if top else 0.0
            for r in (nice(ratio, 5e-3), ratio):
                if r and abs(r - 1) > 1e-4:
                    found = fact("quantisation.scale", network=1.0, twin=r)
                    yield made_of(found, (x / (scale * r)).round() + zero, cost=2.0)
        top, bottom = float(t.max()), float(t.min())
        if top < high or bottom > low:
            found = fact("quantisation.saturates", network=(low, high), twin=(bottom, top))
            yield made_of(found, ((x / scale).round() + zero).clamp(bottom, top), cost=1.5)


def _dequantize(problem: Problem, i: int, layer: Layer) -> Iterator[Candidate]:
    q, scale, zero = _parts(problem, i, layer)
    if i != len(problem.layers) - 1 or not problem.same_shape:
        return
    t, y = problem.wanted, problem.expected
    shift = float(((t - y) / scale).median())
    if abs(shift - round(shift)) < 1e-3 and round(shift):
        ours = int(zero.reshape(-1)[0])
        theirs = ours - round(shift)
        made = (q - zero + round(shift)) * scale
        yield Candidate(
            kind="quantisation",
            fact=fact("quantisation.read_zero_point", network=ours, twin=theirs),
            change=lambda p: p.made(i, made),
            whole=True,
        )
    ratio = float((t * y).sum() / (y * y).sum()) if bool(y.any()) else 1.0
    for r, cost in ((nice(ratio), 1.5), (ratio, 2.5)):
        if r is not None and abs(r - 1) > 1e-6:
            yield Candidate(
                kind="quantisation",
                fact=fact("quantisation.read_scale", network=1.0, twin=r),
                change=lambda p, r=r: p.made(i, y * r),
                cost=cost,
                whole=True,
            )


def _weights(problem: Problem, i: int, layer: Layer) -> Iterator[Candidate]:
    """Float weights replaced by what eight or four bits hold of them."""
    w = problem.constant(i, 1)
    if w is None or w.dim() < 2:
        return
    axis = 1 if layer.kind in ("matmul", "conv_transpose") else 0
    code = "steps.by_engine" if _held_whole(problem, i, w) else "quantisation.weights"
    for bits, per, few in in_few_bits(w, axis):
        yield Candidate(
            kind="quantisation",
            fact=fact(code, network="float", twin=f"int{bits}", bits=bits, per=per),
            change=lambda p, v=few: p.give(i, 1, v),
            cost=1.5,
            whole=True,
        )


def _held_whole(problem: Problem, i: int, weight: torch.Tensor) -> bool:
    """Whether the twin's file holds a weight as the network does, so that only its engine can have rounded it."""
    if problem.kept is not None:
        return all((w.layer, w.place) != (i, 1) for w in problem.kept.weights)
    held = () if problem.twin is None else problem.twin.constants.values()
    return any(t.shape == weight.shape and torch.equal(t.double(), weight) for t in held)


def _grid(problem: Problem) -> Iterator[Candidate]:
    """A float result whose values all lie on few, evenly spaced levels."""
    if not problem.is_float or not problem.same_shape or problem.wanted.numel() < 512:
        return
    t, last = problem.wanted, len(problem.layers) - 1
    levels = torch.unique(t.reshape(-1)[:: max(1, t.numel() // 65536)])
    if not 3 < len(levels) <= 256 or not bool(levels.isfinite().all()):
        return
    gaps = levels[1:] - levels[:-1]
    step = float(gaps.min())
    counts = (gaps / step).round()
    if step <= 0 or float((gaps / step - counts).abs().max()) > 1e-2:
        return
    step = float((levels[-1] - levels[0]) / counts.sum())
    low, high = float(t.min()), float(t.max())
    # Taken from all over the tensor: whole channels may be 0.
    if len(torch.unique(problem.expected.reshape(-1)[:: max(1, t.numel() // 4096)])) <= len(levels):
        return
    bits = max(2, int(torch.tensor((high - low) / step + 1).log2().ceil()))

    def change(p: Problem) -> Patch:
        on_steps = ByCause(lambda x: (((x / step).round() * step).clamp(low, high),))
        return p.then(last, "opaque", run=on_steps)

    yield Candidate(
        kind="quantisation",
        fact=fact("quantisation.grid", network="float", twin=step, bits=bits),
        change=change,
        cost=1.75,
        close=True,
        whole=True,
    )
