"""Fit a cascade stage by stage, each on the int8 output of those before it. The result is a plan that deploys."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from twinnet.errors import UsageError
from twinnet.lut.describe import lookups
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

__all__ = [
    "FitResult",
    "FitStage",
    "Prepared",
    "Side",
    "StageReport",
    "check_stages",
    "fit_cascade",
    "fit_prepared",
    "prepare",
    "stage_layouts",
]

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
    """The result of one stage."""

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
        return lookups(self.plan)

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
class Side:
    """Training or validation planes with the registers of all stages so far."""

    images: FitImages
    registers: dict[str, list[np.ndarray]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.registers[INPUT] = list(self.images.inputs)

    def sites(self, stage: FitStage, sources: Sequence[str], scale: int, reach: int) -> SiteData:
        """Sites of a stage with its own target."""
        stacked = [np.stack(planes) for planes in zip(*(self.registers[name] for name in sources))]
        targets = self.images.targets(scale)
        return SiteData.prepare(stacked, targets, cell=stage.cell, upscale=stage.upscale, reach=reach)

    def extend(self, plan: Plan, threads: int) -> None:
        """Add the register of the last stage of `plan`."""
        executor = make(plan, threads=threads)
        self.registers[plan.stages[-1].name] = [executor.run(low[None])[0, 0] for low in self.images.inputs]


@dataclass(frozen=True, eq=False)
class Prepared:
    """A stage that is about to be fitted: what came before it, and its sites."""

    name: str
    sources: tuple[str, ...]
    scale: int
    sides: tuple[Side, Side]
    data: tuple[SiteData, SiteData]
    stages: tuple[Stage, ...]
    tables: Mapping[str, Table]

    def plan(self, stage: FitStage, fitted: Fitted) -> Plan:
        """The plan with this stage at its end."""
        tables = dict(self.tables)
        last = _lower(self.name, stage, self.sources, fitted, tables)
        return Plan.build([*self.stages, last], tables)

    def plain(self, side: Side) -> list[np.ndarray]:
        """The first source at the size of the stage's result, pixels repeated."""
        made = []
        for image, target in zip(side.registers[self.sources[0]], side.images.targets(self.scale)):
            rows, columns = (np.arange(n) * m // n for n, m in zip(target.shape, image.shape))
            made.append(image[rows][:, columns])
        return made


def prepare(
    stage: FitStage,
    images: tuple[FitImages, FitImages],
    begin: FitResult | None,
    reach: int,
    threads: int = 1,
) -> Prepared:
    """Sites of the stage that comes after those of `begin`."""
    sides = (Side(images[0]), Side(images[1]))
    before: tuple[Stage, ...] = begin.plan.stages if begin else ()
    tables: Mapping[str, Table] = begin.plan.tables if begin else {}
    for k in range(len(before)):
        upto = Plan.build(before[: k + 1], _used(before[: k + 1], tables))
        for side in sides:
            side.extend(upto, threads)
    return _prepared(stage, sides, before, tables, dict(begin.plan.scales) if begin else {INPUT: 1}, reach)


def _used(stages: Sequence[Stage], tables: Mapping[str, Table]) -> dict[str, Table]:
    return {term.table: tables[term.table] for stage in stages for term in stage.terms}


def _prepared(
    stage: FitStage, sides: tuple[Side, Side], before: tuple[Stage, ...], tables: Mapping[str, Table],
    scales: Mapping[str, int], reach: int,
) -> Prepared:  # fmt: skip
    sources = stage.sources or (before[-1].name if before else INPUT,)
    scale = scales[sources[0]] // stage.cell * stage.upscale
    data = (sides[0].sites(stage, sources, scale, reach), sides[1].sites(stage, sources, scale, reach))
    return Prepared(f"stage{len(before) + 1}", tuple(sources), scale, sides, data, before, tables)


def fit_prepared(stage: FitStage, ready: Prepared, settings: Settings, watch: Watch | None = None) -> Fitted:
    """Fit the tables of a prepared stage."""
    layouts = stage_layouts(stage)
    return fit_stage(layouts, ready.data, 1 / len(layouts), float(CENTRE), settings, watch)


def fit_cascade(
    stages: Sequence[FitStage],
    images: tuple[FitImages, FitImages],
    settings: Settings | None = None,
    watch: Callable[[str], Watch | None] | None = None,
    begin: FitResult | None = None,
    keep: Callable[[FitResult], None] | None = None,
) -> FitResult:
    """Fit all stages in order to the first of `images`, validating on the second.

    `watch(stage name)` returns a function that is told about the progress of that stage. `begin` is a fit whose
    stages are kept; `stages` are those that come after them. `keep` is called after every stage but the last with
    the fit so far, to resume from later.
    """
    how = settings if settings is not None else Settings()
    before = begin.plan.stages if begin else ()
    check_stages(
        stages, images[0].scale, begin.plan.scales if begin else None, before[-1].name if before else INPUT
    )
    reports: list[StageReport] = list(begin.stages) if begin else []
    ready: Prepared | None = None
    plan: Plan | None = begin.plan if begin else None
    for number, stage in enumerate(stages):
        reach = max(max(map(abs, o)) for layout in stage_layouts(stage) for o in layout.offsets) + stage.cell
        if ready is None or plan is None:
            ready = prepare(stage, images, begin, reach, how.threads)
        else:
            ready = _prepared(stage, ready.sides, plan.stages, plan.tables, plan.scales, reach)
        began = time.perf_counter(), time.process_time()
        fitted = fit_prepared(stage, ready, how, watch(ready.name) if watch is not None else None)
        took = time.perf_counter() - began[0], time.process_time() - began[1]
        reports.append(StageReport(ready.name, fitted.error, fitted.clipped, fitted.iterations, *took))
        plan = ready.plan(stage, fitted)
        if number < len(stages) - 1:
            if keep is not None:
                keep(FitResult(plan, tuple(reports)))
            for side in ready.sides:
                side.extend(plan, how.threads)
    assert plan is not None
    return FitResult(plan, tuple(reports))


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
    """Check that stages lead to x`final`, before time is spent on the first.

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
