"""The nodes a LUT network is made of: samplers, the adaptive residual, branches and stages.

Each node has one meaning in two modes. In network mode values are floats in [0, 1]; in table mode they are
the fixed point numbers of `twinnet.lut.plan`, carried in floats that hold them exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from twinnet.errors import UsageError
from twinnet.lut.fixed import GAIN_BITS, WEIGHT_BITS, fixed_gains, fixed_weights, window_offsets
from twinnet.lut.patterns import Offsets, pattern
from twinnet.lut.plan import INPUT, Padding, Plane, Requant, turn
from twinnet.lut.unit import Unit

__all__ = ["AdaRL", "AutoSample", "Branch", "LookupStage", "Taps", "gather", "outside", "place"]


def outside(coordinate: Tensor, n: int, padding: Padding) -> Tensor:
    if padding == "edge":
        return coordinate.clamp(0, n - 1)
    if n == 1:
        return torch.zeros_like(coordinate)
    folded = coordinate.remainder(2 * (n - 1))
    return torch.where(folded < n, folded, 2 * (n - 1) - folded)


def gather(planes: Sequence[Tensor], offsets: Offsets, r: int, cell: int, padding: Padding) -> Tensor:
    """Pixels of every offset at every site, turned by `r` quarter turns: [batch, offset, site row, site
    column].

    `planes` has one [batch, rows, columns] per offset, or a single one for all.
    """
    taps = []
    for p, offset in enumerate(offsets):
        plane = planes[0] if len(planes) == 1 else planes[p]
        h, w = plane.shape[-2:]
        ty, tx = turn(offset, r, cell)
        rows = outside(torch.arange(0, h, cell, device=plane.device) + ty, h, padding)
        columns = outside(torch.arange(0, w, cell, device=plane.device) + tx, w, padding)
        taps.append(plane.index_select(-2, rows).index_select(-1, columns))
    return torch.stack(taps, dim=1)


def place(payload: Tensor, channels: int, upscale: int, r: int) -> Tensor:
    """Pixel shuffle of [batch, payload, rows, columns] with every block turned back by `r` quarter turns."""
    n = upscale
    batch, _, h, w = payload.shape
    blocks = payload.reshape(batch, channels, n, n, h, w)
    # Turning the block by r clockwise puts payload (u, v) where rotation r of the image would have put it.
    blocks = torch.rot90(blocks, -r, (2, 3))
    return blocks.permute(0, 1, 4, 2, 5, 3).reshape(batch, channels, h * n, w * n)


def _half_up(x: Tensor) -> Tensor:
    """Round half up, the gradient passing straight through."""
    return x + (torch.floor(x + 0.5) - x).detach()


class Taps(nn.Module):
    """Fixed taps: the pixels themselves."""

    def __init__(self, offsets: str | Offsets) -> None:
        super().__init__()
        self.offsets = pattern(offsets)
        self.axes = len(self.offsets)
        self.value_bits = 0

    def forward(self, pixels: Tensor) -> Tensor:
        """Network mode: [batch, offset, ...] to [batch, axis, ...]."""
        return pixels

    def fixed(self, pixels: Tensor) -> Tensor:
        """Table mode: fixed point with `value_bits` fraction bits."""
        return pixels * (1 << self.value_bits)

    def extra_repr(self) -> str:
        return str(self.offsets)


class AutoSample(nn.Module):
    """Learned taps: each axis is a convex combination of a `window` x `window` patch.

    In table mode the weights are fixed point (`WEIGHT_BITS`), adding up to exactly one, and the values keep
    `value_bits` fraction bits.

    >>> sampler = AutoSample(window=3)
    >>> sampler.fixed_weights().sum(1).tolist()
    [16384, 16384, 16384, 16384]
    """

    def __init__(self, window: int = 3, axes: int = 4, value_bits: int = 8) -> None:
        super().__init__()
        if window < 1:
            raise UsageError(f"an AutoSample window must be at least 1, not {window}")
        self.window, self.axes, self.value_bits = window, axes, value_bits
        self.offsets: Offsets = window_offsets(window)
        self.logits = nn.Parameter(torch.empty(axes, window * window))
        nn.init.kaiming_uniform_(self.logits, a=5**0.5)

    def weights(self) -> Tensor:
        """Softmax weights [axes, window * window]."""
        return torch.softmax(self.logits, dim=1)

    def fixed_weights(self) -> np.ndarray:
        """Integer weights over 2^WEIGHT_BITS."""
        return fixed_weights(self.logits.detach().cpu().numpy())

    def forward(self, pixels: Tensor) -> Tensor:
        """Network mode: [batch, offset, ...] to [batch, axis, ...]."""
        return torch.einsum("kp,bp...->bk...", self.weights(), pixels)

    def fixed(self, pixels: Tensor) -> Tensor:
        """Table mode: fixed point with `value_bits` fraction bits; gradients reach the logits."""
        integer = torch.from_numpy(self.fixed_weights()).to(pixels) / (1 << WEIGHT_BITS)
        exact = torch.einsum("kp,bp...->bk...", integer, pixels)
        if torch.is_grad_enabled() and self.logits.requires_grad:
            soft = torch.einsum("kp,bp...->bk...", self.weights().to(pixels.dtype), pixels.detach())
            exact = exact + (soft - soft.detach())
        return _half_up(exact * (1 << self.value_bits))


class AdaRL(nn.Module):
    """Adaptive residual: each axis mixes the sample with the same sample of earlier planes.

    The weights live in [0, 1]: used clamped, and put back there by `project` before every training step.
    """

    def __init__(self, planes: Sequence[Plane], axes: int = 4) -> None:
        super().__init__()
        self.planes = tuple(planes)
        self.weight = nn.Parameter(torch.zeros(axes))

    def project(self) -> None:
        """Put the weights back into [0, 1]."""
        with torch.no_grad():
            self.weight.clamp_(0, 1)

    def forward(self, values: Tensor, previous: Tensor) -> Tensor:
        """Network mode."""
        inside = self.weight + (self.weight.clamp(0, 1) - self.weight).detach()
        w = inside.reshape(-1, *[1] * (values.ndim - 2))
        return w * previous + (1 - w) * values

    def fixed_gains(self) -> np.ndarray:
        """Integer gains over 2^GAIN_BITS."""
        return fixed_gains(self.weight.detach().cpu().numpy())

    def fixed(self, values: Tensor, previous: Tensor) -> Tensor:
        """Table mode, on fixed-point values."""
        shape = (-1, *[1] * (values.ndim - 2))
        w = (torch.from_numpy(self.fixed_gains()).to(values) / (1 << GAIN_BITS)).reshape(shape)
        exact = w * previous + (1 - w) * values
        if torch.is_grad_enabled() and self.weight.requires_grad:
            soft = self.weight.to(values.dtype).reshape(shape) * (previous - values).detach()
            exact = exact + (soft - soft.detach())
        return _half_up(exact)


class Branch(nn.Module):
    """One Unit with its sampler: what becomes one table looked up in some rotations."""

    def __init__(
        self,
        sample: Taps | AutoSample,
        unit: Unit,
        planes: Sequence[Plane] = (Plane(INPUT),),
        padding: Padding = "edge",
        rotations: Sequence[int] = (0, 1, 2, 3),
        residual: AdaRL | None = None,
    ) -> None:
        super().__init__()
        if sample.axes != unit.axes:
            raise UsageError(f"the sampler gives {sample.axes} values, the Unit takes {unit.axes}")
        self.sample, self.unit, self.residual = sample, unit, residual
        self.planes = tuple(planes)
        self.previous = residual.planes if residual is not None else ()
        self.padding: Padding = padding
        self.rotations = tuple(rotations)

    def pixels(self, registers: dict[str, Tensor], planes: Sequence[Plane], r: int, cell: int) -> Tensor:
        """Pixels of all offsets, from the named planes."""
        chosen = [registers[p.register][:, p.channel] for p in planes]
        return gather(chosen, self.sample.offsets, r, cell, self.padding)

    def network(self, registers: dict[str, Tensor], r: int, cell: int) -> Tensor:
        """The Unit's own output in [-1, 1]: [batch, payload, site row, site column]."""
        values = self.sample(self.pixels(registers, self.planes, r, cell))
        if self.residual is not None:
            values = self.residual(values, self.sample(self.pixels(registers, self.previous, r, cell)))
        return self.unit(values.movedim(1, -1)).movedim(-1, 1)

    def table(self, registers: dict[str, Tensor], r: int, cell: int) -> Tensor:
        """Exact numerators over `denominator`: [batch, payload, site row, site column]."""
        values = self.values(registers, r, cell).movedim(1, -1)
        return self.unit.numerators(values, self.sample.value_bits).movedim(-1, 1)

    def values(self, registers: dict[str, Tensor], r: int, cell: int) -> Tensor:
        """Fixed-point values of the table's axes: [batch, axis, site row, site column]."""
        values = self.sample.fixed(self.pixels(registers, self.planes, r, cell))
        if self.residual is None:
            return values
        other = self.sample.fixed(self.pixels(registers, self.previous, r, cell))
        return self.residual.fixed(values, other)

    @property
    def denominator(self) -> int:
        """Of the numerators of `table`."""
        return self.unit.denominator(self.sample.value_bits)


class LookupStage(nn.Module):
    """Branches, in groups, added up and requantised once: one register of 8-bit planes.

    `groups` maps a group name (`in_c0`) to its branches; `""` puts branches directly below the stage.
    """

    def __init__(
        self,
        groups: Mapping[str, Sequence[Branch]],
        requant: Requant,
        channels: int = 1,
        upscale: int = 1,
        cell: int = 1,
    ) -> None:
        super().__init__()
        self.group_names = tuple(groups)
        for name, branches in groups.items():
            home = self if not name else nn.Module()
            for k, branch in enumerate(branches):
                home.add_module(f"b{k}", branch)
            if name:
                self.add_module(name, home)
        self.requant, self.channels, self.upscale, self.cell = requant, channels, upscale, cell

    def branches(self, group: str) -> list[tuple[str, Branch]]:
        """Branches of a group with their names below the stage."""
        home = self.get_submodule(group) if group else self
        prefix = f"{group}." if group else ""
        return [(prefix + k, b) for k, b in home.named_children() if isinstance(b, Branch)]
