"""Fit a cascade stage by stage, each on the int8 output of those before it. The result is a plan that deploys."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from twinnet.errors import UsageError
from twinnet.lut.executors import make
from twinnet.lut.grid import Grid
from twinnet.lut.patterns import pattern as read_pattern
from twinnet.lut.patterns import patterns as read_patterns
from twinnet.lut.plan import INPUT, Plan, Plane, Sample, Stage, Table, Term
from twinnet.lut.requants import centred
from twinnet.restore.fit.images import FitImages
from twinnet.restore.fit.layout import TableLayout
from twinnet.restore.fit.sites import SiteData
from twinnet.restore.fit.solve import Fitted, Settings, Watch, fit_stage

__all__ = ["FitResult", "FitStage", "StageReport", "check_stages", "fit_cascade", "stage_layouts"]

CENTRE = 128
"""Tables hold values around this grey: entries then have as much room upwards as downwards in int8.

Four rotations share it, and flat areas should need whole entries: with 127 each would be a quarter off, all in the
same direction, and flat areas up to one level too bright."""

Taps = Iterable[Iterable[int]]
Patterns = str | Sequence[str | Taps]


@dataclass(frozen=True)
class FitStage:
    """One stage: which tables it has, on which grid, and at which size it works.

    `patterns` by name or as taps `(dy, dx)` or `(dy, dx, plane)`, `plane` being the number of one of `sources`.
    `interval` are the interval bits of the grid (5: 9 nodes, 4: 17 nodes), for all tables or one for each.
    `band` > 0 keeps the nodes within `band` of the first tap's and thins out the rest (diagonal-first
    compression). `upscale` and `cell` as in `twinnet.restore.nets.mulut.StageSpec`. `sources` are the images
    read: `input` or `stage1`, ...; empty for the stage before.
    """

    patterns: Patterns
    upscale: int = 1
    cell: int = 1
    interval: int | tuple[int, ...] = 5
    band: int = 0
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class StageReport:
    """What came out of one stage."""

    name: str
    error: float
    """Root mean squared error of the int8 tables on the validation planes, before the last rounding."""
    clipped: float
    iterations: int
    seconds: float
    cpu: float


@dataclass(frozen=True, eq=False)
class FitResult:
    """A fitted cascade."""

    plan: Plan
    stages: tuple[StageReport, ...]

    @property
    def lookups(self) -> int:
        """Table lookups per input pixel."""
        total = 0
        for stage in self.plan.stages:
            sites = (self.plan.scales[stage.name] // stage.upscale) ** 2
            total += sites * sum(len(term.rotations) for term in stage.terms)
        return total

    @property
    def nbytes(self) -> int:
        """Bytes of int8 entries."""
        return sum(table.nbytes for table in self.plan.tables.values())


def _taps(spec: str | Taps) -> tuple[tuple[tuple[int, int], ...], tuple[int, ...]]:
    if isinstance(spec, str):
        return read_pattern(spec), ()
    taps = [tuple(tap) for tap in spec]
    if any(len(tap) not in (2, 3) for tap in taps):
        raise UsageError(f"a tap is (dy, dx) or (dy, dx, plane), not {spec!r}")
    planes = tuple(int(tap[2]) if len(tap) == 3 else 0 for tap in taps)
    return read_pattern([tap[:2] for tap in taps]), planes if any(planes) else ()


def stage_layouts(stage: FitStage) -> list[TableLayout]:
    """The tables of a stage.

    >>> [layout.rows for layout in stage_layouts(FitStage("s+P2", upscale=4, interval=(4, 5)))]
    [83521, 6561]
    """
    if isinstance(stage.patterns, str):
        found = [(offsets, ()) for offsets in read_patterns(stage.patterns)]
    else:
        found = [_taps(spec) for spec in stage.patterns]
    if not found:
        raise UsageError("a stage needs at least one pattern")
    bits = (stage.interval,) * len(found) if isinstance(stage.interval, int) else stage.interval
    if len(bits) != len(found):
        raise UsageError(f"{len(found)} patterns need as many intervals, not {len(bits)}")
    return [
        TableLayout(offsets, Grid.bits(b), stage.upscale, stage.cell, planes, stage.band)
        for (offsets, planes), b in zip(found, bits)
    ]


@dataclass
class _Progress:
    """Registers of all planes so far, and the stages that wrote them."""

    images: FitImages
    registers: dict[str, list[np.ndarray]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.registers[INPUT] = list(self.images.inputs)

    def sites(self, stage: FitStage, sources: Sequence[str], scale: int, reach: int) -> SiteData:
        """Sites of a stage with its own target."""
        stacked = [np.stack(planes) for planes in zip(*(self.registers[name] for name in sources))]
        targets = self.images.targets(scale)
        return SiteData.prepare(stacked, targets, cell=stage.cell, upscale=stage.upscale, reach=reach)

    def extend(self, plan: Plan, name: str, threads: int) -> None:
        """Add the register `name` of `plan`, whose last stage it is."""
        executor = make(plan, threads=threads)
        self.registers[name] = [executor.run(low[None])[0, 0] for low in self.images.inputs]


def fit_cascade(
    stages: Sequence[FitStage],
    train: FitImages,
    valid: FitImages,
    settings: Settings | None = None,
    watch: Callable[[str], Watch | None] | None = None,
    begin: FitResult | None = None,
) -> FitResult:
    """Fit all stages in order and return the plan. `watch(stage name)` gives what follows the stage's progress.

    `begin` is a fit whose stages are kept; `stages` are those that come after them.
    """
    how = settings if settings is not None else Settings()
    built: list[Stage] = list(begin.plan.stages) if begin else []
    tables: dict[str, Table] = dict(begin.plan.tables) if begin else {}
    scales: dict[str, int] = dict(begin.plan.scales) if begin else {INPUT: 1}
    reports: list[StageReport] = list(begin.stages) if begin else []
    sides = [_Progress(train), _Progress(valid)]
    check_stages(stages, train.scale, scales, built[-1].name if built else INPUT)
    for part in built:
        upto = Plan.build(built[: built.index(part) + 1], tables)
        for side in sides:
            side.extend(upto, part.name, how.threads)
    for number, stage in enumerate(stages, start=len(built) + 1):
        name = f"stage{number}"
        sources = stage.sources or (built[-1].name if built else INPUT,)
        scale = scales[sources[0]] // stage.cell * stage.upscale
        layouts = stage_layouts(stage)
        reach = max(max(map(abs, offset)) for layout in layouts for offset in layout.offsets) + stage.cell
        data = [side.sites(stage, sources, scale, reach) for side in sides]
        began = time.perf_counter(), time.process_time()
        fitted = fit_stage(
            layouts, data[0], data[1], 1 / len(layouts), float(CENTRE), how, watch(name) if watch is not None else None
        )
        took = time.perf_counter() - began[0], time.process_time() - began[1]
        reports.append(StageReport(name, fitted.error, fitted.clipped, fitted.iterations, *took))
        built.append(_lower(name, stage, sources, fitted, tables))
        scales[name] = scale
        plan = Plan.build(built, tables)
        if number < len(stages) + (len(begin.plan.stages) if begin else 0):
            for side in sides:
                side.extend(plan, name, how.threads)
    return FitResult(Plan.build(built, tables), tuple(reports))


def _lower(
    name: str, stage: FitStage, sources: Sequence[str], fitted: Fitted, tables: dict[str, Table]
) -> Stage:
    """The stage of a plan; its tables are added to `tables`."""
    terms = []
    for k, (layout, entries) in enumerate(zip(fitted.layouts, fitted.tables)):
        key = f"{name}.in_c0.b{k}"
        tables[key] = layout.table(entries)
        numbers = layout.planes or (0,)
        planes = tuple(Plane(sources[n]) for n in numbers)
        terms.append(Term(Sample(planes, layout.offsets), key, branch=f"b{k}"))
    return Stage(name, tuple(terms), centred(len(terms), CENTRE), 1, stage.upscale, stage.cell)


def check_stages(
    stages: Sequence[FitStage], final: int, scales: Mapping[str, int] | None = None, before: str = INPUT
) -> None:
    """Everything that can be wrong with stages that should lead to x`final`, before time is spent on the first.

    `scales` are those of the images there already, `before` the name of the last of them.

    >>> check_stages([FitStage("P1+P2", 2), FitStage("Q1", 4, cell=2)], 4)
    """
    known = dict(scales) if scales is not None else {INPUT: 1}
    if not stages:
        raise UsageError("a cascade needs at least one stage")
    for number, stage in enumerate(stages, start=len(known)):
        sources = stage.sources or (before,)
        for source in sources:
            if source not in known:
                raise UsageError(
                    f"stage {number} reads {source!r}, which no earlier stage writes",
                    hint=f"there are: {', '.join(known)}",
                )
        if len({known[source] for source in sources}) > 1:
            raise UsageError(f"stage {number} reads images of different sizes")
        scale = known[sources[0]]
        if stage.cell < 1 or scale % stage.cell:
            raise UsageError(f"stage {number}: cells of {stage.cell} do not divide an image at x{scale}")
        scale = scale // stage.cell * stage.upscale
        if scale < 1 or final % scale:
            raise UsageError(f"stage {number} gives x{scale}, which has no target on the way to x{final}")
        for layout in stage_layouts(stage):
            if layout.planes and not 0 <= min(layout.planes) <= max(layout.planes) < len(sources):
                raise UsageError(
                    f"stage {number} reads source {max(layout.planes)}, but has {len(sources)}, from 0"
                )
        before = f"stage{number}"
        known[before] = scale
    if known[before] != final:
        raise UsageError(f"the stages give x{known[before]}, not x{final}")
