"""Layers that only the twin has, and what is common to all that the twin's own graph states."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch

from twinnet.blame.causes.family import Candidate
from twinnet.blame.problem import Patch, Problem
from twinnet.layers.graph import Layer
from twinnet.result import Fact, fact

__all__ = ["ACTIVATIONS", "group_of", "inserted", "stated"]

ACTIVATIONS = {
    "relu", "sigmoid", "tanh", "softsign", "log_sigmoid", "hard_swish", "clip", "leaky_relu", "prelu",
    "elu", "celu", "selu", "thresholded_relu", "shrink", "hard_sigmoid", "swish", "gelu", "mish",
    "softplus",
}  # fmt: skip
_ROUND = {"round", "floor", "ceil", "trunc"}


def stated(
    kind: str, found: Fact, change: Callable[[Problem], Patch], cost: float, *, close: bool = False
) -> Candidate:
    """A candidate that the twin's own graph states."""
    return Candidate(kind=kind, fact=found, change=change, cost=cost, whole=True, static=True, close=close)


def group_of(kind: str) -> str:
    """The kind of cause that layers of a kind belong to."""
    if kind in ACTIVATIONS:
        return "activation"
    if kind.endswith("_norm"):
        return "normalisation"
    if "pool" in kind:
        return "pooling"
    return "rounding" if kind in _ROUND else "operator"


def inserted(
    problem: Problem, at: int, extra: tuple[Layer, ...], names: dict[str, str]
) -> Iterator[Candidate]:
    """Layers that only the twin has: before layer `at`, on the operand they read, or after the last layer."""
    assert problem.twin is not None
    constants = problem.twin.constants
    made = {n for layer in extra for n in layer.outputs}
    data = list(
        dict.fromkeys(
            names.get(n, n)
            for x in extra
            for n in x.inputs
            if n is not None and n not in constants and n not in made
        )
    )
    if len(data) != 1:
        return
    source, result = data[0], extra[-1].outputs[0]
    kind, found = _insertion(problem, extra, source)

    def renamed(start: str, end: str) -> tuple[Layer, ...]:
        to = {source: start, result: end}
        back = dict(names)

        def name(n: str | None) -> str | None:
            return None if n is None else to.get(back.get(n, n), to.get(n, back.get(n, n)))

        return tuple(
            replace(x, inputs=tuple(map(name, x.inputs)), outputs=tuple(name(n) or "" for n in x.outputs))
            for x in extra
        )

    if at < len(problem.layers) and source in problem.layers[at].inputs:
        new = f"{source}/twin"
        after = replace(
            problem.layers[at], inputs=tuple(new if n == source else n for n in problem.layers[at].inputs)
        )
        patch = Patch(at, at + 1, (*renamed(source, new), after), constants)
    elif at > 0:
        last = problem.layers[at - 1]
        inner = last.outputs[0] + "/before"
        before = replace(last, outputs=(inner, *last.outputs[1:]))
        patch = Patch(at - 1, at, (before, *renamed(inner, last.outputs[0])), constants)
    else:
        return
    rounds = kind in ("quantisation", "precision")
    # Several steps are better explained by a family that names them as one change.
    plainly = len(extra) == 1 or kind != "operator"
    cost = 0.75 if plainly else 4.0
    yield replace(stated(kind, found, lambda p: patch, cost, close=rounds), static=plainly)


def _insertion(problem: Problem, extra: tuple[Layer, ...], source: str) -> tuple[str, Fact]:
    """The kind of cause that these layers are, and what they do."""
    assert problem.twin is not None
    kinds = [x.kind for x in extra]

    def added(code: str, **more: Any) -> Fact:
        return fact(f"inserted.{code}", network="nothing", twin="+".join(kinds), **more)

    steps = tuple(kinds)
    fixed = [
        problem.twin.constants[n]
        for x in extra
        for n in x.inputs
        if n is not None and n in problem.twin.constants
    ]
    if source in problem.values and not problem.values[source].is_floating_point():
        return "index", added("positions", steps=steps)
    if "quantize_linear" in kinds:
        return "quantisation", added("quantiser")
    if "cast" in kinds:
        to = next(x.attrs.get("to") for x in extra if x.kind == "cast")
        return "precision", added("cast", to=str(to).removeprefix("torch."))
    if (
        kinds == ["gather"]
        and fixed
        and sorted(fixed[0].reshape(-1).tolist()) == list(range(fixed[0].numel()))
    ):
        order = fixed[0].reshape(-1)
        off = (order != torch.arange(len(order))).nonzero().reshape(-1).tolist()
        if len(off) == 2:
            return "channel order", added("exchange", channels=tuple(off))
        return "channel order", added("order", moved=len(off), count=len(order))
    if kinds == ["slice"]:
        back = any(bool((c < 0).all()) and c.numel() == 1 and int(c) == -1 for c in fixed[-1:])
        return ("layout", added("mirror")) if back else ("index", added("steps", steps=steps))
    if "concat" in kinds:
        return "index", added("shift")
    if set(kinds) <= {"transpose", "reshape", "flip"}:
        return "layout", added("steps", steps=steps)
    if set(kinds) <= {"add", "sub", "mul", "div"}:
        numbers = tuple((k, float(c)) for k, c in zip(kinds, fixed) if c.numel() == 1)
        if source in problem.graph_inputs and len(kinds) > 1:
            return "preprocessing", added("preparation", numbers=numbers, steps=steps)
        kind = "scale" if kinds[0] in ("mul", "div") else "bias"
        return kind, added("numbers", numbers=numbers, steps=steps)
    return group_of(kinds[0]), added("steps", steps=steps)
