"""Narrower floats: operands, weights or results rounded to float16, bfloat16 or TF32."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch

from twinnet.blame.causes.family import Candidate, family
from twinnet.blame.causes.scale_bias import WEIGHTED
from twinnet.blame.problem import ByCause, Patch, Problem
from twinnet.layers.graph import Layer
from twinnet.result import fact

_NETWORK = "float32"


def tf32(x: torch.Tensor) -> torch.Tensor:
    """Rounded to the ten bits of mantissa that TF32 multiplies with."""
    bits = x.to(torch.float32).contiguous().view(torch.int32)
    kept = (bits + 0x0FFF + ((bits >> 13) & 1)) & ~0x1FFF
    return kept.view(torch.float32).to(x.dtype)


FORMATS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "float16": lambda x: x.to(torch.float16).to(x.dtype),
    "bfloat16": lambda x: x.to(torch.bfloat16).to(x.dtype),
    "tf32": tf32,
}


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    if not problem.is_float or not problem.same_shape:
        return
    last = len(problem.layers) - 1
    yield from _overflow(problem, last)
    for name, to in FORMATS.items():
        if name != "tf32":
            yield _narrow(name, "result", lambda p, f=to: _after(p, last, f), cost=1.5, close=True)
        for i, layer in enumerate(problem.layers):
            if layer.kind not in WEIGHTED:
                continue
            if name != "tf32" and problem.constant(i, 1) is not None:
                for what, places, cost in (
                    ("weights", (1, 2), 1.5),
                    ("weights without the bias", (1,), 1.6),
                    ("data", (0,), 1.6),
                ):
                    yield _narrow(name, what, lambda p, i=i, k=places, f=to: _rounded(p, i, k, f), cost=cost)
            yield _narrow(name, "product", lambda p, i=i, f=to: _rounded(p, i, (0, 1), f), cost=1.6)
    yield from _read(problem)
    yield from _native(problem, last)


def _overflow(problem: Problem, last: int) -> Iterator[Candidate]:
    """Infinite exactly where the number is too large for the twin's format."""
    dtype, expected = problem.got.dtype, problem.expected
    narrow = expected.to(dtype).to(expected.dtype)
    beyond = narrow.isinf() & expected.isfinite()
    if not bool(beyond.any()) or not torch.equal(beyond, problem.wanted.isinf() & expected.isfinite()):
        return
    name, largest = str(dtype).removeprefix("torch."), float(expected[beyond].abs().max())
    to = lambda x: (x.to(dtype).to(x.dtype),)  # noqa: E731
    end = torch.finfo(dtype).max
    yield Candidate(
        kind="precision",
        fact=fact("precision.overflow", network=f"{largest:.3g}", twin="infinite", format=name, end=end),
        change=lambda p: p.then(last, "opaque", run=ByCause(to)),
        cost=0.5,
        static=True,
        whole=True,
    )


def _read(problem: Problem) -> Iterator[Candidate]:
    """Data rounded to a narrow format on the way from one segment to the next."""
    floats = [n for n, x in problem.inputs.items() if x.is_floating_point()]
    for name in floats:
        which = None if len(floats) == 1 else name
        for narrow in ("float16", "bfloat16"):
            to = FORMATS[narrow]
            yield Candidate(
                kind="precision",
                fact=fact("precision.read", network=_NETWORK, twin=narrow, tensor=which),
                change=lambda p, n=name, f=to: p.reading(n, lambda x: (f(x),)),
                cost=1.7,
                whole=True,
            )


def _native(problem: Problem, last: int) -> Iterator[Candidate]:
    """Every value of the twin fits the narrow format exactly, and no error is larger than its rounding."""
    t = problem.wanted[problem.wanted.isfinite()]
    if problem.got.dtype not in (torch.float32, torch.float64) or t.numel() < 64:
        return
    for name, unit in (("float16", 2.0**-11), ("bfloat16", 2.0**-8)):
        to = FORMATS[name]
        if (
            bool((to(t) == t).all())
            and int((to(problem.expected) != problem.expected).sum()) > t.numel() // 4
        ):
            yield Candidate(
                kind="precision",
                fact=fact("precision.computed", network=_NETWORK, twin=name),
                change=lambda p, f=to: _after(p, last, f),
                cost=2.25,
                unit=unit,
                whole=True,
            )


def _narrow(
    name: str, what: str, change: Callable[[Problem], Patch], *, cost: float, close: bool = False
) -> Candidate:
    found = fact("precision.rounded", network=_NETWORK, twin=name, what=what)
    return Candidate(kind="precision", fact=found, change=change, cost=cost, close=close)


def _after(problem: Problem, i: int, to: Callable) -> Patch:
    return problem.then(i, "opaque", run=ByCause(lambda x: (to(x),)))


def _rounded(problem: Problem, i: int, places: tuple[int, ...], to: Callable) -> Patch:
    layer = problem.layers[i]
    inputs, extra = list(layer.inputs), []
    for place in places:
        if place < len(inputs) and inputs[place] is not None:
            new = f"{inputs[place]}/narrow{place}"
            extra.append(Layer("opaque", (inputs[place],), (new,), {"run": ByCause(lambda x: (to(x),))}))
            inputs[place] = new
    return Patch(i, i + 1, (*extra, replace(layer, inputs=tuple(inputs))))
