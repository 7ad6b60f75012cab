"""`LutNet`: a network of lookup stages, defined once, run as a network or as its tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from twinnet.errors import UsageError
from twinnet.lut.nodes import AdaRL, LookupStage, place
from twinnet.lut.plan import INPUT, Plane
from twinnet.lut.rounding import ROUNDINGS, Rounding, requantise, rounding, ste_round

__all__ = ["LutNet", "NetSite", "Record"]

Record = Callable[[str, Tensor], Tensor | None]
"""Called with the name and the tensor of each site during a run; return a tensor to replace it.

Inputs of groups (`.input.x`, `.input.prev_x`) cannot be replaced: replace the output of the stage that writes them.
"""


@dataclass(frozen=True)
class NetSite:
    """One place where a tensor can be observed: `recorded * scale` is in pixel units (0..255)."""

    name: str
    kind: str
    scale: float
    rounding: Rounding
    """Semantics of the sums here: A, B or C."""


class LutNet(nn.Module):
    """Lookup stages in order. Every stage reads planes of earlier ones and writes a register of its own name.

    `forward` takes [batch, colours, rows, columns] in [0, 1], runs every colour by itself and returns the
    same at `scale` times the size. It runs the Units' networks until `twinnet.lut.export` has given them
    tables, and the tables from then on. `rounding` names the semantics in force (see `twinnet.lut.rounding`).

    >>> from twinnet.restore.nets import mulut
    >>> net = mulut.build(patterns="sd", stages=2, scale=2, width=8)
    >>> net(torch.rand(1, 3, 5, 6)).shape
    torch.Size([1, 3, 10, 12])
    >>> [site.name for site in net.sites()][:3]
    ['stage1.in_c0.input.x', 'stage1.in_c0.b0.rot0.sr', 'stage1.in_c0.b0.rot0']
    """

    def __init__(
        self,
        stages: dict[str, LookupStage],
        *,
        name: str = "lut",
        task: str = "sr",
        network_rounding: Rounding = "A",
    ) -> None:
        super().__init__()
        if not stages:
            raise UsageError("a LUT network needs at least one stage")
        self.net_name, self.task = name, task
        self.stage_names = tuple(stages)
        self.network_rounding: Rounding = rounding(network_rounding)
        self.table_rounding: Rounding = "C"
        self._scales = {INPUT: 1}
        for stage_name, stage in stages.items():
            if stage_name in (INPUT, *self._scales) or hasattr(self, stage_name):
                raise UsageError(f"{stage_name!r} cannot name a stage: the name is taken")
            self.add_module(stage_name, stage)
            self._scales[stage_name] = self._check(stage_name, stage)

    def _check(self, name: str, stage: LookupStage) -> int:
        grids = set()
        for group in stage.group_names:
            for path, branch in stage.branches(group):
                for plane in (*branch.planes, *branch.previous):
                    if plane.register not in self._scales:
                        raise UsageError(
                            f"{name}.{path} reads {plane.register!r}, which no earlier stage writes"
                        )
                    grids.add(self._scales[plane.register])
                if branch.unit.outputs != stage.channels * stage.upscale**2:
                    raise UsageError(
                        f"{name}.{path}: the Unit has {branch.unit.outputs} outputs, but {stage.channels} "
                        f"channel(s) at x{stage.upscale} need {stage.channels * stage.upscale**2}"
                    )
        if len(grids) != 1 or next(iter(grids)) % stage.cell:
            raise UsageError(f"{name}: its planes have scales {sorted(grids)}, with cells of {stage.cell}")
        return grids.pop() // stage.cell * stage.upscale

    @property
    def scale(self) -> int:
        """Output pixels per input pixel along each axis."""
        return self._scales[self.stage_names[-1]]

    @property
    def mode(self) -> str:
        """`network`, `table`, or `mixed` when only some Units have tables."""
        modes = {b.unit.mode for _, s in self.stages() for g in s.group_names for _, b in s.branches(g)}
        return modes.pop() if len(modes) == 1 else "mixed"

    @property
    def rounding(self) -> Rounding:
        """The semantics in force in the present mode; assign a letter or a name to change it."""
        return self.network_rounding if self.mode == "network" else self.table_rounding

    @rounding.setter
    def rounding(self, name: str) -> None:
        if self.mode == "network":
            self.network_rounding = rounding(name)
        else:
            self.table_rounding = rounding(name)

    def stages(self) -> Iterator[tuple[str, LookupStage]]:
        """The stages in execution order."""
        for name in self.stage_names:
            stage = self.get_submodule(name)
            assert isinstance(stage, LookupStage)
            yield name, stage

    def forward(self, x: Tensor, record: Record | None = None) -> Tensor:
        """Images in [0, 1]; in training the last clip is left out, so that gradients pass."""
        if x.ndim != 4 or 0 in x.shape:
            raise UsageError(f"a LUT network takes [batch, colours, rows, columns], not {list(x.shape)}")
        batch, colours, h, w = x.shape
        planes = x.reshape(batch * colours, 1, h, w).clamp(0, 1)
        mode, how = self.mode, self.rounding
        if mode == "mixed":
            raise UsageError(
                "some Units of this network have tables and some do not", hint="export all of them"
            )
        as_table = mode == "table"
        if as_table:
            work = torch.float64 if how == "C" else torch.float32
            planes = ste_round(planes.to(work) * 255)
        if self.training:
            for module in self.modules():
                if isinstance(module, AdaRL):
                    module.project()
        registers = {INPUT: planes}
        for name in self.stage_names:
            clip = not self.training or name != self.stage_names[-1]
            registers[name] = self._stage(name, registers, as_table, how, record, clip)
        out = registers[self.stage_names[-1]]
        out = (out / 255).to(x.dtype) if as_table else out
        return out.reshape(batch, -1, *out.shape[-2:])

    def run_stage(self, name: str, registers: dict[str, Tensor], record: Record | None = None) -> Tensor:
        """One stage alone, on what earlier ones left in `registers`; what it writes, in the same units."""
        return self._stage(name, registers, self.mode == "table", self.rounding, record, clip=True)

    def _stage(
        self,
        name: str,
        registers: dict[str, Tensor],
        as_table: bool,
        how: Rounding,
        record: Record | None,
        clip: bool,
    ) -> Tensor:
        """The stage's register: pixel values 0..255 in table mode, else 0..1."""
        stage = self.get_submodule(name)
        assert isinstance(stage, LookupStage)
        exact = as_table and how == "C"
        common = self.denominator(stage) if exact else 1
        total: Tensor | None = None
        for group in stage.group_names:
            prefix = f"{name}.{group}" if group else name
            branches = stage.branches(group)
            if record is not None:
                record(f"{prefix}.input.x", _stack(branches[0][1].planes, registers))
                blended = [b for _, b in branches if b.previous]
                if blended:
                    record(f"{prefix}.input.prev_x", _stack(blended[0].previous, registers))
            part: Tensor | None = None
            for path, branch in branches:
                for r in branch.rotations:
                    if as_table:
                        raw = branch.table(registers, r, stage.cell)
                        raw = raw if exact else raw / branch.denominator
                    else:
                        raw = branch.network(registers, r, stage.cell)
                    raw = _note(record, f"{name}.{path}.rot{r}.sr", raw)
                    level = raw if as_table else raw * 127
                    if how == "A":
                        level = ste_round(level)
                    placed = place(level, stage.channels, stage.upscale, r)
                    placed = _note(record, f"{name}.{path}.rot{r}", placed)
                    if exact:
                        placed = placed * (common // branch.denominator)
                    part = placed if part is None else part + placed
                    if how == "B":
                        part = ste_round(part)
            assert part is not None
            if group:
                part = _note(record, prefix, part)
            total = part if total is None else total + part
        assert total is not None
        pixels = total / common if exact else total
        # Without any rounding (C as a network) the last image stays continuous, too: that is how SR-LUT
        # trains.
        pixels = requantise(pixels, stage.requant, clip=clip, round_=as_table or how != "C")
        return _note(record, name, pixels if as_table else pixels / 255)

    @staticmethod
    def denominator(stage: LookupStage) -> int:
        """Common denominator of the exact sums of a stage in table mode."""
        return math.lcm(*(b.denominator for g in stage.group_names for _, b in stage.branches(g)))

    def sites(self) -> list[NetSite]:
        """Every site in execution order, with what its numbers mean in the present mode and semantics."""
        as_table, how = self.mode == "table", self.rounding
        exact = as_table and how == "C"
        pixel = 1.0 if as_table else 255.0
        found = []
        for name, stage in self.stages():
            for group in stage.group_names:
                prefix = f"{name}.{group}" if group else name
                branches = stage.branches(group)
                found.append(NetSite(f"{prefix}.input.x", "input", pixel, how))
                if any(b.previous for _, b in branches):
                    found.append(NetSite(f"{prefix}.input.prev_x", "previous", pixel, how))
                for path, branch in branches:
                    level = 1 / branch.denominator if exact else 1.0
                    for r in branch.rotations:
                        raw = level if as_table else 127.0
                        found.append(NetSite(f"{name}.{path}.rot{r}.sr", "unit", raw, how))
                        found.append(NetSite(f"{name}.{path}.rot{r}", "rotation", level, how))
                if group:
                    found.append(NetSite(prefix, "group", 1 / self.denominator(stage) if exact else 1.0, how))
            found.append(NetSite(name, "stage", pixel, how))
        return found

    @torch.no_grad()
    def predict(self, image: np.ndarray, record: Record | None = None) -> np.ndarray:
        """8-bit image [rows, columns] or [rows, columns, colours] in, the same out, `scale` times larger.

        A network without any rounding of its own (SR-LUT) is rounded here.
        """
        array = np.asarray(image)
        if array.dtype != np.uint8 or array.ndim not in (2, 3) or array.size == 0:
            raise UsageError(f"predict takes a uint8 image, not {array.dtype}{list(array.shape)}")
        planes = array[None] if array.ndim == 2 else np.moveaxis(array, -1, 0)
        was_training = self.training
        self.eval()
        try:
            out = self(torch.from_numpy(np.ascontiguousarray(planes))[:, None].float() / 255, record)
        finally:
            self.train(was_training)
        pixels = torch.round(out.clamp(0, 1) * 255).to(torch.uint8)[:, 0].numpy()
        return pixels[0] if array.ndim == 2 else np.moveaxis(pixels, 0, -1)

    def extra_repr(self) -> str:
        how = self.rounding
        return (
            f"{self.net_name}, {self.task} x{self.scale}, {self.mode} mode, rounding {how} ({ROUNDINGS[how]})"
        )


def _note(record: Record | None, name: str, tensor: Tensor) -> Tensor:
    other = None if record is None else record(name, tensor)
    return tensor if other is None else other


def _stack(planes: Sequence[Plane], registers: dict[str, Tensor]) -> Tensor:
    return torch.stack([registers[p.register][:, p.channel] for p in dict.fromkeys(planes)], dim=1)
