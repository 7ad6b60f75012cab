"""A small network with many kinds of layers, and eight faults that a converter or a runtime could have."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from twinnet.engines._executorch_home import Home
from twinnet.engines._executorch_made import Lowering, Made, make
from twinnet.job import Job
from twinnet.network import load_network

__all__ = ["FAULTS", "Fault", "Small", "made", "small"]


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.act = nn.SiLU()
        self.deep = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.pool = nn.AvgPool2d(3, 2, 1)
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.gate = nn.Sigmoid()
        self.last = nn.Conv2d(8, 6, 1)
        self.mix = nn.LayerNorm(6)
        self.gelu = nn.GELU()
        self.head = nn.Linear(6, 5)

    def forward(self, image: Tensor) -> Tensor:
        x = self.act(self.norm(self.stem(image)))
        y = self.up(self.pool(self.deep(x)))
        x = self.last(x * self.gate(y) + y)
        x = self.gelu(self.mix(x.permute(0, 2, 3, 1)))
        return self.head(x.mean((1, 2)))


@cache
def small() -> tuple[Small, Tensor]:
    """The network and an input."""
    torch.manual_seed(3)
    net = Small().eval()
    net.norm.running_mean.uniform_(-0.3, 0.3)
    net.norm.running_var.uniform_(0.5, 1.5)
    return net, torch.randn(1, 3, 10, 10)


@dataclass(frozen=True)
class Fault:
    """What is changed, the module that a finding has to name, and its cause."""

    name: str
    module: str
    kind: str
    plant: Callable[[Small], None]

    def made(self, delegate: str = "none") -> Made:
        """The faulty network as a program in the cache."""
        net, image = small()
        faulty = copy.deepcopy(net)
        with torch.no_grad():
            self.plant(faulty)
        return made(faulty, image, delegate)


def made(net: nn.Module, image: Tensor, delegate: str = "none") -> Made:
    """A network as a program with its ETRecord, as another person would have made them."""
    network = load_network((net, (image,)))
    job = Job({"image": image.numpy()})
    home = Home(job, 1)
    try:
        return make(network, job.inputs, Lowering(delegate), home)
    finally:
        home.close()


def _channel(net: Small) -> None:
    net.deep.weight[3] *= 1.25


def _eps(net: Small) -> None:
    net.mix.eps = 1e-1


def _tanh(net: Small) -> None:
    net.gelu.approximate = "tanh"


def _corners(net: Small) -> None:
    net.up.align_corners = True


def _counting(net: Small) -> None:
    net.pool.count_include_pad = False


def _gate(net: Small) -> None:
    net.gate.forward = F.hardsigmoid  # type: ignore[method-assign]


def _bias(net: Small) -> None:
    net.head.bias.zero_()


def _padding(net: Small) -> None:
    net.stem.padding_mode = "replicate"


FAULTS = (
    Fault("channel", "deep", "scale", _channel),
    Fault("eps", "mix", "eps", _eps),
    Fault("tanh", "gelu", "activation", _tanh),
    Fault("corners", "up", "resize", _corners),
    Fault("counting", "pool", "pooling", _counting),
    Fault("gate", "gate", "activation", _gate),
    Fault("bias", "head", "bias", _bias),
    Fault("padding", "stem", "padding", _padding),
)


def place(found: Made) -> tuple[Path, Path]:
    """The two files of a program."""
    return found.pte, found.record
