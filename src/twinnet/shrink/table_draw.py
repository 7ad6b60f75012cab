"""Random tables, sampler weights, gains and pixels in place of those of a network, and a twin that differs alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from twinnet.layers.graph import Layer
from twinnet.lut.differences import mirrors
from twinnet.lut.plan import Blend, Sample, Table
from twinnet.lut.variants import Lookup
from twinnet.shrink.table_relation import Relation, order_of
from twinnet.shrink.table_side import Values

__all__ = ["STYLES", "Draw", "gain_changes", "parts_of", "same_grid", "turned_weights", "with_steps"]

STYLES = 3
"""Kinds of pixels that are drawn in turn: any, bright ones, and neighbours that are alike."""
_OWN = 0x7477696E
"""Keeps these numbers apart from those that somebody else draws with a small seed."""
_CLOSE = 9
"""By how much neighbours that are alike differ at most; within the band of a compressed table."""


def with_steps(layers: Sequence[Layer], change: Callable[[Layer, Lookup], Lookup]) -> tuple[Layer, ...]:
    """The layers with every lookup replaced by what `change` makes of it."""
    made = []
    for layer in layers:
        step: Any = layer.attrs["step"]
        if isinstance(step, Lookup):
            layer = replace(layer, attrs={**layer.attrs, "step": change(layer, step)})
        made.append(layer)
    return tuple(made)


class Draw:
    """One draw: equal things of the network become equal random things, wherever they stand."""

    def __init__(self, number: int) -> None:
        self.rng = np.random.default_rng([_OWN, number])
        self._style = number % STYLES
        self._known: dict[Any, Any] = {}

    # -- the network -------------------------------------------------------------------------------------------

    def network(self, layers: Sequence[Layer]) -> tuple[Layer, ...]:
        """The network's steps with random tables, sampler weights and gains."""
        return with_steps(layers, lambda layer, step: self._lookup(step, "network"))

    def _lookup(self, step: Lookup, side: str) -> Lookup:
        sample, blend = step.term.sample, step.term.blend
        sample = replace(sample, weights=self.weights(sample))
        blend = blend and replace(blend, gains=self.gains(blend))
        term = replace(step.term, sample=sample, blend=blend)
        return replace(step, term=term, table=self.table(step.term.table, step.table, side))

    def table(self, name: str, table: Table, side: str = "network") -> Table:
        """Entries of about the range that the known ones have, on the same grid."""
        if ("table", side, name) not in self._known:
            most = max(int(np.abs(a.astype(np.int16)).max(initial=0)) for a in parts_of(table).values())
            bound = min(127, 2 ** int(most).bit_length() - 1) or 127
            made = {
                part: self.rng.integers(-bound, bound + 1, a.shape).astype(np.int8)
                for part, a in parts_of(table).items()
            }
            self._known["table", side, name] = replace(table, **made)
        return self._known["table", side, name]

    def weights(self, sample: Sample) -> tuple[tuple[int, ...], ...] | None:
        """Weights of the taps that add up as they must."""
        if sample.weights is None:
            return None
        key = ("weights", sample.weights)
        if key not in self._known:
            one = 1 << sample.weight_bits
            rows = []
            for row in sample.weights:
                whole = np.floor(self.rng.dirichlet(np.ones(len(row))) * one).astype(np.int64)
                whole[int(self.rng.integers(len(row)))] += one - int(whole.sum())
                rows.append(tuple(int(w) for w in whole))
            self._known[key] = tuple(rows)
        return self._known[key]

    def gains(self, blend: Blend) -> tuple[int, ...]:
        """Gains of a residual; all or nothing is not a secret, and stays."""
        one = 1 << blend.gain_bits
        if set(blend.gains) in ({0}, {one}):
            return blend.gains
        key = ("gains", blend.gains)
        if key not in self._known:
            self._known[key] = tuple(int(g) for g in self.rng.integers(1, one, len(blend.gains)))
        return self._known[key]

    # -- the twin ----------------------------------------------------------------------------------------------

    def twin_lookup(self, old: Lookup | None, new: Lookup | None, twin: Lookup) -> Lookup:
        """The twin's lookup beside the network's `new` one, which was `old`, with the same entries where they fit."""
        if old is None or new is None:
            return self._lookup(twin, "twin")
        sample, blend = twin.term.sample, twin.term.blend
        sample = replace(sample, weights=self._twin_weights(old.term.sample, new.term.sample, sample))
        blend = blend and replace(blend, gains=self.twin_gains(old.term.blend, new.term.blend, blend))
        if same_grid(old.table, twin.table):
            table = replace(twin.table, **parts_of(new.table))
        else:
            table = self.table(twin.term.table, twin.table, "twin")
        return replace(twin, term=replace(twin.term, sample=sample, blend=blend), table=table)

    def related(
        self, name: str, table: Table, relations: Mapping[str, Relation], read: Mapping[str, np.ndarray]
    ) -> Table:
        """A table of the twin: the network's new entries, changed as the relations say, where `read` rows are read."""
        key = ("related", name)
        if key not in self._known:
            made = {
                part: relation.applied(table, part, read.get(part, np.zeros(0, np.int64)), self.rng)
                for part, relation in relations.items()
            }
            self._known[key] = replace(table, **made)
        return self._known[key]

    def _twin_weights(self, old: Sample, new: Sample, sample: Sample) -> tuple[tuple[int, ...], ...] | None:
        if old.weights is None or new.weights is None or sample.weights is None:
            return self.weights(sample)
        changed = turned_weights(old, sample.weights, np.array(new.weights))
        return self.weights(sample) if changed is None else tuple(tuple(int(w) for w in r) for r in changed)

    def twin_gains(self, old: Blend | None, new: Blend | None, blend: Blend) -> tuple[int, ...]:
        """The twin's gains beside the network's new ones."""
        if old is not None and new is not None:
            for change in gain_changes(1 << blend.gain_bits):
                if change(old.gains) == blend.gains:
                    return change(new.gains)
        return self.gains(blend)

    # -- pixels ------------------------------------------------------------------------------------------------

    def values(self, layers: Sequence[Layer], inputs: Mapping[str, np.ndarray]) -> Values:
        """What the steps are fed: pixels for lookups, whole numbers over a denominator for what comes after them."""
        over = _denominators(layers)
        return {n: self._numbers(a, over.get(n)) for n, a in inputs.items()}

    def _numbers(self, old: np.ndarray, denominator: int | None) -> np.ndarray:
        if denominator is None:
            return self._pixels(old.shape)
        bound = 2 ** int(np.ceil(np.abs(old).max(initial=0.0))).bit_length()
        low = -bound if old.min(initial=0.0) < 0 else 0
        return self.rng.integers(low * denominator, bound * denominator + 1, old.shape) * (1.0 / denominator)

    def _pixels(self, shape: tuple[int, ...]) -> np.ndarray:
        if self._style == 1:
            return np.floor(255.99 * (1 - self.rng.random(shape) ** 4))
        if self._style == 2:
            around = self.rng.integers(_CLOSE, 256 - _CLOSE)
            return around + self.rng.integers(-_CLOSE, _CLOSE + 1, shape).astype(np.float64)
        return self.rng.integers(0, 256, shape).astype(np.float64)


def gain_changes(one: int) -> list[Callable[[tuple[int, ...]], tuple[int, ...]]]:
    """Ways in which gains may belong to others: the same, the other way round, in the reverse order, both."""
    return [
        lambda g: g,
        lambda g: tuple(one - x for x in g),
        lambda g: g[::-1],
        lambda g: tuple(one - x for x in g[::-1]),
    ]


def turned_weights(ours: Sample, theirs: Sequence[Sequence[int]], new: np.ndarray) -> np.ndarray | None:
    """New weights changed as `theirs` were: the window turned over, taps or axes in another order; else None."""
    old, other = np.array(ours.weights), np.array(theirs)
    if old.shape != other.shape:
        return None
    if np.array_equal(old, other):
        return new
    place = {offset: k for k, offset in enumerate(ours.offsets)}
    for offsets in mirrors(ours.offsets).values():
        if all(o in place for o in offsets):
            order = [place[o] for o in offsets]
            if np.array_equal(old[:, order], other):
                return new[:, order]
    taps, axes = order_of(old, other), order_of(old.T, other.T)
    if taps is not None:
        return new[:, list(taps)]
    return None if axes is None else new[list(axes)]


def same_grid(a: Table, b: Table) -> bool:
    """Whether two tables have the same rows and outputs, and the same cells in them."""
    facts = all(getattr(a, k) == getattr(b, k) for k in ("axes", "nodes", "step", "near", "width", "thin"))
    shapes = [{part: array.shape for part, array in parts_of(t).items()} for t in (a, b)]
    return facts and shapes[0] == shapes[1]


def parts_of(table: Table) -> dict[str, np.ndarray]:
    """The entries of a table by the name of their array.

    >>> list(parts_of(Table(np.zeros((4, 1), np.int8), axes=2, nodes=2, step=255)))
    ['values']
    """
    return {"values": table.values} | ({} if table.coarse is None else {"coarse": table.coarse})


def _denominators(layers: Sequence[Layer]) -> dict[str, int]:
    """What the whole numbers of a value are over, by the step that reads it; pixels are not listed."""
    found: dict[str, int] = {}
    for layer in layers:
        step: Any = layer.attrs["step"]
        names = [n for n in layer.inputs if n is not None]
        if layer.kind == "sum_lookups":
            found |= dict(zip(names, step.denominators, strict=False))
        elif layer.kind in ("place", "requant"):
            own = layer.attrs["denominator"] if layer.kind == "place" else step.denominator
            found |= {n: int(own) for n in names}
    return found
