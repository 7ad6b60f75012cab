"""Table networks forward and backward in one native pass per stage, for fine-tuning.

`forward(net, x)` is `net(x)` for a network in table mode, with the same numbers and the same gradients for
tables (dense or compressed), samplers and residual weights, but without a graph of thousands of small operations:
every stage is one autograd function that looks up all its tables, and on the way back adds only to the rows visited.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from twinnet.errors import EngineError, UsageError
from twinnet.lut.net import LutNet
from twinnet.lut.nodes import AdaRL, Branch, LookupStage, Taps
from twinnet.lut.plan import INPUT, Padding, Plane, Requant, turn
from twinnet.lut.rounding import Rounding, ste_round
from twinnet.lut.unit import Unit
from twinnet.restore import native

__all__ = ["can_fuse", "forward"]

_EXACT = 1 << 24
"""Whole numbers below this are exact in float32."""


def can_fuse(net: LutNet) -> str:
    """Why `forward` cannot run this network; empty if it can.

    >>> from twinnet.lut import export
    >>> from twinnet.restore.nets import srlut
    >>> can_fuse(srlut.build("V", scale=2, width=4))
    'it is not in table mode'
    >>> can_fuse(export(srlut.build("V", scale=2, width=4)))
    ''
    """
    if net.mode != "table":
        return "it is not in table mode"
    if not native.available():
        return "the native passes were not built"
    for name, stage in net.stages():
        branches = _branches(stage)
        if stage.upscale > 4:
            return f"{name} gives blocks of {stage.upscale} pixels a side"
        for branch in branches:
            unit = branch.unit
            if unit.interpolation != "simplex" or unit.compat or unit.axes > 4:
                return (
                    f"{name} has a table with {unit.axes} axes, {unit.interpolation} {unit.compat}".rstrip()
                )
            units = (unit.grid.step << branch.sample.value_bits) * unit.thin
            if units > 1 << 14 or unit.grid.nodes ** (unit.axes - 1) >= 1 << 17:
                return f"{name} has a grid that is too fine"
        if net.rounding == "C":
            each = LutNet.denominator(stage) * 127
            if each * sum(len(branch.rotations) for branch in branches) >= _EXACT:
                return f"sums of {name} are not exact in float32"
    return ""


def forward(net: LutNet, x: Tensor) -> Tensor:
    """`net(x)` of a network in table mode: [batch, colours, rows, columns] in [0, 1].

    Networks that `can_fuse` says no to run as they are.
    """
    if can_fuse(net):
        return net(x)
    if x.ndim != 4 or 0 in x.shape:
        raise UsageError(f"a LUT network takes [batch, colours, rows, columns], not {list(x.shape)}")
    batch, colours, h, w = x.shape
    how = net.rounding
    work = torch.float64 if how == "C" else torch.float32
    planes = ste_round(x.reshape(batch * colours, 1, h, w).clamp(0, 1).to(work) * 255)
    if net.training:
        for module in net.modules():
            if isinstance(module, AdaRL):
                module.project()
    registers = {INPUT: planes}
    for name, stage in net.stages():
        last = name == net.stage_names[-1]
        registers[name] = _run_stage(stage, registers, how, not (last and net.training), 255 if last else 1)
    out = registers[net.stage_names[-1]].to(x.dtype)
    return out.reshape(batch, -1, *out.shape[-2:])


def _branches(stage: LookupStage) -> list[Branch]:
    return [branch for group in stage.group_names for _, branch in stage.branches(group)]


@dataclass(frozen=True)
class _Look:
    """One lookup: which table, which rotation, and the plane and offset of every axis."""

    term: int
    rotation: int
    group: int
    taps: tuple[tuple[int, int, int], ...]


def _run_stage(
    stage: LookupStage, registers: dict[str, Tensor], how: Rounding, clip: bool, over: int
) -> Tensor:
    """The stage's register, divided by `over`: [batch, channels, rows, columns]."""
    branches = _branches(stage)
    planes = _Planes(registers, stage.cell, max((_reach(b, stage.cell) for b in branches), default=0))
    looks: list[_Look] = []
    groups = [g for g, group in enumerate(stage.group_names) for _ in stage.branches(group)]
    for number, (branch, group) in enumerate(zip(branches, groups)):
        for r in branch.rotations:
            taps = planes.pixels(branch, r) if _reads_pixels(branch) else planes.sampled(branch, r)
            looks.append(_Look(number, r, group, taps))
    values = torch.cat([part.to(torch.float32) for part in planes.stack], dim=1)
    job = _Job(stage, looks, planes.border, how, clip, over)
    parameters = [p for b in branches for p in (b.unit.table, b.unit.coarse) if p is not None]
    return cast(Tensor, _Stage.apply(job, values, *parameters))


def _reads_pixels(branch: Branch) -> bool:
    """Whether the axes of its table are pixels as they are."""
    return isinstance(branch.sample, Taps) and branch.residual is None and branch.sample.value_bits == 0


def _reach(branch: Branch, cell: int) -> int:
    if not _reads_pixels(branch):
        return 0
    turned = (v for o in branch.sample.offsets for r in range(4) for v in turn(o, r, cell))
    return max(abs(v // cell) for v in turned)


class _Planes:
    """The planes that the lookups of a stage read, collected branch by branch in `stack`."""

    def __init__(self, registers: dict[str, Tensor], cell: int, border: int) -> None:
        self.registers, self.cell, self.border = registers, cell, border
        self.stack: list[Tensor] = []
        self._places: dict[tuple[Plane, Padding], int] = {}

    def _add(self, planes: Tensor) -> int:
        start = sum(part.shape[1] for part in self.stack)
        self.stack.append(planes)
        return start

    def pixels(self, branch: Branch, r: int) -> tuple[tuple[int, int, int], ...]:
        """Pixels read where they lie: the planes of a register with a border, one per position in a cell."""
        cell, taps = self.cell, []
        for k, offset in enumerate(branch.sample.offsets):
            plane = branch.planes[0] if len(branch.planes) == 1 else branch.planes[k]
            key = (plane, branch.padding)
            if key not in self._places:
                pixels = self.registers[plane.register][:, plane.channel : plane.channel + 1]
                wide = _padded(pixels, self.border * cell, branch.padding)
                self._places[key] = self._add(F.pixel_unshuffle(wide, cell))
            dy, dx = turn(offset, r, cell)
            taps.append((self._places[key] + dy % cell * cell + dx % cell, dy // cell, dx // cell))
        return tuple(taps)

    def sampled(self, branch: Branch, r: int) -> tuple[tuple[int, int, int], ...]:
        """Values that are computed first (learned samplers, residuals): a plane for every axis."""
        start = self._add(F.pad(branch.values(self.registers, r, self.cell), [self.border] * 4))
        return tuple((start + k, 0, 0) for k in range(branch.sample.axes))


def _padded(pixels: Tensor, border: int, padding: Padding) -> Tensor:
    h, w = pixels.shape[-2:]
    if border == 0:
        return pixels
    if padding == "edge" or (border < h and border < w):
        return F.pad(pixels, [border] * 4, mode="replicate" if padding == "edge" else "reflect")
    from twinnet.lut.nodes import outside

    rows = outside(torch.arange(-border, h + border), h, padding)
    columns = outside(torch.arange(-border, w + border), w, padding)
    return pixels.index_select(-2, rows).index_select(-1, columns)


class _Job:
    """A stage described for the native passes."""

    def __init__(
        self, stage: LookupStage, looks: Sequence[_Look], border: int, how: Rounding, clip: bool, over: int
    ) -> None:
        branches, common = _branches(stage), LutNet.denominator(stage)
        self.stage, self.border = stage, border
        self.exact, self.common, self.clip, self.over = how == "C", common, clip, over
        self.rounding = {"C": 0, "A": 1, "B": 2}[how]
        outputs = stage.channels * stage.upscale**2
        self.terms = (native.Term * len(branches))()
        self.keep: list[Any] = []
        start = 0
        for term, branch in zip(self.terms, branches):
            unit = branch.unit
            assert unit.table is not None
            term.axes, term.nodes = unit.axes, unit.grid.nodes
            term.units = unit.grid.step << branch.sample.value_bits
            term.near, term.width, term.thin = unit.near, unit.width, unit.thin
            term.denominator = unit.denominator(branch.sample.value_bits)
            term.weight = common // term.denominator if how == "C" else 1
            term.start = start
            start += unit.table.numel()
            if unit.near:
                assert unit.coarse is not None
                start += unit.coarse.numel()
                term.band_rows = len(unit.table)
                dense = _band_map(unit)
                self.keep.append(dense)
                term.map = dense.ctypes.data_as(ctypes.POINTER(ctypes.c_int32))
        self.size = start
        self.lookups = (native.Lookup * len(looks))()
        for lookup, look in zip(self.lookups, looks):
            lookup.term, lookup.rotation, lookup.group = look.term, look.rotation, look.group
            for k, (plane, dy, dx) in enumerate(look.taps):
                lookup.plane[k], lookup.dy[k], lookup.dx[k] = plane, dy, dx
        assert all(branch.unit.outputs == outputs for branch in branches)

    def entries(self, parameters: Sequence[Tensor]) -> Tensor:
        """All entries as whole numbers in -127..127, one after the other."""
        # One buffer per stage for good: a fresh one each time costs more than filling it. Parameters that change
        # before the backward pass are refused by autograd, so it never holds other entries than that pass expects.
        flat = getattr(self.stage, "_entries", None)
        if flat is None or flat.numel() != self.size:
            flat = torch.empty(self.size)
            object.__setattr__(self.stage, "_entries", flat)
        start = 0
        for parameter in parameters:
            plain = parameter.detach().to(torch.float32).contiguous()
            native.library().twf_entries(_floats(plain), plain.numel(), _floats(flat, start))
            start += plain.numel()
        return flat

    def problem(
        self, values: Tensor, out: Tensor | None, out_grad: Tensor | None, plane_grad: Tensor | None
    ) -> native.Problem:
        """The call, for planes [batch, planes, rows + 2 border, columns + 2 border]."""
        batch, _, h, w = values.shape
        images = (native.Image * batch)()
        shift = 4 * self.border * (w + 1)
        floats = ctypes.POINTER(ctypes.c_float)
        for k, image in enumerate(images):
            image.planes = values[k].data_ptr() + shift
            image.plane_stride, image.row_stride = h * w, w
            image.rows, image.columns = h - 2 * self.border, w - 2 * self.border
            if out is not None:
                image.out = ctypes.cast(out[k].data_ptr(), floats)
            if out_grad is not None:
                image.out_grad = ctypes.cast(out_grad[k].data_ptr(), floats)
            if plane_grad is not None:
                image.plane_grad = ctypes.cast(plane_grad[k].data_ptr() + shift, floats)
        self._images = images
        return native.Problem(
            self.terms, self.lookups, images, len(self.terms), len(self.lookups), batch, self.size,
            self.stage.channels, self.stage.upscale, 1, torch.get_num_threads(),
        )  # fmt: skip


def _band_map(unit: Unit) -> np.ndarray:
    """Dense cell to band row, 0 where there is none; kept with the Unit, whose band never changes."""
    assert unit.index is not None
    kept = getattr(unit, "_band_map", None)
    if kept is None or kept[0] is not unit.index:
        nodes, diameter = unit.grid.nodes, 2 * unit.width + 1
        cells = np.indices((nodes,) * unit.axes).reshape(unit.axes, -1)
        away = (cells[1 : unit.near + 1] - cells[:1]) % diameter
        row = unit.index.cpu().numpy()[(cells[0], *away)].astype(np.int64)
        near = (np.abs(cells[1 : unit.near + 1] - cells[:1]) <= unit.width).all(0) & (row >= 0)
        for k in range(unit.near + 1, unit.axes):
            row = row * nodes + cells[k]
        kept = (unit.index, np.ascontiguousarray(np.where(near, row, 0).astype(np.int32)))
        unit._band_map = kept  # type: ignore[assignment]
    return kept[1]


def _call(status: int) -> None:
    if status < 0:
        raise EngineError(f"fine-tuning: {native.library().twf_error().decode()}", stage="run")


def _requantise(x: Tensor, requant: Requant, clip: bool) -> tuple[float, Tensor | None]:
    """`requantise` in place; its derivative, a factor, and where it is not zero."""
    factor, inside = 1.0, None
    for step in requant.steps:
        match step:
            case ("div", c):
                x.div_(c)
                factor /= c
            case ("mul", c):
                x.mul_(c)
                factor *= c
            case ("add", c):
                x.add_(c)
            case ("clip", lo, hi):
                if clip:
                    within = (x >= lo) & (x <= hi)
                    inside = within if inside is None else inside & within
                    x.clamp_(lo, hi)
            case ("round",):
                x.round_()
            case _:
                raise UsageError(f"requantisation {requant.name!r}: unknown step {step!r}")
    return factor, inside


class _Stage(torch.autograd.Function):
    """All lookups of a stage, added up and requantised."""

    @staticmethod
    def forward(ctx: Any, job: _Job, values: Tensor, *parameters: Tensor) -> Tensor:  # type: ignore[override]
        values = values.contiguous()
        n, border = job.stage.upscale, job.border
        rows, columns = (side - 2 * border for side in values.shape[-2:])
        out = torch.empty(len(values), job.stage.channels, rows * n, columns * n)
        entries = job.entries(parameters)
        problem = job.problem(values, out, None, None)
        _call(native.library().twf_forward(ctypes.byref(problem), None, _floats(entries), job.rounding))
        factor = 1 / job.over
        if job.exact:
            out = out.to(torch.float64).div_(job.common)
            factor /= job.common
        slope, ctx.inside = _requantise(out, job.stage.requant, job.clip)
        if job.over != 1:
            out.div_(job.over)
        ctx.job, ctx.factor = job, factor * slope
        ctx.save_for_backward(values, entries, *parameters)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        values, entries, *parameters = ctx.saved_tensors
        job: _Job = ctx.job
        out_grad = grads[0].to(torch.float32)
        out_grad = (out_grad if ctx.inside is None else out_grad * ctx.inside).contiguous()
        plane_grad = torch.zeros_like(values) if ctx.needs_input_grad[1] else None
        gradient = torch.zeros(job.size) if any(ctx.needs_input_grad[2:]) else None
        problem = job.problem(values, None, out_grad, plane_grad)
        _call(
            native.library().twf_backward(
                ctypes.byref(problem), None, _floats(entries), int(job.rounding != 0), ctx.factor,
                None if gradient is None else _floats(gradient),
            )
        )  # fmt: skip
        found: list[Tensor | None] = []
        start = 0
        for parameter, needed in zip(parameters, ctx.needs_input_grad[2:]):
            part = None
            if gradient is not None and needed:
                plain = parameter.detach().to(torch.float32).contiguous()
                native.library().twf_entries_grad(_floats(plain), plain.numel(), _floats(gradient, start))
                part = gradient[start : start + plain.numel()].reshape(parameter.shape).to(parameter.dtype)
            start += parameter.numel()
            found.append(part)
        return None, plane_grad, *found


def _floats(tensor: Tensor, start: int = 0) -> Any:
    return ctypes.cast(tensor.data_ptr() + 4 * start, ctypes.POINTER(ctypes.c_float))
