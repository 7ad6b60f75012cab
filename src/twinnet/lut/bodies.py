"""The small networks inside Units: per-site functions from few values in [0, 1] to outputs in [-1, 1].

Published implementations write them as convolutions over windows. As only the first layer sees more than one
pixel, they are plain layers on the gathered taps, which is what these are.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

__all__ = ["DenseBody", "PlainBody"]


def _linear(inputs: int, outputs: int) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    nn.init.zeros_(layer.bias)
    return layer


class PlainBody(nn.Module):
    """SR-LUT's network: six layers, ReLU between them, no final activation (the Unit clamps).

    >>> sum(p.numel() for p in PlainBody(4, 16).parameters())
    18000
    """

    def __init__(self, axes: int, outputs: int, width: int = 64) -> None:
        super().__init__()
        self.layers = nn.ModuleList([_linear(axes, width), *(_linear(width, width) for _ in range(4))])
        self.last = _linear(width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.last(x)


class DenseBody(nn.Module):
    """MuLUT's network: five layers whose outputs are concatenated, one more on all of them, tanh.

    >>> DenseBody(4, 16)(torch.rand(3, 4)).shape
    torch.Size([3, 16])
    """

    def __init__(
        self, axes: int, outputs: int, width: int = 64, activation: Callable[[Tensor], Tensor] = torch.relu
    ) -> None:
        super().__init__()
        widths = [axes, *(width * k for k in range(1, 5))]
        self.layers = nn.ModuleList(_linear(inputs, width) for inputs in widths)
        self.last = _linear(width * 5, outputs)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        seen = self.activation(self.layers[0](x))
        for layer in list(self.layers)[1:]:
            seen = torch.cat([seen, self.activation(layer(seen))], dim=-1)
        return torch.tanh(self.last(seen))
