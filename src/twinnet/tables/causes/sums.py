"""What comes after the lookups: blocks put in place, rotations and branches added up, sums made 8 bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from twinnet.blame.causes.family import Candidate
from twinnet.blame.problem import Problem
from twinnet.lut.plan import Requant
from twinnet.lut.variants import Place, Requantise, Sum
from twinnet.result import Fact, fact
from twinnet.tables.causes.lookups import payload_orders
from twinnet.tables.causes.steps import candidate

_ROUNDING = {"up": "half up", "floor": "down", "ceil": "up"}
"""Nothing negative is left when it is rounded: towards 0 is down, half away from 0 is half up."""


def propose(problem: Problem) -> Iterator[Candidate]:
    """Hypotheses about blocks, sums and requantisation."""
    for i, layer in enumerate(problem.layers):
        if layer.kind == "place":
            yield from _place(problem, i, layer.attrs["step"])
        elif layer.kind == "sum_lookups":
            yield from _sum(problem, i, layer.attrs["step"])
        elif layer.kind == "requant":
            yield from _requant(problem, i, layer.attrs["step"])
        elif layer.kind == "stack_planes":
            yield from _planes(problem, i)
    yield from _places(problem)


def _planes(problem: Problem, i: int) -> Iterator[Candidate]:
    """Other planes of the same registers."""
    planes = problem.layers[i].attrs["planes"]
    counts = [problem.operand(i, k).shape[1] for k in range(len(problem.layers[i].inputs))]
    if len(planes) != 1:
        return
    ((operand, own),) = planes
    for channel in range(counts[operand]):
        if channel != own:
            said = fact("table.channel", network=own, twin=channel)
            change = lambda p, c=channel: p.change(i, planes=((operand, c),))  # noqa: E731
            yield Candidate(kind="table", fact=said, change=change, what="input")


# ---- blocks ------------------------------------------------------------------------------------------


def _place(problem: Problem, i: int, step: Place) -> Iterator[Candidate]:
    if step.upscale * step.upscale * step.channels == 1:
        return
    payload = step.channels * step.upscale**2
    seen = {_effect(step, payload)}
    ideas: list[tuple[str, Fact, Place, float]] = []
    if step.upscale > 1:
        for r in range(4):
            said = fact("table.block_rotation", network=step.rotation, twin=r)
            ideas.append(("rotation", said, replace(step, rotation=r), 1.0))
    orders = dict(payload_orders(payload)) if step.channels == 1 else {}
    if step.channels > 1 and step.upscale > 1:
        flat = np.arange(payload).reshape(step.upscale, step.upscale, step.channels)
        orders["channels_last"] = tuple(int(v) for v in flat.transpose(2, 0, 1).reshape(-1))
    for name, order in orders.items():
        said = fact("table.block_order", network="in order", twin=name)
        ideas.append(("shuffle", said, replace(step, order=order), 1.1))
    if i == len(problem.layers) - 1 and problem.same_shape:
        found = _order(problem, i, step)
        if found is not None:
            said = fact("table.block_moved", network="in order", twin=found)
            ideas.append(("shuffle", said, replace(step, order=found), 2.0))
    for what, said, other, cost in ideas:
        effect = _effect(other, payload)
        if effect not in seen:  # else the same block in other words
            seen.add(effect)
            yield candidate(problem, what, said, (i,), lambda s, o=other: o, cost=cost)


def _places(problem: Problem) -> Iterator[Candidate]:
    """Where only the sum of the rotations is seen, all blocks of a term may have been turned otherwise.

    Blocks in another order are named by the order of a row's outputs.
    """
    terms: dict[str, list[int]] = {}
    for i, layer in enumerate(problem.layers):
        if layer.kind == "place":
            terms.setdefault(layer.node.rpartition(".rot")[0], []).append(i)
    for name, where in terms.items():
        own: list[Place] = [problem.layers[i].attrs["step"] for i in where]
        if len(where) < 2 or own[0].upscale == 1:
            continue
        payload = own[0].channels * own[0].upscale ** 2
        ideas: tuple[tuple[str, Callable[[Place], Place]], ...] = (
            ("table.blocks_backwards", lambda s: replace(s, rotation=-s.rotation % 4)),
            ("table.blocks_unturned", lambda s: replace(s, rotation=0)),
        )
        term = {} if len(terms) == 1 else {"term": name}
        seen = {tuple(_effect(s, payload) for s in own)}
        for code, change in ideas:
            effect = tuple(_effect(change(s), payload) for s in own)
            if effect not in seen:
                seen.add(effect)
                said = fact(code, network="as it is", twin=code, **term)
                yield candidate(problem, "rotation", said, tuple(where), change)


def _effect(step: Place, payload: int) -> tuple[float, ...]:
    """Which output of a row goes to each place."""
    return tuple(step(np.arange(payload, dtype=np.float64).reshape(1, payload, 1, 1)).reshape(-1).tolist())


def _order(problem: Problem, i: int, step: Place) -> tuple[int, ...] | None:
    """Which output of a row stands in each place of the block, by comparing them."""
    source = problem.operand(i, 0).numpy()
    planes, payload, rows, columns = source.shape
    # Where each place of the block ends up: shuffle the numbers of the places themselves.
    numbers = np.broadcast_to(np.arange(payload, dtype=np.float64)[None, :, None, None], source.shape)
    at = step(np.ascontiguousarray(numbers))
    got = problem.wanted.numpy()
    parts = (
        [got[at == k].reshape(planes, rows, columns) for k in range(payload)] if step.channels == 1 else []
    )
    found = []
    for part in parts:
        same = [k for k in range(payload) if np.array_equal(part, source[:, k])]
        if len(same) != 1:
            return None
        found.append(same[0])
    return tuple(found) if found and sorted(found) == list(range(payload)) else None


# ---- sums --------------------------------------------------------------------------------------------


def _sum(problem: Problem, i: int, step: Sum) -> Iterator[Candidate]:
    n = len(step.denominators)
    terms = [name.rpartition(".rot")[0] for name in step.names]
    turns = [name.rpartition(".rot")[2] for name in step.names]

    def counted(chosen: list[int], count: float) -> Any:
        counts = tuple(count if k in chosen else 1.0 for k in range(n))
        return lambda s: replace(s, counts=counts)

    def summed(count: int, name: str, rotation: str = "") -> Fact:
        return fact("table.summed", network=1, twin=count, name=name, rotation=rotation)

    for k in range(n):
        rotated = ".rot" in step.names[k]
        name, turn = (terms[k], turns[k]) if rotated else (step.names[k], "")
        what = "rotation" if rotated else "sum"
        yield candidate(problem, what, summed(0, name, turn), (i,), counted([k], 0.0))
        yield candidate(problem, what, summed(2, name, turn), (i,), counted([k], 2.0), cost=1.1)
    for name in dict.fromkeys(terms):
        chosen = [k for k in range(n) if terms[k] == name]
        if 1 < len(chosen) < n:
            yield candidate(problem, "sum", summed(0, name), (i,), counted(chosen, 0.0))
    for turn in dict.fromkeys(turns):
        chosen = [k for k in range(n) if turns[k] == turn]
        if 1 < len(chosen) < n and turn:
            yield candidate(problem, "rotation", summed(0, "", turn), (i,), counted(chosen, 0.0))


# ---- 8 bit -------------------------------------------------------------------------------------------


def _requant(problem: Problem, i: int, step: Requantise) -> Iterator[Candidate]:
    for how, name in _ROUNDING.items():
        said = fact("table.rounding", network="half to even", twin=name)
        yield candidate(problem, "rounding", said, (i,), lambda s, h=how: replace(s, round=h))
    said = fact("table.rounded_often", network="once", twin="each")
    yield candidate(problem, "rounding", said, (i,), lambda s: replace(s, each=True))
    said = fact("table.clamp", network="clamp", twin="wrap")
    yield candidate(problem, "requant", said, (i,), lambda s: replace(s, clip="none"))
    yield from _constants(problem, i, step)


def _constants(problem: Problem, i: int, step: Requantise) -> Iterator[Candidate]:
    steps = step.requant.steps
    seen = {_formula(steps)}
    for k, (kind, *values) in enumerate(steps):
        if kind not in ("div", "mul", "add"):
            continue
        own = float(values[0])
        tried = {0.0} if kind == "add" else set()
        if kind == "add":
            tried |= {own + d for d in (-1, -0.5, 0.5, 1)} | {128.0, 127.0, 127.5, -own}
        else:
            tried |= {1.0, own / 2, own * 2, own * 4, own / 4, own + 1, own - 1, 16.0, 255.0, 256.0}
            tried |= {float(v) for v in range(1, 17)}
        for other in sorted(tried - {own}):
            if kind != "add" and other <= 0:
                continue
            said = fact("table.requant_step", step=kind, network=(own,), twin=(other,))
            requant = Requant(step.requant.name, (*steps[:k], (kind, other), *steps[k + 1 :]))
            seen.add(_formula(requant.steps))
            change = lambda s, q=requant: replace(s, requant=q)  # noqa: E731
            yield candidate(problem, "requant", said, (i,), change, cost=1.3)
    for kind, extra in (
        ("add", (0.5, -0.5, 1.0, -1.0)),
        ("div", (2.0, 3.0, 4.0, 12.0)),
        ("mul", (2.0, 3.0, 4.0, 12.0)),
    ):
        for value in extra:
            said = fact("table.requant_added", step=kind, network=None, twin=value)
            requant = Requant(step.requant.name, ((kind, value), *steps))
            if _formula(requant.steps) in seen:
                continue  # another constant in other words
            change = lambda s, q=requant: replace(s, requant=q)  # noqa: E731
            yield candidate(problem, "requant", said, (i,), change, cost=1.5)


def _formula(steps: tuple[tuple[Any, ...], ...]) -> tuple[tuple[Any, ...], ...]:
    """What the steps compute, whichever way it is written: factors and offsets in a row are one of each.

    >>> _formula((("add", 1.0), ("add", 127), ("clip", 0, 255))) == _formula((("add", 128), ("clip", 0, 255)))
    True
    """
    found: list[tuple[Any, ...]] = []
    factor, offset = Fraction(1), Fraction(0)
    for kind, *values in (*steps, ("end",)):
        match kind:
            case "add":
                offset += Fraction(values[0])
            case "mul" | "div":
                by = Fraction(values[0]) if kind == "mul" else 1 / Fraction(values[0])
                factor, offset = factor * by, offset * by
            case _:
                found += [("linear", factor, offset), (kind, *values)]
                factor, offset = Fraction(1), Fraction(0)
    return tuple(found)
