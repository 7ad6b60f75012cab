"""Networks with a fault of their own at one stage."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["OtherWhenExported", "WithOwnOperator", "plain"]


def plain() -> tuple[nn.Module, Tensor]:
    """A small network without any fault, and an input."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 3), nn.Tanh()).eval()
    return net, torch.randn(1, 3, 12, 12)


class _Gate(nn.Module):
    """Takes a cheap way when it is exported: the mistake is in the module, not in any exporter."""

    def forward(self, x: Tensor) -> Tensor:
        return F.hardswish(x) if torch.compiler.is_exporting() else F.silu(x)


class OtherWhenExported(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(8, 16)
        self.gate = _Gate()
        self.last = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.gate(self.first(x)))


_library = torch.library.Library("twinnet_test_stages", "DEF")
_library.define("smooth(Tensor x) -> Tensor")
# The kernel that runs, and what it is said to decompose into, are not the same function.
_library.impl("smooth", lambda x: F.gelu(x, approximate="none"), "CPU")
_library.impl("smooth", lambda x: F.gelu(x, approximate="tanh"), "CompositeImplicitAutograd")


class WithOwnOperator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(8, 16)
        self.last = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.ops.twinnet_test_stages.smooth(self.first(x)))
