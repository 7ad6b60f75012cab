"""One step of training: losses, the learning rate, and what computes a network of tables. The only place that
chooses the kernel of fine-tuning."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from twinnet.errors import EngineError
from twinnet.lut.net import LutNet

__all__ = ["LOSSES", "NATIVE", "TableStep", "learning_rate"]

LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mse": nn.functional.mse_loss,
    "l1": nn.functional.l1_loss,
    "charbonnier": lambda a, b: torch.sqrt((a - b) ** 2 + 1e-6).mean(),
}
"""By name; images in [0, 1]."""

NATIVE = "twinnet.restore.native.step:forward"
"""The fused forward pass of a network of tables with its gradients: `forward(net, images) -> images`."""


def learning_rate(schedule: str, start: float, end: float, iteration: int, iterations: int) -> float:
    """The learning rate of step `iteration` (from 0) of `iterations`.

    >>> [round(learning_rate("cosine", 1e-3, 1e-4, t, 100), 6) for t in (0, 50, 100)]
    [0.001, 0.00055, 0.0001]
    """
    if schedule == "constant":
        return start
    return end + (start - end) * (1 + math.cos(math.pi * iteration / iterations)) / 2


class TableStep(nn.Module):
    """A network of tables with the kernel that computes it: `torch`, `native`, or `auto`."""

    def __init__(self, net: LutNet, kernel: str = "auto") -> None:
        super().__init__()
        self.net = net
        self._native = None if kernel == "torch" else _native(required=kernel == "native")
        self.kernel = "torch" if self._native is None else "native"

    def forward(self, images: Tensor) -> Tensor:
        """Images in [0, 1] to images in [0, 1], differentiable in tables, samplers and residuals."""
        return self.net(images) if self._native is None else self._native(self.net, images)


def _native(*, required: bool) -> Callable[[LutNet, Tensor], Tensor] | None:
    module, _, name = NATIVE.partition(":")
    try:
        from twinnet.restore.native import library

        library()  # says so if the native passes were not built
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, EngineError) as error:
        if required:
            raise EngineError(
                f"the native kernels of fine-tuning are not there: {error}", hint='use kernel = "auto"'
            ) from error
        return None
