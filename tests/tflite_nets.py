"""Small networks as TFLite files, converted once for all tests of a worker."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from twinnet.engines._litert_make import converted
from twinnet.job import Job
from twinnet.network import load_network
from twinnet.tflite.network import TfliteNetwork

__all__ = ["Gate", "Small", "small", "small_tflite"]


class Gate(nn.Module):
    """Squeeze and excite."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.fc1 = nn.Conv2d(channels, channels // 2, 1)
        self.fc2 = nn.Conv2d(channels // 2, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = nn.functional.silu(self.fc1(x.mean((2, 3), keepdim=True)))
        return x * torch.sigmoid(self.fc2(y))


class Small(nn.Module):
    """Most of what converters treat in their own way: folded norms, gates, borders, layouts, a flattened image."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU6())
        self.depthwise = nn.Conv2d(8, 8, 3, 1, 1, groups=8)
        self.norm = nn.BatchNorm2d(8)
        self.gate = Gate(8)
        self.up = nn.Upsample(scale_factor=2, mode="bilinear")
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(8 * 8 * 8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        y = self.gate(nn.functional.silu(self.norm(self.depthwise(x)))) + x
        y = self.pool(torch.cat([self.up(y), self.up(x)], 1))[:, :8]
        return torch.softmax(self.head(y.flatten(1)), -1)


def small() -> tuple[nn.Module, tuple[Tensor]]:
    """The network with weights that look trained, and an input."""
    torch.manual_seed(0)
    net = Small().eval()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean, -0.5, 0.5)
            nn.init.uniform_(module.running_var, 0.5, 2)
            nn.init.uniform_(module.weight, 0.5, 2)
            nn.init.uniform_(module.bias, -0.5, 0.5)
    with torch.no_grad():
        net.head.weight *= 8
    return net, (6 * torch.randn(1, 3, 16, 16),)


@cache
def small_tflite() -> TfliteNetwork:
    """The network as litert-torch converts it."""
    net, (x,) = small()
    return converted(load_network((net, (x,))), _job(x))


def _job(x: Any) -> Job:
    return Job({"x": np.asarray(x)})
