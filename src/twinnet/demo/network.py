"""The network of the demo: a small image classifier of the kind that ships on phones.

Its weights are drawn from a fixed seed and scaled so that activations look like those of a trained network; nothing
is downloaded.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["build"]


class Block(nn.Module):
    """Expand, filter each channel, weigh the channels, project; with a shortcut where shapes allow."""

    def __init__(self, channels: int, out: int, stride: int, kernel: int) -> None:
        super().__init__()
        wide = 4 * channels
        self.expand = nn.Sequential(nn.Conv2d(channels, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.SiLU())
        self.depthwise = nn.Sequential(
            nn.Conv2d(wide, wide, kernel, stride, kernel // 2, groups=wide, bias=False),
            nn.BatchNorm2d(wide),
            nn.SiLU(),
        )
        self.squeeze = nn.Sequential(
            nn.Conv2d(wide, channels, 1), nn.SiLU(), nn.Conv2d(channels, wide, 1), nn.Sigmoid()
        )
        self.project = nn.Sequential(nn.Conv2d(wide, out, 1, bias=False), nn.BatchNorm2d(out))
        self.shortcut = stride == 1 and channels == out

    def forward(self, x: Tensor) -> Tensor:
        y = self.depthwise(self.expand(x))
        y = self.project(y * self.squeeze(y.mean((2, 3), keepdim=True)))
        return x + y if self.shortcut else y


class Classifier(nn.Module):
    """Stem, six blocks, pooled features, ten classes."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.SiLU())
        self.blocks = nn.Sequential(
            Block(16, 16, 1, 3),
            Block(16, 24, 2, 3),
            Block(24, 24, 1, 5),
            Block(24, 40, 2, 5),
            Block(40, 40, 1, 3),
            Block(40, 64, 2, 3),
        )
        self.head = nn.Linear(64, 10)

    def forward(self, image: Tensor) -> Tensor:
        features = self.blocks(self.stem(image * 2 - 1))
        return self.head(features.mean((2, 3))).softmax(-1)


def build() -> tuple[nn.Module, tuple[Tensor]]:
    """The classifier and an example input."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        net = Classifier()
        for module in net.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            if isinstance(module, nn.BatchNorm2d):
                # Statistics of their own, as training leaves them; defaults would make batch norm a copy.
                assert module.running_mean is not None and module.running_var is not None
                module.running_mean.normal_(0, 0.1)
                module.running_var.uniform_(0.5, 1.5)
                nn.init.uniform_(module.weight, 0.8, 1.6)
                nn.init.normal_(module.bias, 0, 0.2)
        nn.init.normal_(net.head.weight, 0, 0.05)
    return net.eval(), (torch.zeros(1, 3, 96, 96),)
