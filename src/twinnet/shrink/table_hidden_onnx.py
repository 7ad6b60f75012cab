"""A part of an ONNX model that holds tables, with random tables in their places and without names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from twinnet.errors import UsageError
from twinnet.layers.graph import Layer
from twinnet.lut.plan import Table
from twinnet.lut.variants import Lookup
from twinnet.onnx.cut import weights_of, with_weights
from twinnet.shrink.confidential import hide_model
from twinnet.shrink.seed import Seed
from twinnet.shrink.table_draw import Draw, gain_changes, parts_of, turned_weights
from twinnet.shrink.table_names import Names
from twinnet.shrink.table_relation import Relation, relate
from twinnet.shrink.table_side import Side, Values, onnx_side, rows_needed, steps_side

if TYPE_CHECKING:
    import onnx

__all__ = ["OnnxTwin"]

_SMALL = 64
"""Constants up to this size are coordinates, strides and orders; larger ones must be known for what they are."""
Known = Mapping[tuple[str, str], dict[int, np.ndarray]]


@dataclass(frozen=True)
class _Table:
    """A constant that holds a table of the network's, perhaps with other entries."""

    at: int
    """Which of the network's steps reads the table."""
    part: str
    relation: Relation


@dataclass(frozen=True)
class OnnxTwin:
    """The model under new names, and which of its constants belong to what of the network."""

    model: onnx.ModelProto
    spec: dict[str, Any]
    layers: tuple[Layer, ...]
    tables: Mapping[str, _Table]

    @classmethod
    def of(cls, seed: Seed, names: Names, layers: Sequence[Layer], known: Known) -> OnnxTwin:
        """Raises UsageError where the model holds data that cannot be told apart from the tables."""
        model, spec = seed.twin, seed.steps["twin"]
        assert model is not None
        renamed: dict[str, str] = {}
        read = {i.name for i in model.graph.input}
        hidden = hide_model(model, renamed)
        told = {
            **spec,
            "inputs": {
                renamed[t]: (names.site(n), unit) for t, (n, unit) in spec["inputs"].items() if t in read
            },
            "output": renamed[spec["output"]],
        }
        arrays = weights_of(hidden)
        tables = _tables(arrays, layers, known, seed.cause)
        steps = _steps(layers)
        strange = [
            n for n, a in arrays.items() if n not in tables and a.size > _SMALL and not _expected(a, steps)
        ]
        attached = [
            a.name for node in hidden.graph.node for a in node.attribute if a.HasField("t") or a.HasField("g")
        ]
        if strange or attached or hidden.graph.sparse_initializer:
            shape = "x".join(map(str, arrays[strange[0]].shape)) if strange else "in a node"
            raise UsageError(
                f"the twin's file holds data ({shape}) that is no table of the network: it cannot be replaced alike",
                hint="leave out --confidential and look at what the folder holds before you pass it on",
            )
        return cls(hidden, told, tuple(layers), tables)

    def side(self, draw: Draw, network: tuple[Layer, ...], values: Values) -> tuple[Side, tuple[Layer, ...]]:
        """The model with the data that belong to the network's new steps; and those with the model's tables."""
        arrays = weights_of(self.model)
        read = rows_needed(steps_side(network), values)
        made: dict[str, np.ndarray] = {}
        other: dict[int, Table] = {}
        for name, table in self.tables.items():
            now: Table = network[table.at].attrs["step"].table
            rows = read[f"{table.at}.{table.part}_rows"]
            entries = table.relation.applied(now, table.part, rows, draw.rng)
            made[name] = entries.astype(arrays[name].dtype)
            if table.relation.kind != "same":
                other[table.at] = replace(other.get(table.at, now), **{table.part: entries})
        for layer, new in zip(self.layers, network, strict=True):
            if layer.kind == "lookup":
                left = {n: a for n, a in arrays.items() if n not in made and n not in self.tables}
                made |= _sampler(left, layer.attrs["step"], new.attrs["step"], draw)
        side = onnx_side(self.spec, with_weights(self.model, made))
        # What else the model does otherwise stands in its nodes: only its tables can be put beside the network's.
        beside = list(network)
        for at, table in other.items():
            step = replace(network[at].attrs["step"], table=table)
            beside[at] = replace(network[at], attrs={**network[at].attrs, "step": step})
        return side, tuple(beside) if other else ()


def _steps(layers: Sequence[Layer]) -> list[Lookup]:
    return [layer.attrs["step"] for layer in layers if layer.kind == "lookup"]


def _tables(
    arrays: Mapping[str, np.ndarray], layers: Sequence[Layer], known: Known, cause: str
) -> dict[str, _Table]:
    """The constants that have the size of a table of the network's, each with the one that it agrees with best."""
    found: dict[str, tuple[float, _Table]] = {}
    for at, layer in enumerate(layers):
        if layer.kind != "lookup":
            continue
        step: Lookup = layer.attrs["step"]
        for part, entries in parts_of(step.table).items():
            there = known.get((step.term.table, part), {})
            rows = np.array(sorted(there), np.int64)
            ours = np.stack([there[int(r)] for r in rows]) if len(rows) else entries[:0]
            for name, array in arrays.items():
                if array.shape != entries.shape or not _are_entries(array):
                    continue
                same = float((array[rows] == ours).mean()) if len(rows) else 0.0
                if name not in found or same > found[name][0]:
                    relation = relate(step.table, part, rows, ours, array[rows], cause)
                    found[name] = (same, _Table(at, part, relation))
    return {name: table for name, (_, table) in found.items()}


def _are_entries(array: np.ndarray) -> bool:
    """Whether a constant can hold entries: whole numbers of 8 bit, in whatever type."""
    whole = array.dtype.kind in "iu" or (array.dtype.kind == "f" and bool((np.rint(array) == array).all()))
    return whole and bool((array >= -128).all() and (array <= 127).all())


def _expected(array: np.ndarray, steps: Sequence[Lookup]) -> bool:
    """Whether a large constant is one that the network's own steps account for, other than its tables."""
    flat = array.reshape(-1)
    for step in steps:
        index, axes = step.table.index, step.table.axes
        if index is not None and np.array_equal(flat, index.reshape(-1)):
            return True
        sample = step.term.sample
        if sample.weights is not None and array.shape == np.array(sample.weights).T.shape:
            return True
        # The corners of a multilinear cell, and what their weights are made of.
        if array.ndim == 2 and array.shape == (2**axes, axes) and len(np.unique(flat)) <= 2:
            return True
    return False


def _sampler(arrays: Mapping[str, np.ndarray], old: Lookup, new: Lookup, draw: Draw) -> dict[str, np.ndarray]:
    """Sampler weights and gains among the constants, replaced by what belongs to the new ones."""
    made: dict[str, np.ndarray] = {}
    sample, now = old.term.sample, new.term.sample.weights
    if sample.weights is not None and now is not None:
        shape, one = np.array(sample.weights).T.shape, 1 << sample.weight_bits
        for name, array in arrays.items():
            if array.shape == shape and array.min() >= 0 and (array.sum(axis=0) == one).all():
                rows = tuple(tuple(int(w) for w in row) for row in array.T)
                changed = turned_weights(sample, rows, np.array(now))
                if changed is None:
                    changed = np.array(draw.weights(replace(sample, weights=rows)))
                made[name] = changed.T.astype(array.dtype)
    blend, other = old.term.blend, new.term.blend
    if blend is not None and other is not None:
        one = 1 << blend.gain_bits
        for name, array in arrays.items():
            own = tuple(int(g) for g in array.reshape(-1)) if array.shape == (len(blend.gains),) else ()
            if not own or set(own) <= {0, one}:
                continue
            changed = next((c(other.gains) for c in gain_changes(one) if c(blend.gains) == own), None)
            if changed is None and max(own) > _SMALL and 0 <= min(own) <= max(own) <= one:
                # Gains of its own: what they leave to the current planes is drawn with them.
                rest = tuple(one - g for g in own)
                drawn = draw.gains(replace(blend, gains=min(own, rest)))
                changed = drawn if own <= rest else tuple(one - g for g in drawn)
            if changed is not None:
                made[name] = np.array(changed, array.dtype)
    return made
