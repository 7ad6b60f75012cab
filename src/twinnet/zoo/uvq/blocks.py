"""The blocks of an EfficientNet with the padding of TensorFlow, named like those of the published weights."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

__all__ = ["Conv2dSamePadding", "ConvNormAct", "MBConv", "Make", "SqueezeExcite", "same_pads"]


def same_pads(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """The zeros before and after an axis for "SAME" of TensorFlow; an odd one goes after.

    >>> same_pads(360, 3, 2), same_pads(45, 3, 2)
    ((0, 1), (1, 1))
    """
    total = max((size - 1) // stride * stride + kernel - size, 0)
    return total // 2, total - total // 2


@dataclass(frozen=True)
class Make:
    """How blocks are made. `eps` and `momentum` are those of the normalisation.

    Without `depthwise` every convolution is dense. `symmetric` pads k // 2 on both sides where k is odd: the
    usual mistake, which changes no shape and no weight.
    """

    eps: float = 1e-3
    momentum: float = 0.0
    depthwise: bool = True
    symmetric: bool = False


class Conv2dSamePadding(nn.Module):
    """A convolution without bias that pads as TensorFlow does, by the size of its input."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, stride: int, make: Make, groups: int = 1
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, groups=groups, bias=False)
        self.symmetric = make.symmetric

    def forward(self, x: Tensor) -> Tensor:
        (kernel, _), (stride, _) = self.conv.kernel_size, self.conv.stride
        both = self.symmetric and kernel % 2 == 1
        rows, columns = (
            (kernel // 2, kernel // 2) if both else same_pads(size, kernel, stride) for size in x.shape[2:]
        )
        if any((*rows, *columns)):
            x = nn.functional.pad(x, (*columns, *rows))
        return self.conv(x)


class ConvNormAct(nn.Sequential):
    """Convolution, normalisation and, unless it is linear, SiLU."""

    def __init__(self, conv: Conv2dSamePadding, make: Make, *, linear: bool = False) -> None:
        parts: list[nn.Module] = [
            conv,
            nn.BatchNorm2d(conv.conv.out_channels, eps=make.eps, momentum=make.momentum),
        ]
        super().__init__(*parts, *(() if linear else (nn.SiLU(inplace=True),)))


class SqueezeExcite(nn.Module):
    """Scale each channel by a function of all channels' means."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(channels, squeezed, 1)
        self.fc2 = nn.Conv2d(squeezed, channels, 1)
        self.activation = nn.SiLU(inplace=True)
        self.scale_activation = nn.Sigmoid()

    def forward(self, x: Tensor) -> Tensor:
        scale = self.fc2(self.activation(self.fc1(self.avgpool(x))))
        return x * self.scale_activation(scale)


class MBConv(nn.Module):
    """An inverted residual block: expand, depthwise convolution, squeeze and excite, project.

    >>> block = MBConv(16, 24, expand=6, kernel=3, stride=1)
    >>> sum(p.numel() for p in block.parameters()), tuple(block(torch.zeros(1, 16, 8, 8)).shape)
    (6004, (1, 24, 8, 8))
    """

    def __init__(
        self, inputs: int, outputs: int, expand: int, kernel: int, stride: int, make: Make | None = None
    ) -> None:
        super().__init__()
        make = make or Make()
        wide = inputs * expand
        groups = wide if make.depthwise else 1
        parts: list[nn.Module] = []
        if expand > 1:
            parts.append(ConvNormAct(Conv2dSamePadding(inputs, wide, 1, 1, make), make))
        parts.append(ConvNormAct(Conv2dSamePadding(wide, wide, kernel, stride, make, groups), make))
        parts.append(SqueezeExcite(wide, max(1, inputs // 4)))
        parts.append(ConvNormAct(Conv2dSamePadding(wide, outputs, 1, 1, make), make, linear=True))
        self.block = nn.Sequential(*parts)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        made = self.block(x)
        return torch.add(x, made) if self.residual else made
