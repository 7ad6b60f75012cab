"""Activations: left out, added, of another kind or approximation, with another bound."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from twinnet.blame.causes.family import Candidate, family
from twinnet.blame.fitting import nice
from twinnet.blame.problem import Problem
from twinnet.layers.graph import Layer
from twinnet.result import fact

_OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "ReLU": ("relu", {}),
    "ReLU6": ("clip", {"min": 0.0, "max": 6.0}),
    "leaky ReLU 0.01": ("leaky_relu", {"alpha": 0.01}),
    "leaky ReLU 0.1": ("leaky_relu", {"alpha": 0.1}),
    "leaky ReLU 0.2": ("leaky_relu", {"alpha": 0.2}),
    "sigmoid": ("sigmoid", {}),
    "hard sigmoid (x/6 + 0.5)": ("hard_sigmoid", {"alpha": 1 / 6, "beta": 0.5}),
    "hard sigmoid (0.2 x + 0.5)": ("hard_sigmoid", {"alpha": 0.2, "beta": 0.5}),
    "tanh": ("tanh", {}),
    "hard tanh": ("clip", {"min": -1.0, "max": 1.0}),
    "SiLU": ("swish", {}),
    "hard swish": ("hard_swish", {}),
    "GELU erf": ("gelu", {"approximate": "none"}),
    "GELU tanh approximation": ("gelu", {"approximate": "tanh"}),
    "GELU sigmoid approximation": ("swish", {"alpha": 1.702}),
    "ELU": ("elu", {}),
    "SELU": ("selu", {}),
    "softplus": ("softplus", {}),
    "softsign": ("softsign", {}),
    "mish": ("mish", {}),
    "log sigmoid": ("log_sigmoid", {}),
    "abs": ("abs", {}),
}
_KINDS = {kind for kind, _ in _OTHERS.values()} | {"celu", "prelu", "thresholded_relu", "shrink"}
_KINDS -= {"abs"}
_AFTER = ("ReLU", "ReLU6", "sigmoid", "tanh", "hard tanh", "hard swish", "SiLU", "hard sigmoid (x/6 + 0.5)",
          "GELU erf", "leaky ReLU 0.01", "leaky ReLU 0.1", "leaky ReLU 0.2", "abs")  # fmt: skip


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    for i, layer in enumerate(problem.layers):
        if not (hasattr(problem.out(i), "is_floating_point") and problem.out(i).is_floating_point()):
            continue
        if layer.kind in _KINDS:
            yield from _instead(i, layer)
        if i == len(problem.layers) - 1 or layer.kind not in _KINDS:
            yield from _added(problem, i, layer)


def _called(layer: Layer) -> str:
    for words, (kind, attrs) in _OTHERS.items():
        if kind == layer.kind and all(_same(layer.attrs.get(k), v) for k, v in attrs.items()):
            return words
    return layer.kind.replace("_", " ")


def _same(a: object, b: object) -> bool:
    return abs(a - b) < 1e-6 if isinstance(a, float) and isinstance(b, float) else a == b


def _instead(i: int, layer: Layer) -> Iterator[Candidate]:
    ours = _called(layer)
    if layer.kind == "gelu" and "approximate" not in layer.attrs:
        ours = "GELU erf"
    yield Candidate(
        kind="activation",
        fact=fact("activation.left_out", network=ours, twin="nothing"),
        change=lambda p: p.drop(i),
    )
    for words, (kind, attrs) in _OTHERS.items():
        if words == ours or (kind == layer.kind == "clip"):
            continue
        if kind == layer.kind and kind in ("leaky_relu", "hard_sigmoid", "swish") and kind != "swish":
            continue  # the same function with another constant: named by the family of constants
        yield Candidate(
            kind="activation",
            fact=fact("activation.another", network=ours, twin=words),
            change=lambda p, k=kind, a=attrs: p.become(i, k, **a),
        )


def _added(problem: Problem, i: int, layer: Layer) -> Iterator[Candidate]:
    for words in _AFTER:
        kind, attrs = _OTHERS[words]
        if kind == layer.kind:
            continue
        yield Candidate(
            kind="activation",
            fact=fact("activation.added", network="nothing", twin=words),
            change=lambda p, k=kind, a=attrs: p.then(i, k, **a),
            cost=1.25,
        )
    if (
        i != len(problem.layers) - 1
        or not problem.same_shape
        or layer.kind == "clip"
        or not problem.wanted.numel()
    ):
        return
    low, high = float(problem.wanted.min()), float(problem.wanted.max())
    below, above = bool((problem.expected < low).any()), bool((problem.expected > high).any())
    for a, b in dict.fromkeys(
        (
            (low if below else None, high if above else None),
            (low if below else None, None),
            (None, high if above else None),
        )
    ):
        if a is None and b is None:
            continue
        fits = all(v is None or nice(v) is not None for v in (a, b))

        def change(p: Problem, a=a, b=b):
            return p.then(i, "clip", min=a, max=b)

        # An extreme of the data always fits a bound of one element; several must lie on it to believe it.
        hits = sum(int((problem.wanted == v).sum()) for v in (a, b) if v is not None)
        if 1 + (a is not None and b is not None) < hits < problem.wanted.numel():
            yield Candidate(
                kind="activation",
                fact=fact("activation.bounded", network=None, twin=(a, b)),
                change=change,
                cost=1.5 if fits else 2.25,
            )
