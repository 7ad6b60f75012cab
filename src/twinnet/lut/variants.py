"""The steps of a plan, one site each, with the ways in which an engine may deviate from them.

`twinnet.lut.plan` says what each step means; a step here with its default `Way` is exactly that. A `Way` names a
deviation that a plan cannot express (zero padding, a bin off by one, nearest entry), so that a hypothesis about a
faulty twin can be evaluated. Arrays have a leading axis for the planes of an image.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from twinnet.lut.plan import Plane, Requant, Sample, Table, Term, turn
from twinnet.lut.reference import outside

__all__ = ["Lookup", "Place", "Requantise", "Sum", "Walk", "Way", "rounded"]

Registers = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Way:
    """How a lookup is done. Every default is the plan's own way; `axis` limits a deviation of the bins to one tap."""

    padding: str = ""
    """zero, symmetric, wrap, edge or reflect instead of the sample's own."""
    bins: str = ""
    """next, previous, clipped (one bin too early), nearest."""
    axis: int | None = None
    node: int = 0
    """Pixel value the last node is taken to stand for."""
    spacing: float = 0.0
    """Distance of the nodes in pixel values."""
    strides: int = 0
    """Nodes per axis that the row number is computed with."""
    interpolation: str = ""
    """simplex, multilinear, rising (simplex from the smallest fraction), nearest, lower."""
    sampling: str = ""
    """floor (weighted taps cut, not rounded), whole (taps rounded to whole pixels)."""
    unsigned: bool = False
    """Entries read as uint8."""
    factor: float = 1.0
    """On every entry."""
    rounding: str = ""
    """Each lookup rounded by itself: even, up, trunc, floor."""


PLAIN = Way()


@dataclass(frozen=True)
class Walk:
    """Which rows a lookup reads and with what weight, over `units`: both [vertices, sites]. -1: no such row."""

    rows: np.ndarray
    weights: np.ndarray
    units: float
    coarse: bool = False
    sites: np.ndarray | None = None
    """The sites it is for; None: all."""


def rounded(x: np.ndarray, how: str) -> np.ndarray:
    """Round to whole numbers: even (half to even), up (half up), trunc, floor, ceil.

    >>> [rounded(np.array([-0.5, 0.5, 1.5]), how).tolist() for how in ("even", "up", "trunc")]
    [[-0.0, 0.0, 2.0], [0.0, 1.0, 2.0], [-0.0, 0.0, 1.0]]
    """
    return _ROUNDINGS[how](x)


_ROUNDINGS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "even": np.rint,
    "up": lambda x: np.floor(x + 0.5),
    "trunc": np.trunc,
    "floor": np.floor,
    "ceil": np.ceil,
}


@dataclass(frozen=True, eq=False)
class Lookup:
    """One table in one rotation: from the planes a term samples to numerators over its denominator.

    `sites` picks some of the sites (flat numbers over planes, rows and columns), to try many ways quickly.
    `tabulate` gives the table made with another last node, where the network is at hand.
    """

    term: Term
    table: Table
    cell: int
    rotation: int
    way: Way = PLAIN
    slack: int = 0
    sites: np.ndarray | None = None
    tabulate: Any = field(default=None, repr=False)

    @property
    def denominator(self) -> int:
        """The denominator of its numerators."""
        return self.term.denominator(self.table)

    @property
    def registers(self) -> tuple[str, ...]:
        """The registers it reads."""
        return self.term.registers

    def but(self, **way: Any) -> Lookup:
        """The same, done another way."""
        return replace(self, way=replace(self.way, **way))

    def sampling(self, **sample: Any) -> Lookup:
        """The same with another sample."""
        return replace(self, term=replace(self.term, sample=replace(self.term.sample, **sample)))

    # -- values ------------------------------------------------------------------------------------------------

    def values(self, registers: Registers) -> np.ndarray:
        """Fixed-point values of the axes: [axis, site]."""
        sample, blend = self.term.sample, self.term.blend
        values = self._fixed(sample, self._pixels(sample, sample.planes, registers))
        if blend is not None:
            other = self._fixed(sample, self._pixels(sample, blend.planes, registers))
            gain = np.array(blend.gains, np.int64)[:, None]
            one = 1 << blend.gain_bits
            half = 0 if self.way.sampling == "floor" else one // 2
            values = (gain * other + (one - gain) * values + half) >> blend.gain_bits
        if self.way.sampling == "whole":
            bits = sample.value_bits
            values = ((values + (1 << bits >> 1)) >> bits) << bits
        return values

    def shape(self, registers: Registers) -> tuple[int, int, int]:
        """Planes, site rows and site columns."""
        planes, _, rows, columns = registers[self.term.sample.planes[0].register].shape
        return planes, -(-rows // self.cell), -(-columns // self.cell)

    def _pixels(self, sample: Sample, planes: Sequence[Plane], registers: Registers) -> np.ndarray:
        padding = self.way.padding or sample.padding
        pixels = []
        for p, offset in enumerate(sample.offsets):
            plane = planes[0] if len(planes) == 1 else planes[p]
            image = registers[plane.register][:, plane.channel]
            turned = turn(offset, self.rotation, self.cell)
            at = [np.arange(0, n, self.cell) + d for n, d in zip(image.shape[1:], turned, strict=True)]
            rows, columns = (_outside(c, n, padding) for c, n in zip(at, image.shape[1:], strict=True))
            taken = image[:, np.maximum(rows, 0)[:, None], np.maximum(columns, 0)[None, :]]
            if padding == "zero":
                taken = np.where((rows < 0)[:, None] | (columns < 0)[None, :], 0, taken)
            pixels.append(taken.reshape(-1) if self.sites is None else taken.reshape(-1)[self.sites])
        return np.stack(pixels)

    def _fixed(self, sample: Sample, pixels: np.ndarray) -> np.ndarray:
        if sample.weights is None:
            return pixels << sample.value_bits
        shift = sample.weight_bits - sample.value_bits
        half = 1 << (shift - 1) if shift and self.way.sampling != "floor" else 0
        return (np.array(sample.weights, np.int64) @ pixels + half) >> shift

    # -- rows --------------------------------------------------------------------------------------------------

    def walks(self, values: np.ndarray) -> list[Walk]:
        """The rows read for values [axis, site]; a banded table has one walk in the band and one off it."""
        table, u = self.table, self.term.units(self.table)
        if not table.banded:
            return [self._walk(values, u, table.nodes, coarse=False)]
        away = np.abs(values[1 : table.near + 1] - values[0])
        inside = (away <= table.width * u).all(axis=0)
        fine, far = np.flatnonzero(inside), np.flatnonzero(~inside)
        return [
            replace(self._walk(values[:, fine], u, table.nodes, coarse=False), sites=fine),
            replace(self._walk(values[:, far], u * table.thin, table.coarse_nodes, coarse=True), sites=far),
        ]

    def bins(self, values: np.ndarray, u: int, nodes: int) -> tuple[np.ndarray, np.ndarray]:
        """Bin and fraction (over u) of every axis, in this way."""
        way, top = self.way, nodes - 2
        if way.spacing:
            at = values / (way.spacing * (u / self.table.step))
            bins = np.minimum(np.floor(at).astype(np.int64), top)
            return bins, (at - bins) * u
        plain = np.minimum(values // u, top)
        frac: np.ndarray = values - plain * u
        bins = plain
        match way.bins:
            case "next":
                bins = np.minimum(plain + 1, top)
            case "previous":
                bins = np.maximum(plain - 1, 0)
            case "clipped":
                bins = np.minimum(plain, top - 1)
            case "nearest":
                bins = np.minimum((values + u // 2) // u, top)
        if way.axis is not None:
            chosen = np.arange(len(values))[:, None] == way.axis
            bins = np.where(chosen, bins, plain)
        if way.node:
            length = (
                way.node - (nodes - 2) * (u >> self.term.sample.value_bits)
            ) << self.term.sample.value_bits
            frac = np.where(plain == top, np.minimum(frac * (u / length), u), frac)
        return bins, frac

    def _walk(self, values: np.ndarray, u: int, nodes: int, *, coarse: bool) -> Walk:
        bins, frac = self.bins(values, u, nodes)
        way = self.way.interpolation or self.term.interpolation
        vertices, weights = _vertices(
            bins, frac, u, way, self.term.compat if not self.way.interpolation else ""
        )
        scale = u if way != "multilinear" else u ** len(values)
        return Walk(
            np.stack([self._row(v, nodes, coarse) for v in vertices]), np.stack(weights), scale, coarse
        )

    def _row(self, vertex: np.ndarray, nodes: int, coarse: bool) -> np.ndarray:
        table, size = self.table, self.way.strides or nodes
        if not table.banded or coarse:
            flat = np.zeros(vertex.shape[1], np.int64)
            for k in range(table.axes):
                flat = flat * size + vertex[k]
            return flat
        assert table.index is not None
        away = vertex[1 : table.near + 1] - vertex[0]
        inside = (np.abs(away) <= table.width).all(axis=0)
        flat = table.index.astype(np.int64)[(vertex[0], *(away % (2 * table.width + 1)))]
        for k in range(table.near + 1, table.axes):
            flat = flat * size + vertex[k]
        return np.where(inside, flat, -1)

    def entries(self, coarse: bool = False) -> np.ndarray:
        """The rows of the table as they are read: [row, payload]."""
        values = self.table.coarse if coarse else self.table.values
        assert values is not None
        wide = (values.view(np.uint8) if self.way.unsigned else values).astype(np.float64)
        return wide * self.way.factor

    # -- result ------------------------------------------------------------------------------------------------

    def __call__(self, registers: Registers) -> np.ndarray:
        """Pixel units: [planes, payload, site rows, site columns], or [sites, payload, 1, 1] of chosen sites."""
        values = self.values(registers)
        out = np.empty((values.shape[1], self.table.payload))
        for walk in self.walks(values):
            entries = self.entries(walk.coarse)
            total = np.zeros((walk.rows.shape[1], self.table.payload))
            for rows, weights in zip(walk.rows, walk.weights, strict=True):
                known = (rows >= 0) & (rows < len(entries))
                total += np.where(known, weights, 0.0)[:, None] * entries[np.where(known, rows, 0)]
            # Whole numerators are exact in doubles; one multiplication brings them to pixel units.
            scaled = total * (1.0 / walk.units)
            out[slice(None) if walk.sites is None else walk.sites] = scaled
        if self.way.rounding:
            out = rounded(out, self.way.rounding)
        if self.sites is not None:
            return out[:, :, None, None]
        planes, rows, columns = self.shape(registers)
        return np.ascontiguousarray(out.reshape(planes, rows, columns, -1).transpose(0, 3, 1, 2))


def _outside(at: np.ndarray, n: int, padding: str) -> np.ndarray:
    """Coordinates mapped back inside; -1 where zero padding has no pixel."""
    match padding:
        case "zero":
            return np.where((at < 0) | (at >= n), -1, at)
        case "wrap":
            return np.mod(at, n)
        case "symmetric":
            folded = np.mod(at, 2 * n)
            return np.where(folded < n, folded, 2 * n - 1 - folded)
    return outside(at, n, padding)


def _vertices(
    bins: np.ndarray, frac: np.ndarray, u: int, how: str, compat: str
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    axes = len(bins)
    if how == "multilinear":
        vertices, weights = [], []
        for corner in product((0, 1), repeat=axes):
            up = np.array(corner)[:, None]
            vertices.append(bins + up)
            weights.append(np.prod(np.where(up == 1, frac, u - frac), axis=0))
        return vertices, weights
    if how in ("nearest", "lower"):
        up = (2 * frac >= u).astype(np.int64) if how == "nearest" else 0
        return [bins + up], [np.full(bins.shape[1], u)]
    key = frac if how == "rising" else -frac
    order = np.argsort(key, axis=0, kind="stable")
    falling = np.take_along_axis(frac, order, axis=0)
    if how == "rising":
        falling = falling[::-1]
    bounds = np.concatenate([np.full_like(frac[:1], u), falling, np.zeros_like(frac[:1])])
    vertices, vertex = [bins], bins.copy()
    for i in range(axes):
        up = np.zeros_like(bins)
        np.put_along_axis(up, order[i : i + 1], 1, axis=0)
        vertex = vertex + up
        vertices.append(vertex)
    weights = list(bounds[:-1] - bounds[1:])
    if compat == "srlut-2021":
        a, b, c, d = frac
        slip = (c >= a) & (a > b) & (c > d) & (d > a)
        corners = ((0, 0, 0, 0), (0, 0, 1, 0), (1, 0, 1, 0), (1, 0, 1, 1), (1, 1, 1, 1))
        other = (u - c, c - a, a - d, d - b, b)
        vertices = [
            np.where(slip, bins + np.array(k)[:, None], v) for k, v in zip(corners, vertices, strict=True)
        ]
        weights = [np.where(slip, w, v) for w, v in zip(other, weights, strict=True)]
    return vertices, weights


def _numerators(value: np.ndarray, denominator: int) -> np.ndarray:
    """Whole numbers again, where they were; a faulty step may have left others."""
    exact = value * denominator
    whole = np.rint(exact)
    return np.where(np.abs(exact - whole) < 1e-6, whole, exact)


@dataclass(frozen=True)
class Place:
    """Pixel shuffle with the block turned back: from [planes, payload, ...] to [planes, channels, ...].

    `order` says which payload element stands in each place of the block before it is turned; None: its own.
    """

    channels: int
    upscale: int
    rotation: int
    order: tuple[int, ...] | None = None

    def __call__(self, values: np.ndarray) -> np.ndarray:
        planes, _, rows, columns = values.shape
        n = self.upscale
        if self.order is not None:
            values = values[:, list(self.order)]
        blocks = values.reshape(planes, self.channels, n, n, rows, columns)
        turned = np.rot90(blocks, -self.rotation, axes=(2, 3)) if n > 1 else blocks
        return turned.transpose(0, 1, 4, 2, 5, 3).reshape(planes, self.channels, rows * n, columns * n)


@dataclass(frozen=True)
class Sum:
    """The exact sum of rotations or groups, each over its own denominator and counted `counts` times."""

    denominators: tuple[int, ...]
    total: int
    names: tuple[str, ...] = ()
    counts: tuple[float, ...] | None = None

    def __call__(self, *values: np.ndarray) -> np.ndarray:
        counts = self.counts or (1,) * len(values)
        whole: np.ndarray | float = 0.0
        for value, own, count in zip(values, self.denominators, counts, strict=True):
            if count:
                whole = whole + _numerators(value, own) * (count * (self.total // own))
        return np.asarray(whole if isinstance(whole, np.ndarray) else 0.0 * values[0]) * (1.0 / self.total)


@dataclass(frozen=True)
class Requantise:
    """A sum in pixel units to 8 bit by the steps of the plan; `round`, `clip` and `each` say how."""

    requant: Requant
    denominator: int
    round: str = "even"
    clip: str = ""
    """none (wraps around, as a plain cast to uint8)."""
    each: bool = False
    """Rounded after every division, too."""

    def __call__(self, value: np.ndarray) -> np.ndarray:
        x = _numerators(value, self.denominator) / np.float64(self.denominator)
        for step in self.requant.steps:
            match step:
                case ("div", c):
                    x = rounded(x / np.float64(c), self.round) if self.each else x / np.float64(c)
                case ("mul", c):
                    x = x * np.float64(c)
                case ("add", c):
                    x = x + np.float64(c)
                case ("clip", low, high):
                    x = x if self.clip else np.minimum(np.maximum(x, np.float64(low)), np.float64(high))
                case _:
                    x = rounded(x, self.round)
        return np.mod(x, 256.0) if self.clip else x
