"""Weights for networks whose trained ones are not published."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

__all__ = ["calibrate", "formula_init", "smooth_images"]


def smooth_images(count: int, height: int, width: int, *, seed: int = 0) -> Tensor:
    """Random images in [-1, 1] with large and small structures, as those in videos have: [count, 3, height, width]."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.zeros(count, 3, height, width)
    for share, size in ((1.0, 4), (0.5, 16), (0.25, 64)):
        coarse = torch.randn(count, 3, size, size, generator=generator)
        images += share * nn.functional.interpolate(
            coarse, (height, width), mode="bilinear", align_corners=False
        )
    return torch.tanh(images)


def calibrate(net: nn.Module, images: Tensor | None = None, *, seed: int = 0) -> None:
    """Give convolutions weights that keep the variance, and normalisations the statistics of `images`; changes `net`.

    Without this, a network with random weights gives nearly the same output for every input, and agreement on such an
    output shows nothing. Biases of the normalisation are random too, so that no layer is all symmetric.
    """
    if images is None:
        images = smooth_images(6, 180, 320, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    norms = [m for m in net.modules() if isinstance(m, nn.BatchNorm2d)]
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, nn.Conv2d):
                spread = math.sqrt(2.0 / module.weight[0].numel())
                module.weight.copy_(torch.randn(module.weight.shape, generator=generator) * spread)
            elif isinstance(module, nn.BatchNorm2d):
                module.bias.copy_(0.2 * torch.randn(module.bias.shape, generator=generator))
        momenta = [m.momentum for m in norms]
        for norm in norms:
            norm.momentum = 1.0
            norm.train()
        try:
            getattr(net, "features", net)(images)
        finally:
            for norm, momentum in zip(norms, momenta, strict=True):
                norm.momentum = momentum
                norm.eval()


def formula_init(net: nn.Module) -> None:
    """Weights from a formula, the same on every machine: a sine of an element's place; changes `net`."""
    state = net.state_dict()
    for number, (name, held) in enumerate(state.items()):
        places = torch.arange(1, held.numel() + 1, dtype=torch.float64)
        wave = torch.sin(12.9898 * places + 78.233 * (number + 1)).reshape(held.shape)
        if name.endswith("num_batches_tracked"):
            continue
        if name.endswith("running_var"):
            wave = 1.0 + 0.5 * wave
        elif name.endswith(("running_mean", ".bias")):
            wave = 0.1 * wave
        elif held.ndim > 1:
            wave = wave * math.sqrt(3.0 / held[0].numel())
        else:
            wave = 1.0 + 0.2 * wave
        held.copy_(wave)
