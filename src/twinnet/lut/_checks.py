"""Checks of a plan, and what follows from it: denominators, bounds, grids, reach."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from twinnet.errors import UsageError

if TYPE_CHECKING:
    from twinnet.lut.plan import Plan, Plane, Stage, Table, Term

__all__ = ["finish_stage", "reach"]

COMPATS = ("", "srlut-2021")
MAX_OFFSET = 4096
"""Taps further away than this are a mistake, and would only make tiles overlap without end."""


def _wrong(stage: Stage, term: Term | None, what: str) -> UsageError:
    return UsageError(f"{stage.name}{'.' + term.name if term else ''}: {what}")


def _check_sample(stage: Stage, term: Term, axes: int) -> None:
    sample = term.sample
    if sample.padding not in ("edge", "reflect"):
        raise _wrong(stage, term, f"unknown padding {sample.padding!r}, use edge or reflect")
    if not sample.offsets or any(len(offset) != 2 for offset in sample.offsets):
        raise _wrong(stage, term, "offsets must be (dy, dx) pairs")
    if any(type(d) is not int or abs(d) > MAX_OFFSET for offset in sample.offsets for d in offset):
        raise _wrong(stage, term, f"offsets must be whole numbers of at most {MAX_OFFSET}")
    if sample.axes != axes:
        raise _wrong(stage, term, f"samples {sample.axes} values for a table of {axes} axes")
    if len(sample.planes) not in (1, len(sample.offsets)):
        raise _wrong(stage, term, f"{len(sample.planes)} planes for {len(sample.offsets)} offsets")
    if not 0 <= sample.value_bits <= 12:
        raise _wrong(stage, term, f"value_bits {sample.value_bits} is not in 0..12")
    if sample.weights is not None:
        if not sample.value_bits <= sample.weight_bits <= 20:
            raise _wrong(stage, term, "weight_bits must be between value_bits and 20")
        for row in sample.weights:
            if len(row) != len(sample.offsets) or min(row) < 0 or sum(row) != 1 << sample.weight_bits:
                raise _wrong(stage, term, "sampler weights must be >= 0 and add up to 2^weight_bits")
    blend = term.blend
    if blend is not None:
        if len(blend.gains) != axes or not all(0 <= g <= 1 << blend.gain_bits for g in blend.gains):
            raise _wrong(stage, term, "needs one gain in 0..2^gain_bits per axis")
        if len(blend.planes) not in (1, len(sample.offsets)) or not 1 <= blend.gain_bits <= 20:
            raise _wrong(stage, term, "the residual does not fit the sample")


def _check_requant(stage: Stage) -> None:
    lo, hi = -math.inf, math.inf
    steps = stage.requant.steps
    if not steps or steps[-1][0] != "round":
        raise _wrong(stage, None, f"requantisation {stage.requant.name!r} must end with a round step")
    for step in steps:
        match step:
            case ("div", c) if c > 0:
                lo, hi = lo / c, hi / c
            case ("mul", c) if c > 0:
                lo, hi = lo * c, hi * c
            case ("add", c):
                lo, hi = lo + c, hi + c
            case ("clip", low, high) if low <= high:
                lo, hi = min(max(lo, low), high), max(min(hi, high), low)
            case ("round",):
                pass
            case _:
                raise _wrong(stage, None, f"requantisation {stage.requant.name!r}: bad step {step!r}")
    if not (lo >= -0.5 and hi <= 255.5):
        raise _wrong(stage, None, f"requantisation {stage.requant.name!r} can leave 0..255")


def finish_stage(
    stage: Stage, tables: Mapping[str, Table], scales: Mapping[str, int], channels: Mapping[str, int]
) -> tuple[Stage, int]:
    """The stage with denominator and bound filled in, and the scale of the register it writes."""
    if not stage.terms or stage.name in scales:
        raise UsageError(f"stage {stage.name!r} has no terms, or its name is taken")
    if stage.channels < 1 or stage.upscale < 1 or stage.cell < 1:
        raise _wrong(stage, None, "channels, upscale and cell must be at least 1")
    _check_requant(stage)
    grids = set()
    seen = set()
    for term in stage.terms:
        if term.table not in tables:
            raise _wrong(stage, term, f"no table named {term.table!r}")
        table = tables[term.table]
        _check_sample(stage, term, table.axes)
        planes: list[Plane] = [*term.sample.planes, *(term.blend.planes if term.blend else ())]
        for plane in planes:
            if plane.register not in scales or not 0 <= plane.channel < channels[plane.register]:
                raise _wrong(
                    stage, term, f"reads {plane.register}[{plane.channel}], which does not exist yet"
                )
            grids.add(scales[plane.register])
        if table.payload != stage.channels * stage.upscale**2:
            raise _wrong(
                stage, term,
                f"table {term.table!r} has {table.payload} values per row, but {stage.channels} channel(s) "
                f"at x{stage.upscale} need {stage.channels * stage.upscale**2}",
            )  # fmt: skip
        if term.interpolation not in ("simplex", "multilinear"):
            raise _wrong(stage, term, f"unknown interpolation {term.interpolation!r}")
        if table.banded and term.interpolation != "simplex":
            raise _wrong(stage, term, "diagonal-first compressed tables need simplex interpolation")
        slip = term.compat == "srlut-2021"
        if term.compat not in COMPATS or (
            slip and (table.axes != 4 or table.banded or term.interpolation != "simplex")
        ):
            raise _wrong(stage, term, f"compat {term.compat!r} does not apply here")
        if not term.rotations or not set(term.rotations) <= {0, 1, 2, 3}:
            raise _wrong(stage, term, "rotations must be some of 0, 1, 2, 3")
        if term.name in seen:
            raise _wrong(stage, term, "two terms have this name")
        seen.add(term.name)
    if len(grids) != 1:
        raise _wrong(stage, None, f"mixes planes of different scales {sorted(grids)}")
    source = grids.pop()
    if source % stage.cell:
        raise _wrong(stage, None, f"a cell of {stage.cell} does not divide the scale {source} of its source")
    denominator = math.lcm(*(term.denominator(tables[term.table]) for term in stage.terms))
    # Convex weights keep a lookup within 128 D; the published slip has one negative weight and stays
    # within 3 x that.
    bound = sum(128 * denominator * len(term.rotations) * (3 if term.compat else 1) for term in stage.terms)
    if bound >= 1 << 53:
        raise _wrong(stage, None, "the exact sum outgrows a double: use fewer value_bits, or simplex")
    return replace(stage, denominator=denominator, bound=bound), source // stage.cell * stage.upscale


def reach(plan: Plan) -> int:
    """Input pixels an output pixel depends on, in any direction (rounded up, conservative)."""
    far: dict[str, float] = {"input": 0.0}
    for stage in plan.stages:
        most = 0.0
        for term in stage.terms:
            planes = (*term.sample.planes, *(term.blend.planes if term.blend else ()))
            scale = plan.scales[planes[0].register]
            # A reflected tap at the border reads as far inside as it points outside, so the same distance
            # serves.
            edge = max(max(abs(dy), abs(dx)) for dy, dx in term.sample.offsets) + stage.cell - 1
            most = max(most, edge / scale + max(far[plane.register] for plane in planes))
        far[stage.name] = most
    return math.ceil(far[plan.stages[-1].name])
