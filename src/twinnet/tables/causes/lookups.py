"""Lookups done differently: padding, sampler, taps, rotation, bin, node, interpolation, rounding, payload order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations, permutations
from typing import Any

import numpy as np

from twinnet.blame.causes.family import Candidate
from twinnet.blame.problem import Problem
from twinnet.lut.differences import made_with, mirrors
from twinnet.lut.plan import Plane, Sample, turn
from twinnet.lut.variants import Lookup
from twinnet.result import Fact, fact
from twinnet.tables.causes.steps import Group, candidate, groups

_MANY = 16
Idea = tuple[str, Fact, Callable[[Lookup], Lookup], float]
"""What, the fact, the changed lookup, cost."""


def propose(problem: Problem) -> Iterator[Candidate]:
    """Hypotheses about single lookups and about all rotations of a term."""
    found = list(groups(problem))
    for group in found:
        ideas = (_sampling, _bins, _interpolation, _entries) if len(found) <= _MANY else (_sampling,)
        seen = {_key(group.step): group.step}
        for make in ideas:
            for what, said, change, cost in make(group):
                step = change(group.step)
                if _key(step) in seen:
                    continue  # the same computation in other words
                seen[_key(step)] = step  # kept, so that no other table gets its identity
                if len(found) > 1:
                    said = replace(said, params={**said.params, "term": group.name})
                yield candidate(problem, what, said, group.where, change, cost=cost)
        if len(group.where) > 1:
            yield from _one_rotation(problem, group)


def _one_rotation(problem: Problem, group: Group) -> Iterator[Candidate]:
    """Where only the sum of the rotations is seen, one of them may have been sampled as another, or two exchanged."""
    for i in group.where:
        own = problem.layers[i].attrs["step"].rotation
        for r in range(4):
            if r != own:
                said = fact("table.rotation", network=own, twin=r, term=group.name)
                change = lambda s, r=r: replace(s, rotation=r)  # noqa: E731
                yield candidate(problem, "rotation", said, (i,), change, cost=1.1)
    turns = {i: problem.layers[i].attrs["step"].rotation for i in group.where}
    for i, j in combinations(group.where, 2):
        a, b = turns[i], turns[j]
        if {a, b} == {1, 3} and len(turns) == 4:
            continue  # all of them turned the other way
        said = fact("table.rotations_exchanged", network=(a, b), twin=(b, a), term=group.name)
        change = lambda s, to={a: b, b: a}: replace(s, rotation=to[s.rotation])  # noqa: E731
        yield candidate(problem, "rotation", said, (i, j), change, cost=1.1)


def _key(step: Lookup) -> Any:
    """Equal for lookups that compute the same, however they are described."""
    sample = step.term.sample
    turned = [turn(offset, step.rotation, step.cell) for offset in sample.offsets]
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
        said = fact("table.padding", network=sample.padding, twin=padding)
        yield "padding", said, lambda s, p=padding: s.but(padding=p), 1.0
    if single:
        for r in range(4):
            said = fact("table.rotation", network=step.rotation, twin=r)
            yield "rotation", said, lambda s, r=r: replace(s, rotation=r), 1.0
    else:
        said = fact("table.rotated_backwards", network="left", twin="right")
        yield "rotation", said, lambda s: replace(s, rotation=-s.rotation % 4), 1.0
        said = fact("table.unturned", network=step.term.rotations, twin=(0,))
        yield "rotation", said, lambda s: replace(s, rotation=0), 1.0
    yield from _windows(sample)
    yield from _orders(sample)
    if sample.weights is not None:
        said = fact("table.weights_rounded", network="half up", twin="down")
        yield "rounding", said, lambda s: s.but(sampling="floor"), 1.0
    if sample.value_bits:
        said = fact("table.whole_pixels", network=sample.value_bits, twin=0)
        yield "sampler", said, lambda s: s.but(sampling="whole"), 1.0
    yield from _residual(step)
    yield from _channels(step)


def _windows(sample: Sample) -> Iterator[Idea]:
    own = sample.offsets
    for name, offsets in mirrors(own).items():
        said = (
            fact("table.offsets", network=own, twin=offsets, turned=name)
            if sample.weights is None
            else fact("table.turned", network="", twin=name)
        )
        yield "sampler", said, lambda s, o=offsets: s.sampling(offsets=o), 1.0
    reach_y, reach_x = max(y for y, _ in own), max(x for _, x in own)
    sides = (
        ("above and left of", reach_y, reach_x),
        ("above", reach_y, 0),
        ("left of", 0, reach_x),
    )
    for side, dy, dx in sides:
        offsets = tuple((y - dy, x - dx) for y, x in own)
        said = fact("table.window", network="below and right", twin=side)
        yield "padding", said, lambda s, o=offsets: s.sampling(offsets=o), 1.0
    for dy, dx in ((1, 0), (-1, 0), (0, 1), (0, -1)):
        offsets = tuple((y + dy, x + dx) for y, x in own)
        shown = own if sample.weights is None else None
        said = fact("table.moved", network=(0, 0), twin=(dy, dx), offsets=shown)
        yield "sampler", said, lambda s, o=offsets: s.sampling(offsets=o), 1.2


def _orders(sample: Sample) -> Iterator[Idea]:
    """Taps in another order: a permutation of the table's axes."""
    axes = sample.axes
    if not 2 <= axes <= 4:
        return
    own = tuple(range(axes))
    for order in permutations(own):
        if order == own:
            continue

        def change(s: Lookup, order: tuple[int, ...] = order) -> Lookup:
            own = s.term.sample
            if own.weights is not None:
                return s.sampling(weights=tuple(own.weights[k] for k in order))
            planes = own.planes if len(own.planes) == 1 else tuple(own.planes[k] for k in order)
            return s.sampling(offsets=tuple(own.offsets[k] for k in order), planes=planes)

        yield "taps", fact("table.taps", network=own, twin=order), change, 1.0


def _residual(step: Lookup) -> Iterator[Idea]:
    blend = step.term.blend
    if blend is None:
        return
    one, own = 1 << blend.gain_bits, blend.gains

    def gains(values: tuple[int, ...]) -> Callable[[Lookup], Lookup]:
        return lambda s: replace(s, term=replace(s.term, blend=replace(blend, gains=values)))

    yield "residual", fact("table.residual_left_out", network=own, twin=0), gains((0,) * len(own)), 1.0
    yield "residual", fact("table.residual_alone", network=own, twin=one), gains((one,) * len(own)), 1.0
    turned, back = tuple(one - g for g in own), own[::-1]
    yield "residual", fact("table.residual_exchanged", network=own, twin=turned), gains(turned), 1.0
    yield "residual", fact("table.residual_reversed", network=own, twin=back), gains(back), 1.2


def _channels(step: Lookup) -> Iterator[Idea]:
    planes = step.term.sample.planes
    if len(planes) == 1:
        own = planes[0]
        for channel in range(4):
            if channel != own.channel:
                said = fact("table.channel", register=own.register, network=own.channel, twin=channel)
                other = (Plane(own.register, channel),)
                yield "input", said, lambda s, o=other: s.sampling(planes=o), 1.0


# ---- which rows --------------------------------------------------------------------------------------


def _bins(group: Group) -> Iterator[Idea]:
    table = group.step.table
    top = table.nodes - 2
    for way in ("next", "previous", "nearest", "clipped"):
        said = fact("table.bin", network="floor", twin=way, top=top)
        yield "bin", said, lambda s, w=way: s.but(bins=w), 1.0
        for axis in range(table.axes if table.axes > 1 else 0):
            said = fact("table.bin", network="floor", twin=(way, axis), top=top)
            yield "bin", said, lambda s, w=way, a=axis: s.but(bins=w, axis=a), 1.3
    if not table.banded:
        for size in (table.nodes - 1, table.nodes + 1):
            said = fact("table.strides", network=table.nodes, twin=size)
            yield "bin", said, lambda s, n=size: s.but(strides=n), 1.0
    end = (table.nodes - 1) * table.step
    if end == 256:
        said = fact("table.last_node", bin=top, network=end, twin=255)
        yield "node", said, lambda s: s.but(node=255), 1.0
    if end in (255, 256):
        other = 511 - end
        even = other / (table.nodes - 1)
        said = fact("table.spacing", network=(table.step, end), twin=(even, other))
        yield "node", said, lambda s: s.but(spacing=even), 1.0
    if group.step.tabulate is not None and end == 256 and not table.banded:
        last = 255 if table.last == 256 else 256
        made: list[Any] = []

        def retabulated(s: Lookup) -> Lookup:
            if not made:
                made.append(s.tabulate(s.term.table, last))
            return replace(s, table=made[0])

        yield "node", made_with(table, last), retabulated, 1.0


def _interpolation(group: Group) -> Iterator[Idea]:
    term, table = group.step.term, group.step.table
    own = f"{term.interpolation}{f' ({term.compat})' if term.compat else ''}"
    for way in ("simplex", "multilinear", "rising", "nearest", "lower"):
        if table.banded and way == "multilinear":
            continue
        said = fact("table.interpolation", network=own, twin=way)
        yield "interpolation", said, lambda s, w=way: s.but(interpolation=w), 1.0
        if way == "multilinear" and term.interpolation == "simplex":
            # Its whole numbers are over the product of all units, not over one.
            more = float(term.units(table) ** (table.axes - 1))
            change = lambda s, f=more: s.but(interpolation="multilinear", factor=f)  # noqa: E731
            yield "interpolation", said, change, 1.0
    if term.interpolation == "simplex" and table.axes == 4 and not table.banded:
        compat = "" if term.compat else "srlut-2021"
        said = fact("table.interpolation", network=own, twin=compat or "simplex")
        change = lambda s: replace(s, term=replace(s.term, compat=compat))  # noqa: E731
        yield "interpolation", said, change, 1.0
    for how, name in (("even", "half to even"), ("up", "half up"), ("trunc", "towards 0"), ("floor", "down")):
        said = fact("table.lookups_rounded", network="sum", twin=name)
        yield "rounding", said, lambda s, h=how: s.but(rounding=h), 1.0


# ---- what is in them ---------------------------------------------------------------------------------


def _entries(group: Group) -> Iterator[Idea]:
    said = fact("table.entries_unsigned", network="int8", twin="uint8")
    yield "entry", said, lambda s: s.but(unsigned=True), 1.0
    for one, factor in ((128, 127 / 128), (-127, -1.0)):
        said = fact("table.entries_scaled", network=127, twin=one)
        yield "entry", said, lambda s, f=factor: s.but(factor=f), 1.2
    for name, order in payload_orders(group.step.table.payload).items():

        def change(s: Lookup, order: tuple[int, ...] = order) -> Lookup:
            def moved(a: np.ndarray | None) -> np.ndarray | None:
                return None if a is None else np.ascontiguousarray(a[:, order])

            values = moved(s.table.values)
            assert values is not None
            return replace(s, table=replace(s.table, values=values, coarse=moved(s.table.coarse)))

        yield "shuffle", fact("table.row_order", network="in order", twin=name), change, 1.2


def payload_orders(payload: int) -> dict[str, tuple[int, ...]]:
    """Other orders of a row's outputs, by name."""
    flat = np.arange(payload)
    found = {"reversed": flat[::-1]}
    side = round(payload**0.5)
    if side * side == payload and side > 1:
        block = flat.reshape(side, side)
        found["transposed"] = block.T.reshape(-1)
        found["rows_reversed"] = block[::-1].reshape(-1)
        found["columns_reversed"] = block[:, ::-1].reshape(-1)
    return {name: tuple(int(v) for v in order) for name, order in found.items()}
