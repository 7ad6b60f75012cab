"""Networks for the stages, some with a fault of their own at one of them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["LooksAtTheData", "OtherWhenExported", "plain", "plain_input"]


def plain() -> nn.Module:
    """A small network without any fault."""
    torch.manual_seed(0)
    layers = (
        nn.Conv2d(3, 8, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3),
        nn.Hardswish(),
        nn.Conv2d(8, 4, 1),
    )
    return nn.Sequential(*layers).eval()


def plain_input() -> Tensor:
    """An input of it."""
    return torch.randn(1, 3, 12, 12, generator=torch.Generator().manual_seed(1))


class _Gate(nn.Module):
    """Takes a cheap way when it is exported: the mistake is in the module, not in any exporter."""

    def forward(self, x: Tensor) -> Tensor:
        return F.hardswish(x) if torch.compiler.is_exporting() else F.silu(x)


class OtherWhenExported(nn.Module):
    """One part of it is another function once it is exported."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Conv2d(3, 8, 3)
        self.gate = _Gate()
        self.last = nn.Conv2d(8, 4, 1)
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.gate(self.first(x)))


class LooksAtTheData(nn.Module):
    """Takes one of two ways by the values it meets, which no exporter can follow."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.only = nn.Conv2d(3, 4, 3)
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        return self.only(x) if float(x.max()) > 0 else self.only(-x)
