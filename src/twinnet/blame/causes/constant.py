"""Another constant, bound or exponent: solved from what the twin has."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from twinnet.blame.causes.family import Candidate, family
from twinnet.blame.fitting import fit_number, nice
from twinnet.blame.problem import Problem
from twinnet.blame.pullback import pull_back
from twinnet.blame.relations import other_vector
from twinnet.layers.graph import Layer
from twinnet.result import Fact, fact

_NUMBERS = {
    "leaky_relu": ("alpha",), "elu": ("alpha",), "celu": ("alpha",), "selu": ("alpha", "gamma"),
    "swish": ("alpha",), "hard_sigmoid": ("alpha", "beta"), "thresholded_relu": ("alpha",),
    "shrink": ("lambd", "bias"), "softplus": ("beta",), "gemm": ("alpha", "beta"), "matmul": ("alpha",),
    "lrn": ("alpha", "beta", "bias"), "attention": ("scale",), "resize": ("cubic_a",), "add": ("alpha",),
    "sub": ("alpha",),
}  # fmt: skip
_DEFAULTS = {
    ("leaky_relu", "alpha"): 0.01, ("hard_sigmoid", "alpha"): 0.2, ("hard_sigmoid", "beta"): 0.5,
    ("selu", "alpha"): 1.6732632423543772, ("selu", "gamma"): 1.0507009873554805, ("shrink", "lambd"): 0.5,
    ("shrink", "bias"): 0.0, ("lrn", "alpha"): 1e-4, ("lrn", "beta"): 0.75, ("resize", "cubic_a"): -0.75,
}  # fmt: skip
_USUAL = {"leaky_relu": (0.01, 0.1, 0.2, 0.3), "hard_sigmoid": (0.2, 1 / 6)}


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    for i, layer in enumerate(problem.layers):
        if layer.kind in ("add", "sub", "mul", "div", "max", "min", "pow") and len(layer.inputs) == 2:
            yield from _operand(problem, i, layer)
        if layer.kind == "clip":
            yield from _bounds(problem, i, layer)
        for name in _NUMBERS.get(layer.kind, ()):
            yield from _number(problem, i, layer, name)


def _operand(problem: Problem, i: int, layer: Layer) -> Iterator[Candidate]:
    places = [p for p in (0, 1) if problem.constant(i, p) is not None]
    if len(places) != 1:
        return
    place = places[0]
    old, x = problem.constant(i, place), problem.operand(i, 1 - place)
    if not (isinstance(old, torch.Tensor) and old.is_floating_point()) or not x.is_floating_point():
        return
    yield from _missing(problem, i, layer, place, old, x)
    back = pull_back(problem, i)
    if back is None:
        yield from _factor(problem, i, layer, place, old)
        return
    t, mask = back
    new = _solve(layer.kind, place, x, t, mask, old)
    if new is None:
        return
    for value, cost in _tidy(old, new):
        yield _another(i, layer, place, old, value, cost)


def _another(
    i: int, layer: Layer, place: int, old: torch.Tensor, value: torch.Tensor, cost: float
) -> Candidate:
    """Another constant in the place of the old one."""
    kind, found = _name(layer.kind, old, value)
    return Candidate(
        kind=kind,
        fact=found,
        change=lambda p: p.give(i, place, value),
        cost=cost,
        whole=True,
        fitted=_freedom(cost, value),
    )


def _freedom(cost: float, value: torch.Tensor) -> int:
    return value.numel() if cost > 4 else int(cost > 2)


def _missing(
    problem: Problem, i: int, layer: Layer, place: int, old: torch.Tensor, x: torch.Tensor
) -> Iterator[Candidate]:
    if x.shape != problem.out(i).shape:
        return
    value = float(old) if old.numel() == 1 else None
    yield Candidate(
        kind=_name(layer.kind, old, old)[0],
        fact=fact("constant.left_out", network=layer.kind, twin="nothing", value=value),
        change=lambda p: p.drop(i, 1 - place),
        cost=1.5,
    )


def _factor(problem: Problem, i: int, layer: Layer, place: int, old: torch.Tensor) -> Iterator[Candidate]:
    """A factor on a summand, by what the summand does to the result, where that cannot be followed back."""
    if layer.kind not in ("add", "sub") or not problem.same_shape or not problem.is_float:
        return
    without = problem.run(problem.give(i, place, torch.zeros_like(old)))
    if without is None or without.shape != problem.expected.shape:
        return
    effect = problem.expected - without
    size = float((effect * effect).sum())
    ratio = 1 + float((problem.error * effect).sum()) / size if size else 1.0
    # What was fitted to rounded numbers may be off by more than their steps: a short one comes before it.
    for factor, cost in ((nice(ratio, 5e-3), 2.0), (round(ratio, 3), 2.5), (ratio, 3.0)):
        if factor is not None and abs(factor - 1) > 1e-4:
            yield _another(i, layer, place, old, old * factor, cost)


def _solve(
    kind: str, place: int, x: torch.Tensor, t: torch.Tensor, mask: torch.Tensor, old: torch.Tensor
) -> torch.Tensor | None:
    """The constant of the old one's shape that fits best, element by element of that shape."""
    if kind == "add":
        top, bottom = t - x, torch.ones_like(t)
    elif kind == "sub":
        top, bottom = (x + t if place == 0 else x - t), torch.ones_like(t)
    elif kind == "mul":
        top, bottom = t * x, x * x
    elif kind == "div" and place == 1:
        top, bottom = x * x, t * x  # t = x / c
    elif kind == "div":
        top, bottom = t / x, 1 / (x * x)  # t = c / x
    elif kind in ("max", "min"):
        return (t.min() if kind == "max" else t.max()).expand(old.shape).clone() if old.numel() == 1 else None
    elif kind == "pow" and place == 1 and old.numel() == 1:
        good = mask & (x > 0) & (t > 0) & ((x - 1).abs() > 0.05)
        if not bool(good.any()):
            return None
        a, b = x[good].log(), t[good].log()
        return ((a * b).sum() / (a * a).sum()).expand(old.shape).clone()
    else:
        return None
    good = mask & top.isfinite() & bottom.isfinite()
    top, bottom = (_down(torch.where(good, v, 0.0), old.shape) for v in (top, bottom))
    return torch.where(bottom != 0, top / torch.where(bottom != 0, bottom, 1.0), old.expand(top.shape))


def _down(value: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """Summed to the shape of an operand that was broadcast."""
    return value.sum_to_size(shape) if len(shape) else value.sum()


def _tidy(old: torch.Tensor, new: torch.Tensor) -> Iterator[tuple[torch.Tensor, float]]:
    """What the fitted constant may really be: a round number, one changed entry, a factor on all, or as fitted."""
    if new.numel() == 1:
        value = nice(float(new))
        if value is not None:
            yield torch.full_like(new, value), 1.75
        ratio = nice(float(new / old)) if float(old) else None
        if ratio is not None:
            yield old * ratio, 1.75
        # float32 is what a file can hold.
        yield new.to(torch.float32).double(), 2.5
        return
    change = (new - old).abs()
    worst = int(change.reshape(-1).argmax())
    top = float(change.max())
    if top == 0:
        return
    off = change > max(top * 1e-3, 1e-12)
    before, after = float(old.reshape(-1)[worst]), float(new.reshape(-1)[worst])
    if int(off.sum()) <= max(old.numel() // 2, 1):
        value = torch.where(off, new, old)
        if int(off.sum()) == 1 and before and nice(after / before) is not None:
            yield torch.where(off, old * float(nice(after / before) or 0.0), old), 2.0
        yield value, 3.0 if int(off.sum()) == 1 else 5.0
    factor = float((new * old).sum() / (old * old).sum()) if float((old * old).sum()) else 0.0
    if nice(factor) is not None:
        yield old * float(nice(factor) or 0.0), 2.0
    yield old * factor, 3.0
    shift = float((new - old).mean())
    yield old + shift, 3.0
    yield new, 6.0


def _name(kind: str, old: torch.Tensor, new: torch.Tensor) -> tuple[str, Fact]:
    """The kind of cause that another constant is, and the fact."""
    if old.numel() == 1:
        return "constant", fact("constant.operand", operator=kind, network=float(old), twin=float(new))
    label = {"add": "bias", "sub": "bias", "mul": "scale", "div": "scale"}.get(kind, "constant")
    return label, other_vector("bias" if label == "bias" else "factor", old, new)


def _bounds(problem: Problem, i: int, layer: Layer) -> Iterator[Candidate]:
    x = problem.tensor(i, 0)
    ours = [
        layer.attrs.get(n) if layer.attrs.get(n) is not None else problem.operand(i, p)
        for p, n in ((1, "min"), (2, "max"))
    ]
    low, high = (None if v is None else float(v) for v in ours)
    lows: list[float | None] = [low, None]
    highs: list[float | None] = [high, None]
    if i == len(problem.layers) - 1 and problem.same_shape and problem.wanted.numel():
        lows.append(float(problem.wanted.min()))
        highs.append(float(problem.wanted.max()))
    elif (back := pull_back(problem, i)) is not None:
        highs.append(float(back[0][back[1]].max()))
    lows += [v for v in (-1.0, 0.0) if v not in lows]
    highs += [v for v in (1.0, 6.0) if v not in highs]
    if not x.is_floating_point():
        return
    for a in dict.fromkeys(lows):
        for b in dict.fromkeys(highs):
            if (a, b) == (low, high):
                continue
            fits = all(v is None or nice(v) is not None for v in (a, b))
            moved = (a != low) + (b != high)

            def change(p: Problem, a=a, b=b):
                return p.become(i, "clip", min=a, max=b)

            yield Candidate(
                kind="activation",
                fact=fact("activation.bounds", network=(low, high), twin=(a, b)),
                change=change,
                cost=(1.0 if fits else 2.0) + 0.25 * moved,
            )


def _number(problem: Problem, i: int, layer: Layer, name: str) -> Iterator[Candidate]:
    ours = layer.attrs.get(name, _DEFAULTS.get((layer.kind, name), 1.0))
    if ours is None or not problem.same_shape or not problem.is_float:
        return
    ours = float(ours)
    kind = "attention" if layer.kind == "attention" else "constant"

    def candidate(value: float, cost: float) -> Candidate:
        return Candidate(
            kind=kind,
            fact=fact("constant.number", operator=layer.kind, attribute=name, network=ours, twin=value),
            change=lambda p: p.set(i, name, value),
            cost=cost,
            fitted=int(cost > 2),
        )

    for value in _USUAL.get(layer.kind, ()):
        if abs(value - ours) > 1e-6 and name == "alpha":
            yield candidate(value, 1.0)
    if layer.kind in ("add", "sub", "matmul", "gemm") and ours == 1.0 and name not in ("beta",):
        return  # a factor on weights or values, named by the family of those
    fitted = fit_number(lambda v: problem.run(problem.set(i, name, v)), ours, problem.wanted)
    if fitted is not None and abs(fitted - ours) > 1e-7 * abs(ours):
        if nice(fitted) is not None:
            yield candidate(float(nice(fitted) or 0.0), 1.75)
        yield candidate(fitted, 2.75)
