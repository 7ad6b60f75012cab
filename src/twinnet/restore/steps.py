"""One step of training: losses, the learning rate, and what computes a network of tables.

The kernel of fine-tuning is chosen here."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from twinnet.errors import EngineError
from twinnet.lut.net import LutNet
from twinnet.restore.native.step import can_fuse
from twinnet.restore.native.step import forward as fused_forward

__all__ = ["LOSSES", "TableStep", "learning_rate"]

LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mse": nn.functional.mse_loss,
    "l1": nn.functional.l1_loss,
    "charbonnier": lambda a, b: torch.sqrt((a - b) ** 2 + 1e-6).mean(),
}
"""By name; images in [0, 1]."""


def learning_rate(schedule: str, start: float, end: float, iteration: int, iterations: int) -> float:
    """The learning rate of step `iteration` (from 0) of `iterations`.

    >>> [round(learning_rate("cosine", 1e-3, 1e-4, t, 100), 6) for t in (0, 50, 100)]
    [0.001, 0.00055, 0.0001]
    """
    if schedule == "constant":
        return start
    return end + (start - end) * (1 + math.cos(math.pi * iteration / iterations)) / 2


class TableStep(nn.Module):
    """A network of tables with the kernel that computes it: `torch`, `native` (one pass per stage), or `auto`."""

    def __init__(self, net: LutNet, kernel: str = "auto") -> None:
        super().__init__()
        self.net = net
        reason = can_fuse(net)
        if kernel == "native" and reason:
            raise EngineError(
                f"the native kernels cannot run this network: {reason}", hint='use kernel = "auto"'
            )
        self.kernel = "torch" if kernel == "torch" or reason else "native"

    def forward(self, images: Tensor) -> Tensor:
        """Images in [0, 1] to images in [0, 1], differentiable in tables, samplers and residuals."""
        native = self.kernel == "native" and images.device.type == "cpu"
        return fused_forward(self.net, images) if native else self.net(images)
