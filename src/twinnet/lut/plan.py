"""The plan: a lookup-table network lowered to a flat list of typed stages over integer planes.

A plan is what deploys. It holds no code and no floats except the few constants of a requantisation, so
every executor (numpy reference, native engine, ONNX) that follows this page computes the same integers.

Planes and registers
    A plan maps one plane of 8-bit pixels (0..255, any height and width of at least 1) to an output of
    `plan.channels` planes, `plan.scale` times larger. Colours are planes that run independently. A
    *register* is a named stack of 8-bit planes on a grid of `scale` pixels per input pixel. `INPUT` is the
    register that holds the image (one channel, scale 1); every stage writes one register, named like the
    stage. The last stage is the output.

Stage
    A stage has a grid of *sites*, one per `cell` x `cell` block of source pixels (`cell` 1: one per pixel;
    `cell` 2 on an x2 image: one per pixel of the original). For a source register of scale s the site grid
    has scale s / cell. Each site gives an `upscale` x `upscale` block of every output channel, so the
    register written has scale s / cell * upscale. A stage adds up its terms exactly and requantises once:

        N[o, y, x]   = sum over terms t, rotations r of t:  (D // D_t) * numerator[t, r][o, y, x]
        out[o, y, x] = requant(N / D)               D = lcm of all D_t = `stage.denominator`

Sample: values of the taps at a site
    Tap p of rotation r at site (i, j) is the pixel (cell*i + dy, cell*j + dx) of its plane, (dy, dx) being
    `offsets[p]` turned about the centre of the cell, with e = cell - 1:
        r0 (dy, dx)    r1 (dx, e - dy)    r2 (e - dy, e - dx)    r3 (e - dx, dy)
    Coordinates outside the plane of size n are mapped per axis: "edge" clamps to 0..n-1; "reflect" mirrors
    without repeating the border, again and again if needed (period 2(n-1); n = 1 always gives 0).
    With F = `value_bits`, values are fixed point with F fraction bits, and with B = `weight_bits`:
        weights is None    value_k = pixel_k << F                                (one offset per axis)
        weights (k, p)     value_k = (sum_p weights[k][p] * pixel_p + half) >> (B - F)
                           half = 2^(B-F-1), or 0 if B = F; weights >= 0, each row sums to exactly 2^B

Blend (adaptive residual)
    The same offsets and weights sample a second set of planes, giving value2, then with G = `gain_bits`
        value_k = (gain_k * value2_k + (2^G - gain_k) * value_k + 2^(G-1)) >> G

Table: `axes` axes of `nodes` nodes, `step` apart, so node k stands for pixel value k * step. u = step << F.
    Row of cell (k_0 .. k_{n-1}) in C order: k_0 * nodes^(n-1) + ... + k_{n-1}. A row has `payload` int8
    values in the order (output channel, row u, column v) of the `upscale` x `upscale` block.
    bin_k = min(value_k // u, nodes - 2), frac_k = value_k - bin_k * u, which is in 0..u.
    "simplex"      sort axes by frac, largest first; V_0 = bins, V_i = V_{i-1} + one step along the i-th
                   axis; numerator = (u - f_1) T[V_0] + (f_1 - f_2) T[V_1] + ... + f_n T[V_n]; D_t = u.
                   Ties do not matter.
    "multilinear"  numerator = sum over the 2^n corners of T[corner] * prod(frac_k or u - frac_k);
                   D_t = u^n
    compat "srlut-2021" (simplex, 4 axes a,b,c,d): the published slip. Where c >= a > b and c > d > a
                   (fracs), the numerator is instead
                   (u-c) T[0000] + (c-a) T[0010] + (a-d) T[1010] + (d-b) T[1011] + b T[1111].

Banded table (diagonal-first compression): axes 1..`near` are compressed.
    They go with simplex interpolation only: the corners of a multilinear cell would leave the band.
    A site is *in band* iff |value_k - value_0| <= width * u for k = 1..near. In band the rows come from
    `values`, at row
        index[b_0, (b_1 - b_0) mod D, ..., (b_near - b_0) mod D] * nodes^(axes-1-near) + the rest, C order,
    D = 2 * width + 1, for vertices of the fine grid (`nodes`, `step`). Vertices out of band only ever have
    weight zero there; they must be skipped (or read as any row). Index entries that do not exist are -1.
    Off band the rows come from `coarse`, a plain table of every `thin`-th node: (nodes - 1) // thin + 1
    nodes, step * thin apart. D_t is that of the coarse grid, u * thin; the in-band numerator is multiplied
    by thin. compat must be empty.

Rotation of the output block: with n = upscale, payload element (u, v) of rotation r lands at
    (row, col) of the block of site (i, j), that is at pixel (i*n + row, j*n + col), where (u, v) is
        r0 (row, col)    r1 (n-1-col, row)    r2 (n-1-row, n-1-col)    r3 (col, n-1-row)

Requant: x = float64(N) / float64(D), then `steps` in order, each one IEEE double operation:
    ("div", c) x / c   ("mul", c) x * c   ("add", c) x + c
    ("clip", lo, hi) min(max(x, lo), hi)   ("round",) half to even
    The last step is ("round",) and the result lies in 0..255. Executors may evaluate it once per N into a
    table over -stage.bound .. stage.bound. Accumulators need int64 where `stage.bound` does not fit int32;
    it always stays below 2^53, so that doubles hold N exactly, too.

Recording: every stage has these points, in this order; `sites(plan)` lists them. The integer recorded,
divided by `Site.denominator`, is in pixel units.
    {stage}.{group}.input.x             the planes sampled, 8 bit (distinct planes of the group's first term)
    {stage}.{group}.input.prev_x        the planes blended in, if any
    {stage}.{group}.{branch}.rot{r}.sr  numerator[t, r], (payload, site rows, site columns): neither
                                        shuffled nor turned
    {stage}.{group}.{branch}.rot{r}     the same, shuffled and turned back: (channels, rows, columns)
    {stage}.{group}                     N of this group alone, over D (left out where group is empty)
    {stage}                             the register written, 8 bit
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from twinnet.errors import UsageError

__all__ = [
    "INPUT",
    "Blend",
    "Interpolation",
    "Padding",
    "Plan",
    "Plane",
    "Requant",
    "Sample",
    "Site",
    "Stage",
    "Table",
    "Term",
    "sites",
    "turn",
]  # fmt: skip

INPUT = "input"
"""Name of the register that holds the image."""

Padding = Literal["edge", "reflect"]
Interpolation = Literal["simplex", "multilinear"]


def turn(offset: tuple[int, int], r: int, cell: int) -> tuple[int, int]:
    """An offset turned by `r` quarter turns about the centre of its cell.

    >>> turn((0, 1), 1, cell=1), turn((-1, 0), 2, cell=2)
    ((1, 0), (2, 1))
    """
    (dy, dx), e = offset, cell - 1
    return ((dy, dx), (dx, e - dy), (e - dy, e - dx), (e - dx, dy))[r]


@dataclass(frozen=True)
class Plane:
    """One channel of a register."""

    register: str
    channel: int = 0


@dataclass(frozen=True)
class Sample:
    """Where the values of a table's axes come from; see the module text for the exact meaning.

    `planes` has one entry per offset, or a single one for all of them.
    """

    planes: tuple[Plane, ...]
    offsets: tuple[tuple[int, int], ...]
    padding: Padding = "edge"
    weights: tuple[tuple[int, ...], ...] | None = None
    weight_bits: int = 0
    value_bits: int = 0

    @property
    def axes(self) -> int:
        """How many values this gives per site."""
        return len(self.offsets) if self.weights is None else len(self.weights)

    def plane(self, offset: int, planes: tuple[Plane, ...] | None = None) -> Plane:
        """The plane that offset number `offset` reads."""
        chosen = self.planes if planes is None else planes
        return chosen[0] if len(chosen) == 1 else chosen[offset]


@dataclass(frozen=True)
class Blend:
    """Adaptive residual: mix in the same sample of other planes, one gain per axis."""

    planes: tuple[Plane, ...]
    gains: tuple[int, ...]
    gain_bits: int


@dataclass(frozen=True, eq=False)
class Table:
    """A table of int8 rows on a regular grid, dense or banded; see the module text.

    `last` is the pixel value the last node was evaluated at when the table was made (255 or 256 with step
    16). It describes the entries and plays no part in the arithmetic.
    """

    values: np.ndarray
    axes: int
    nodes: int
    step: int
    last: int = 255
    near: int = 0
    width: int = 0
    thin: int = 1
    index: np.ndarray | None = None
    coarse: np.ndarray | None = None

    @property
    def payload(self) -> int:
        """int8 values per row."""
        return int(self.values.shape[1])

    @property
    def banded(self) -> bool:
        """Whether this is a diagonal-first compressed table."""
        return self.near > 0

    @property
    def coarse_nodes(self) -> int:
        """Nodes per axis of the off-band table."""
        return (self.nodes - 1) // self.thin + 1

    @property
    def nbytes(self) -> int:
        """Bytes of int8 entries, index not counted."""
        return self.values.nbytes + (self.coarse.nbytes if self.coarse is not None else 0)

    def check(self, name: str) -> None:
        """Raise `UsageError` unless every row the arithmetic can reach exists."""
        facts = (self.axes, self.nodes, self.step, self.last, self.near, self.width, self.thin)
        if not all(type(fact) is int and 0 <= fact < 1 << 16 for fact in facts) or self.axes > 16:
            raise UsageError(f"table {name}: needs small whole numbers, at least 1 axis, 2 nodes and step 1")
        if self.axes < 1 or self.nodes < 2 or self.step < 1:
            raise UsageError(f"table {name}: needs at least 1 axis, 2 nodes and step 1")
        if (self.nodes - 1) * self.step < 255:
            raise UsageError(
                f"table {name}: {self.nodes} nodes of step {self.step} end at "
                f"{(self.nodes - 1) * self.step}, below 255"
            )
        for what, array in (("values", self.values), ("coarse", self.coarse)):
            if array is not None and (array.dtype != np.int8 or array.ndim != 2):
                raise UsageError(
                    f"table {name}: {what} is {array.dtype}{list(array.shape)}, not int8 [rows, payload]"
                )
        if not self.banded:
            if self.values.shape[0] != self.nodes**self.axes:
                raise UsageError(
                    f"table {name}: {self.values.shape[0]} rows, but {self.nodes} nodes on {self.axes} axes "
                    f"need {self.nodes**self.axes}"
                )
            return
        diameter = 2 * self.width + 1
        if self.near >= self.axes or self.width < 1 or self.thin < 2 or (self.nodes - 1) % self.thin:
            raise UsageError(
                f"table {name}: impossible band (near {self.near}, width {self.width}, thin {self.thin})",
                hint="near < axes, width >= 1, and thin must divide nodes - 1",
            )
        if self.index is None or self.index.shape != (self.nodes, *[diameter] * self.near):
            raise UsageError(f"table {name}: the band index is missing or has the wrong shape")
        rest = self.nodes ** (self.axes - 1 - self.near)
        if int(self.index.min()) < -1 or (int(self.index.max()) + 1) * rest != self.values.shape[0]:
            raise UsageError(f"table {name}: the band index does not fit the {self.values.shape[0]} rows")
        if self.coarse is None or self.coarse.shape != (self.coarse_nodes**self.axes, self.payload):
            raise UsageError(f"table {name}: the off-band table is missing or has the wrong shape")


@dataclass(frozen=True)
class Term:
    """One table looked up at every site, in some rotations, and added to its stage."""

    sample: Sample
    table: str
    group: str = "in_c0"
    branch: str = "b0"
    rotations: tuple[int, ...] = (0, 1, 2, 3)
    blend: Blend | None = None
    interpolation: Interpolation = "simplex"
    compat: str = ""

    def units(self, table: Table) -> int:
        """Fixed-point units between two nodes of the fine grid: u."""
        return table.step << self.sample.value_bits

    def denominator(self, table: Table) -> int:
        """D_t of the module text."""
        u = self.units(table) * (table.thin if table.banded else 1)
        return u if self.interpolation == "simplex" else u**table.axes

    @property
    def registers(self) -> tuple[str, ...]:
        """The registers it reads."""
        blended = () if self.blend is None else self.blend.planes
        return tuple(dict.fromkeys(p.register for p in (*self.sample.planes, *blended)))

    @property
    def name(self) -> str:
        """Name below the stage: `in_c0.b0`."""
        return ".".join(part for part in (self.group, self.branch) if part)


@dataclass(frozen=True)
class Requant:
    """How an exact sum becomes 8 bit: a name for people, and the double operations that define it."""

    name: str
    steps: tuple[tuple[Any, ...], ...]

    def __call__(self, numerator: np.ndarray, denominator: int) -> np.ndarray:
        """Evaluate on integer numerators; returns uint8.

        >>> Requant("last", (("div", 3), ("clip", 0, 255), ("round",)))(np.array([24, 72]), 16)
        array([0, 2], dtype=uint8)
        """
        x = numerator.astype(np.float64) / np.float64(denominator)
        for step in self.steps:
            match step:
                case ("div", c):
                    x = x / np.float64(c)
                case ("mul", c):
                    x = x * np.float64(c)
                case ("add", c):
                    x = x + np.float64(c)
                case ("clip", lo, hi):
                    x = np.minimum(np.maximum(x, np.float64(lo)), np.float64(hi))
                case ("round",):
                    x = np.rint(x)
                case _:
                    raise UsageError(f"requantisation {self.name!r}: unknown step {step!r}")
        return x.astype(np.uint8)


@dataclass(frozen=True)
class Stage:
    """Terms added exactly, requantised once, written to the register `name`."""

    name: str
    terms: tuple[Term, ...]
    requant: Requant
    channels: int = 1
    upscale: int = 1
    cell: int = 1
    denominator: int = field(default=0)
    """Common denominator D; 0 in a stage under construction, filled in by `Plan.build`."""
    bound: int = field(default=0)
    """No |N| of this stage exceeds this; filled in by `Plan.build`."""

    @property
    def groups(self) -> tuple[str, ...]:
        """The input groups, in order."""
        return tuple(dict.fromkeys(term.group for term in self.terms))


@dataclass(frozen=True)
class Site:
    """One recording point: `recorded / denominator` is in pixel units."""

    name: str
    denominator: int
    kind: Literal["input", "previous", "unit", "rotation", "group", "stage"]
    stage: str


@dataclass(frozen=True, eq=False)
class Plan:
    """Stages in order and the tables they use. Make one with `Plan.build`, which checks it."""

    stages: tuple[Stage, ...]
    tables: Mapping[str, Table]
    scales: Mapping[str, int] = field(default_factory=dict)
    """Grid of every register: pixels per input pixel."""

    @classmethod
    def build(cls, stages: tuple[Stage, ...] | list[Stage], tables: Mapping[str, Table]) -> Plan:
        """Check stages and tables, and fill in denominators, bounds and scales.

        >>> table = Table(np.zeros((17**4, 16), np.int8), axes=4, nodes=17, step=16)
        >>> sample = Sample((Plane(INPUT),), ((0, 0), (0, 1), (1, 0), (1, 1)))
        >>> last = Requant("last", (("clip", 0, 255), ("round",)))
        >>> plan = Plan.build([Stage("stage1", (Term(sample, "s1_b0"),), last, upscale=4)], {"s1_b0": table})
        >>> plan.scale, plan.stages[0].denominator, plan.stages[0].bound
        (4, 16, 8192)
        """
        from twinnet.lut._checks import finish_stage

        for name, table in tables.items():
            table.check(name)
        scales = {INPUT: 1}
        channels = {INPUT: 1}
        finished = []
        for stage in stages:
            done, scale = finish_stage(stage, tables, scales, channels)
            finished.append(done)
            scales[stage.name] = scale
            channels[stage.name] = stage.channels
        if not finished:
            raise UsageError("a plan needs at least one stage")
        return cls(tuple(finished), dict(tables), scales)

    @property
    def scale(self) -> int:
        """Output pixels per input pixel along each axis."""
        return self.scales[self.stages[-1].name]

    @property
    def channels(self) -> int:
        """Channels of the output register."""
        return self.stages[-1].channels

    @property
    def reach(self) -> int:
        """How many input pixels away an output pixel can look, in any direction: the overlap that tiles
        need."""
        from twinnet.lut._checks import reach

        return reach(self)


def sites(plan: Plan) -> Iterator[Site]:
    """All recording points in execution order.

    >>> table = Table(np.zeros((17**2, 1), np.int8), axes=2, nodes=17, step=16)
    >>> term = Term(Sample((Plane(INPUT),), ((0, 0), (0, 1))), "t", rotations=(0,))
    >>> stage = Stage("stage1", (term,), Requant("last", (("clip", 0, 255), ("round",))))
    >>> plan = Plan.build([stage], {"t": table})
    >>> [site.name for site in sites(plan)]
    ['stage1.in_c0.input.x', 'stage1.in_c0.b0.rot0.sr', 'stage1.in_c0.b0.rot0', 'stage1.in_c0', 'stage1']
    """
    for stage in plan.stages:
        for group in stage.groups:
            terms = [term for term in stage.terms if term.group == group]
            prefix = f"{stage.name}.{group}" if group else stage.name
            yield Site(f"{prefix}.input.x", 1, "input", stage.name)
            if any(term.blend for term in terms):
                yield Site(f"{prefix}.input.prev_x", 1, "previous", stage.name)
            for term in terms:
                denominator = term.denominator(plan.tables[term.table])
                for r in term.rotations:
                    yield Site(f"{stage.name}.{term.name}.rot{r}.sr", denominator, "unit", stage.name)
                    yield Site(f"{stage.name}.{term.name}.rot{r}", denominator, "rotation", stage.name)
            if group:
                yield Site(prefix, stage.denominator, "group", stage.name)
        yield Site(stage.name, 1, "stage", stage.name)
