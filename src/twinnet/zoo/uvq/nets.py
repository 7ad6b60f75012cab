"""DistortionNet, ContentNet and AggregationNet of UVQ 1.5."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Literal, cast, get_args

import torch
from torch import Tensor, nn

from twinnet.errors import UsageError
from twinnet.zoo.uvq.blocks import Conv2dSamePadding, ConvNormAct, Make, MBConv

__all__ = ["DEPTHS", "AggregationNet", "ContentNet", "Depth", "DistortionNet", "Init", "distortionnet"]

Depth = Literal["single", "minimal", "medium", "full"]
Init = Literal["calibrated", "random", "formula"]
DEPTHS: tuple[Depth, ...] = get_args(Depth)

_STEM, _FEATURES = 32, 128
_BLOCKS = (
    # inputs, outputs, expand, kernel, stride
    (32, 16, 1, 3, 1),
    (16, 24, 6, 3, 2),
    (24, 24, 6, 3, 1),
    (24, 40, 6, 5, 2),
    (40, 40, 6, 5, 1),
    (40, 80, 6, 3, 2),
    (80, 80, 6, 3, 1),
    (80, 80, 6, 3, 1),
    (80, 112, 6, 5, 1),
    (112, 112, 6, 5, 1),
    (112, 112, 6, 5, 1),
    (112, 192, 6, 5, 2),
    (192, 192, 6, 5, 1),
    (192, 192, 6, 5, 1),
    (192, 192, 6, 5, 1),
    (192, 320, 6, 3, 1),
)
_SINGLE = ((32, 24, 6, 3, 1),)
"""The published smallest cut is a block that the whole network does not have."""


def _features(depth: Depth, make: Make) -> nn.Sequential:
    """The stem, the blocks of this depth and, where there is one, the last convolution."""
    taken = {"single": _SINGLE, "minimal": _BLOCKS[:3], "medium": _BLOCKS[:8], "full": _BLOCKS}.get(depth)
    if taken is None:
        raise UsageError(f"{depth!r} is not a depth of DistortionNet", hint=f"one of {', '.join(DEPTHS)}")
    parts: list[nn.Module] = [ConvNormAct(Conv2dSamePadding(3, _STEM, 3, 2, make), make)]
    parts += [MBConv(*row, make=make) for row in taken]
    if depth != "single":
        parts.append(Conv2dSamePadding(taken[-1][1], _FEATURES, 2, 1, make))
    return nn.Sequential(*parts)


class _ChannelsLast(nn.Module):
    """From NCHW to NHWC."""

    def forward(self, x: Tensor) -> Tensor:
        return x.permute(0, 2, 3, 1)


class DistortionNet(nn.Module):
    """Features of distortions of a patch: from [B, 3, 360, 640] in [-1, 1] to [B, 8, 8, 128].

    `depth` cuts it short: "single", "minimal" and "medium" are the published cuts, of 1, 3 and 8 of its 16 blocks.
    `depthwise=False` makes every convolution dense. `make` changes the rest, to practise on usual mistakes.

    >>> with torch.device("meta"):
    ...     net = DistortionNet("minimal")
    >>> net(torch.empty(1, 3, 360, 640, device="meta")).shape
    torch.Size([1, 86, 148, 128])
    """

    patch = (360, 640)

    def __init__(self, depth: Depth = "full", *, depthwise: bool = True, make: Make | None = None) -> None:
        super().__init__()
        self.features = _features(depth, make or Make(depthwise=depthwise))
        pool = OrderedDict[str, nn.Module](permute=_ChannelsLast())
        if depth != "single":
            pool = OrderedDict[str, nn.Module](pool=nn.MaxPool2d((5, 13), stride=1), **pool)
        self.avgpool = nn.Sequential(pool)

    @property
    def example_input_array(self) -> Tensor:
        return torch.zeros(1, 3, *self.patch)

    def forward(self, patches: Tensor) -> Tensor:
        return self.avgpool(self.features(patches))


class ContentNet(nn.Module):
    """Features of a frame's content: from [B, 3, 256, 256] in [-1, 1] to [B, 8, 8, 128]."""

    size = (256, 256)

    def __init__(self) -> None:
        super().__init__()
        self.features = _features("full", Make(momentum=0.99))

    @property
    def example_input_array(self) -> Tensor:
        return torch.zeros(1, 3, *self.size)

    def forward(self, frames: Tensor) -> Tensor:
        return self.features(frames).permute(0, 2, 3, 1)


class AggregationNet(nn.Module):
    """Two maps of features, channels last, to one score between 1 and 5."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(256, 256, 1)
        self.ln1 = nn.LayerNorm([256, 4, 4], eps=1e-3)
        self.linear1 = nn.Linear(256, 1)

    @property
    def example_input_array(self) -> tuple[Tensor, Tensor]:
        return torch.zeros(1, 8, 8, 128), torch.zeros(1, 24, 24, 128)

    def forward(self, content: Tensor, distortion: Tensor) -> Tensor:
        pooled = [
            nn.functional.adaptive_avg_pool2d(x.permute(0, 3, 1, 2), (4, 4)) for x in (content, distortion)
        ]
        x = torch.relu(self.ln1(self.conv1(torch.cat(pooled, 1))))
        x = nn.functional.max_pool2d(x, 4).flatten(1)
        return torch.tanh(self.linear1(x)) * 2.0 + 3.0


def distortionnet(
    depth: str = "full",
    *,
    init: Init = "calibrated",
    seed: int = 0,
    **made: Any,
) -> DistortionNet:
    """A DistortionNet with made-up weights, in eval mode; `made` are further arguments of `DistortionNet`.

    Args:
        depth: "single", "minimal", "medium" or "full".
        init: "calibrated": random weights, and statistics of the normalisation from a few images. "random": as PyTorch
            makes them; the output fades away with the depth. "formula": `formula_init`; the output hardly depends on
            the input. A comparison on such a network shows little.
        seed: Of the random weights.
    """
    from twinnet.zoo.uvq.initialise import calibrate, formula_init

    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        net = DistortionNet(cast(Depth, depth), **made).eval()
    if init == "calibrated":
        calibrate(net, seed=seed)
    elif init == "formula":
        formula_init(net)
    elif init != "random":
        raise UsageError(f"{init!r} is not a way to initialise", hint=f"one of {', '.join(get_args(Init))}")
    return net
