"""Networks with a layer that is dearer than the others."""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["SHAPE", "Steps", "steps"]

SHAPE = (1, 16, 48, 48)


class Steps(nn.Module):
    """Pairs of convolutions with an activation; `wide` says how many channels each has inside."""

    def __init__(self, wide: dict[int, int], count: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(16, wide.get(i, 16), 3, padding=1), nn.ReLU(), nn.Conv2d(wide.get(i, 16), 16, 1)
            )
            for i in range(count)
        )

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            image = block(image)
        return image


def steps(wide: dict[int, int] | None = None, count: int = 6) -> tuple[Steps, torch.Tensor]:
    """The network and an input."""
    torch.manual_seed(0)
    return Steps(wide or {}, count).eval(), torch.rand(SHAPE)
