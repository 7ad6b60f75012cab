"""Small networks whose faults are easy to overlook."""

from __future__ import annotations

import torch
from torch import nn

__all__ = [
    "Bounded",
    "Branches",
    "Classes",
    "Classifier",
    "Clipped",
    "Features",
    "Head",
    "Lookup",
    "Two",
    "picture",
]


def picture(seed: int, *shape: int) -> torch.Tensor:
    """Numbers in [0,1], the same for one seed."""
    return torch.rand(*(shape or (1, 3, 12, 12)), generator=torch.Generator().manual_seed(seed))


class Head(nn.Module):
    """A detector's head: boxes of up to 1280 beside scores of up to 1, in one output."""

    def __init__(self, depth: int = 2) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.body = nn.Sequential(
            *(layer for _ in range(depth) for layer in (nn.Conv2d(8, 8, 3, padding=1), nn.SiLU()))
        )
        self.box = nn.Conv2d(8, 4, 1)
        self.score = nn.Conv2d(8, 3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.body(self.stem(x))
        boxes, scores = self.box(x).sigmoid() * 1280, (8 * self.score(x)).sigmoid()
        return torch.cat([boxes.flatten(2), scores.flatten(2)], 1).transpose(1, 2)


class Classifier(nn.Module):
    """Convolutions, pooling, logits; with `soft`, probabilities."""

    def __init__(self, classes: int = 20, soft: bool = False) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.ReLU()
        )
        self.last = nn.Linear(16, classes)
        self.soft = soft

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits = 6 * self.last(self.body(x).mean((2, 3)))
        return logits.softmax(1) if self.soft else logits


class Classes(nn.Module):
    """Indices, and an operator that has no canonical layer where `unknown`."""

    def __init__(self, unknown: bool = True, floats: bool = False) -> None:
        super().__init__()
        self.unknown, self.floats = unknown, floats

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = (torch.special.bessel_j0(x) if self.unknown else x * 1.5).argmax(1)
        return found.float() if self.floats else found


class Clipped(nn.Module):
    """A bound on the input that no picture in [0,1] reaches."""

    def __init__(self, bound: str = "clip", lost: bool = False) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.bound, self.lost = bound, lost

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.lost:
            x = {"clip": lambda: x.clamp(0, 1), "relu": x.relu, "abs": x.abs}[self.bound]()
        return self.conv(x)


class Bounded(nn.Module):
    """Two layers; a bound before, between or behind them, which usual data stays far from."""

    def __init__(self, at: int | None = None) -> None:
        super().__init__()
        self.layers, self.at = nn.ModuleList([nn.Conv2d(3, 8, 3), nn.Conv2d(8, 4, 3)]), at

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number, layer in enumerate(self.layers):
            x = layer(x.clamp(-6, 6) if self.at == number else x)
        return x.clamp(-6, 6) if self.at == len(self.layers) else x


class Features(nn.Module):
    """Features behind a ReLU6, half of which this data leaves at 0."""

    def __init__(self, shift: float = 0.0) -> None:
        super().__init__()
        self.body = nn.Sequential(*(nn.Conv2d(3, 3, 3, padding=1) for _ in range(8)))
        self.act, self.shift = nn.ReLU6(), shift

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        return torch.cat([self.act(y), torch.relu(y - 1e3) * (1 + self.shift)], 1)


class Branches(nn.Module):
    """A choice that usual data always makes the same way."""

    def __init__(self, other: float = 2.0) -> None:
        super().__init__()
        self.conv, self.other = nn.Conv2d(3, 4, 3), other

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.where(x.mean() > -0.25, self.conv(x), self.conv(x) * self.other)


class Lookup(nn.Module):
    """An embedding of many rows, a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.last = nn.Embedding(5000, 16), nn.Linear(16, 8)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.last(self.table(ids))


class Two(nn.Module):
    """Two outputs of one shape."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 4, 3), nn.Conv2d(3, 4, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.a(x).tanh(), self.b(x).tanh()
