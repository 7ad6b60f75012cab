"""Lookups done otherwise: padding, sampler, taps, rotation, bin, node value, interpolation, rounding, payload order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations, permutations
from typing import Any

import numpy as np

from twinnet.blame.causes.family import Candidate
from twinnet.blame.problem import Problem
from twinnet.lut.differences import TAPS, mirrors, node_words, taps_words
from twinnet.lut.plan import Plane, Sample
from twinnet.lut.variants import Lookup
from twinnet.tables.causes.steps import Group, candidate, groups

_MANY = 16
Idea = tuple[str, str, Callable[[Lookup], Lookup], tuple[Any, Any], float]
"""What, sentence, the changed lookup, both values, cost."""


def propose(problem: Problem) -> Iterator[Candidate]:
    """Hypotheses about single lookups and about all rotations of a term."""
    found = list(groups(problem))
    for group in found:
        ideas = (_sampling, _bins, _interpolation, _entries) if len(found) <= _MANY else (_sampling,)
        seen = {_key(group.step): group.step}
        for make in ideas:
            for what, sentence, change, values, cost in make(group):
                step = change(group.step)
                if _key(step) in seen:
                    continue  # the same computation in other words
                seen[_key(step)] = step  # kept, so that no other table gets its identity
                said = sentence if len(found) == 1 else f"{sentence} ({group.name})"
                yield candidate(problem, what, said, group.where, change, values, cost=cost)
        if len(group.where) > 1:
            yield from _one_rotation(problem, group)


def _one_rotation(problem: Problem, group: Group) -> Iterator[Candidate]:
    """Where only the sum of the rotations is seen, one of them may have been sampled as another, or two exchanged."""
    for i in group.where:
        own = problem.layers[i].attrs["step"].rotation
        for r in range(4):
            if r != own:
                said = f"samples rotation {r} where the network samples rotation {own} ({group.name})"
                change = lambda s, r=r: replace(s, rotation=r)  # noqa: E731
                yield candidate(problem, "rotation", said, (i,), change, (own, r), cost=1.1)
    turns = {i: problem.layers[i].attrs["step"].rotation for i in group.where}
    for i, j in combinations(group.where, 2):
        a, b = turns[i], turns[j]
        if {a, b} == {1, 3} and len(turns) == 4:
            continue  # all of them turned the other way
        said = f"samples rotation {b} for rotation {a}, and {a} for {b} ({group.name})"
        change = lambda s, to={a: b, b: a}: replace(s, rotation=to[s.rotation])  # noqa: E731
        yield candidate(problem, "rotation", said, (i, j), change, ((a, b), (b, a)), cost=1.1)


def _key(step: Lookup) -> Any:
    """What a lookup computes, up to the words for it."""
    sample, e = step.term.sample, step.cell - 1
    turned = [((y, x), (x, e - y), (e - y, e - x), (e - x, y))[step.rotation] for y, x in sample.offsets]
    planes = [sample.plane(k) for k in range(len(turned))]
    taps: Any = tuple(zip(turned, planes))
    if sample.weights is not None:
        taps = frozenset(zip(turned, planes, zip(*sample.weights)))
    padding = step.way.padding or sample.padding
    way = replace(step.way, padding="", interpolation="")
    how = step.way.interpolation or f"{step.term.interpolation}{step.term.compat}"
    blend = step.term.blend
    return taps, padding, sample.value_bits, blend, how, way, id(step.table)


# ---- which pixels ------------------------------------------------------------------------------------


def _sampling(group: Group) -> Iterator[Idea]:
    step = group.step
    sample = step.term.sample
    single = len(group.where) == 1
    # One pixel outside, the mirror image that repeats the border is the border itself.
    far = max(max(abs(y), abs(x)) for y, x in sample.offsets) > 1
    for padding in ("edge", "reflect", "zero", *(["symmetric"] if far else []), "wrap"):
        said = f"pads {padding} where the network pads {sample.padding}"
        yield "padding", said, lambda s, p=padding: s.but(padding=p), (sample.padding, padding), 1.0
    if single:
        for r in range(4):
            said = f"samples rotation {r} where the network samples rotation {step.rotation}"
            yield "rotation", said, lambda s, r=r: replace(s, rotation=r), (step.rotation, r), 1.0
    else:
        said = "turns the image the other way: rotation 1 is sampled as rotation 3, and 3 as 1"
        yield "rotation", said, lambda s: replace(s, rotation=-s.rotation % 4), ("left", "right"), 1.0
        said = "samples every rotation unturned"
        yield "rotation", said, lambda s: replace(s, rotation=0), (step.term.rotations, (0,)), 1.0
    yield from _windows(sample)
    yield from _orders(sample)
    if sample.weights is not None:
        said = "rounds the weighted taps down where the network rounds them half up"
        yield "rounding", said, lambda s: s.but(sampling="floor"), ("half up", "down"), 1.0
    if sample.value_bits:
        said = "takes whole pixels where the network keeps fractions of weighted taps"
        yield "sampler", said, lambda s: s.but(sampling="whole"), (sample.value_bits, 0), 1.0
    yield from _residual(step)
    yield from _channels(step)


def _windows(sample: Sample) -> Iterator[Idea]:
    ours = taps_words(sample.offsets)
    shown = f": {ours}" if sample.weights is None else ""
    for name, offsets in mirrors(sample.offsets).items():
        there = f": {taps_words(offsets)}" if sample.weights is None else ""
        said = f"samples {name}{there} where the network samples as it is{shown}"
        yield "sampler", said, lambda s, o=offsets: s.sampling(offsets=o), ("as it is", name), 1.0
    reach_y, reach_x = max(y for y, _ in sample.offsets), max(x for _, x in sample.offsets)
    sides = (
        ("above and left of", reach_y, reach_x),
        ("above", reach_y, 0),
        ("left of", 0, reach_x),
    )
    for words, dy, dx in sides:
        offsets = tuple((y - dy, x - dx) for y, x in sample.offsets)
        said = f"samples the window {words} the pixel where the network samples below and right of it"
        yield (
            "padding",
            f"{said}: it pads the other side",
            (lambda s, o=offsets: s.sampling(offsets=o)),
            ("below and right", words),
            1.0,
        )
    for words, dy, dx in (("down", 1, 0), ("up", -1, 0), ("right", 0, 1), ("left", 0, -1)):
        offsets = tuple((y + dy, x + dx) for y, x in sample.offsets)
        said = f"samples one pixel further {words}{shown and ' than the taps' + shown[1:]}"
        yield "sampler", said, lambda s, o=offsets: s.sampling(offsets=o), ((0, 0), (dy, dx)), 1.2


def _orders(sample: Sample) -> Iterator[Idea]:
    """Taps in another order: a permutation of the table's axes."""
    axes = sample.axes
    if not 2 <= axes <= 4:
        return
    names = TAPS[:axes]
    for order in permutations(range(axes)):
        if order == tuple(range(axes)):
            continue
        theirs = " ".join(names[k] for k in order)
        said = f"takes the taps in the order {theirs} where the network has {' '.join(names)}"

        def change(s: Lookup, order: tuple[int, ...] = order) -> Lookup:
            own = s.term.sample
            if own.weights is not None:
                return s.sampling(weights=tuple(own.weights[k] for k in order))
            planes = own.planes if len(own.planes) == 1 else tuple(own.planes[k] for k in order)
            return s.sampling(offsets=tuple(own.offsets[k] for k in order), planes=planes)

        yield "taps", said, change, (" ".join(names), theirs), 1.0


def _residual(step: Lookup) -> Iterator[Idea]:
    blend = step.term.blend
    if blend is None:
        return
    one = 1 << blend.gain_bits

    def gains(values: tuple[int, ...]) -> Callable[[Lookup], Lookup]:
        return lambda s: replace(s, term=replace(s.term, blend=replace(blend, gains=values)))

    said = "leaves out the residual: only the current planes are sampled"
    yield "residual", said, gains((0,) * len(blend.gains)), (blend.gains, 0), 1.0
    said = "takes the residual alone where the network blends it in"
    yield "residual", said, gains((one,) * len(blend.gains)), (blend.gains, one), 1.0
    turned = tuple(one - g for g in blend.gains)
    said = "blends the other way round: the gains belong to the current planes"
    yield "residual", said, gains(turned), (blend.gains, turned), 1.0
    back = blend.gains[::-1]
    yield "residual", "has the residual's gains in the reverse order", gains(back), (blend.gains, back), 1.2


def _channels(step: Lookup) -> Iterator[Idea]:
    planes = step.term.sample.planes
    if len(planes) == 1:
        own = planes[0]
        for channel in range(4):
            if channel != own.channel:
                said = (
                    f"reads channel {channel} of {own.register} where the network reads channel {own.channel}"
                )
                other = (Plane(own.register, channel),)
                yield "input", said, lambda s, o=other: s.sampling(planes=o), (own.channel, channel), 1.0


# ---- which rows --------------------------------------------------------------------------------------


def _bins(group: Group) -> Iterator[Idea]:
    table = group.step.table
    top = table.nodes - 2
    words = {
        "next": "one bin too high",
        "previous": "one bin too low",
        "nearest": "in the nearest bin, not the one below",
        "clipped": f"with the bins clipped at {top - 1} where the network has {top}",
    }
    for way, how in words.items():
        said = f"looks up {how}"
        yield "bin", said, lambda s, w=way: s.but(bins=w), ("floor", way), 1.0
        for axis in range(table.axes if table.axes > 1 else 0):
            said = f"looks up tap {TAPS[axis]} {how}"
            change = lambda s, w=way, a=axis: s.but(bins=w, axis=a)  # noqa: E731
            yield "bin", said, change, ("floor", f"{way} on {TAPS[axis]}"), 1.3
    if not table.banded:
        for size in (table.nodes - 1, table.nodes + 1):
            said = f"counts rows by {size} nodes per tap where the table has {table.nodes}"
            yield "bin", said, lambda s, n=size: s.but(strides=n), (table.nodes, size), 1.0
    end = (table.nodes - 1) * table.step
    if end == 256:
        said = f"looks up bin {top} with node 255 where the network takes node {end}"
        yield "node", said, lambda s: s.but(node=255), (end, 255), 1.0
        even = 255 / (table.nodes - 1)
        said = f"takes nodes {even:g} apart, up to 255, where the network has {table.step}, up to {end}"
        yield "node", said, lambda s: s.but(spacing=even), (table.step, even), 1.0
    elif table.step * (table.nodes - 1) == 255:
        even = 256 / (table.nodes - 1)
        said = f"takes nodes {even:g} apart, up to 256, where the network has {table.step}, up to 255"
        yield "node", said, lambda s: s.but(spacing=even), (table.step, even), 1.0
    if group.step.tabulate is not None and end == 256 and not table.banded:
        other = 255 if table.last == 256 else 256
        made: list[Any] = []

        def retabulated(s: Lookup) -> Lookup:
            if not made:
                made.append(s.tabulate(s.term.table, other))
            return replace(s, table=made[0])

        yield "node", node_words(table, other).format(it="the network"), retabulated, (table.last, other), 1.0


def _interpolation(group: Group) -> Iterator[Idea]:
    term = group.step.term
    own = f"{term.interpolation}{f' ({term.compat})' if term.compat else ''}"
    words = {
        "simplex": "uses simplex interpolation",
        "multilinear": "uses multilinear interpolation",
        "rising": "uses simplex interpolation from the smallest fraction up",
        "nearest": "takes the nearest entry",
        "lower": "takes the entry below, without interpolation,",
    }
    for way, said in words.items():
        if group.step.table.banded and way == "multilinear":
            continue
        said = f"{said} where the network uses {own}"
        yield "interpolation", said, lambda s, w=way: s.but(interpolation=w), (own, way), 1.0
        if way == "multilinear" and term.interpolation == "simplex":
            # Its whole numbers are over the product of all units, not over one.
            more = float(term.units(group.step.table) ** (group.step.table.axes - 1))
            change = lambda s, f=more: s.but(interpolation="multilinear", factor=f)  # noqa: E731
            yield "interpolation", said, change, (own, way), 1.0
    if term.interpolation == "simplex" and group.step.table.axes == 4 and not group.step.table.banded:
        compat = "" if term.compat else "srlut-2021"
        said = f"uses {'simplex' if term.compat else 'the slip of SR-LUT 2021'} where the network uses {own}"
        change = lambda s: replace(s, term=replace(s.term, compat=compat))  # noqa: E731
        yield "interpolation", said, change, (own, compat), 1.0
    for how, name in (("even", "half to even"), ("up", "half up"), ("trunc", "towards 0"), ("floor", "down")):
        said = f"rounds every lookup {name} where the network rounds only their sum"
        yield "rounding", said, lambda s, h=how: s.but(rounding=h), ("sum", name), 1.0


# ---- what is in them ---------------------------------------------------------------------------------


def _entries(group: Group) -> Iterator[Idea]:
    table = group.step.table
    yield (
        "entry",
        "reads its entries as uint8 where the network has int8",
        (lambda s: s.but(unsigned=True)),
        ("int8", "uint8"),
        1.0,
    )
    for factor, said in (
        (127 / 128, "takes 128 for 1.0 where the network's entries have 127"),
        (-1.0, "takes its entries with the sign turned"),
    ):
        yield "entry", said, lambda s, f=factor: s.but(factor=f), (127, factor), 1.2
    for name, order in payload_orders(table.payload).items():

        def change(s: Lookup, order: tuple[int, ...] = order) -> Lookup:
            def moved(a: np.ndarray | None) -> np.ndarray | None:
                return None if a is None else np.ascontiguousarray(a[:, order])

            values = moved(s.table.values)
            assert values is not None
            return replace(s, table=replace(s.table, values=values, coarse=moved(s.table.coarse)))

        yield "shuffle", f"has the outputs of a row {name}", change, ("in order", name), 1.2


def payload_orders(payload: int) -> dict[str, tuple[int, ...]]:
    """Other orders of a row's outputs, by name."""
    flat = np.arange(payload)
    found = {"in the reverse order": flat[::-1]}
    side = round(payload**0.5)
    if side * side == payload and side > 1:
        block = flat.reshape(side, side)
        found["with rows and columns of the block exchanged"] = block.T.reshape(-1)
        found["with the rows of the block from bottom to top"] = block[::-1].reshape(-1)
        found["with the columns of the block from right to left"] = block[:, ::-1].reshape(-1)
    return {name: tuple(int(v) for v in order) for name, order in found.items()}
