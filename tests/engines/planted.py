"""Five faults planted into the ONNX form of three networks: what a wrong exporter, compiler or checkpoint does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import onnx
from torch import nn

from tests import nets
from tests.onnx_edit import node_of, save, scale_channel, set_attribute
from twinnet.inputs import load_inputs, python_sample
from twinnet.job import Job
from twinnet.network import load_network
from twinnet.onnx.export import onnx_artefact

__all__ = ["FAULTS", "Fault", "as_onnx", "network"]


def network(name: str) -> tuple[nn.Module, tuple[Any, ...]]:
    """One of the networks of `tests.nets`, and its inputs."""
    module, args, kwargs = nets.NETS[name]()
    assert not kwargs
    return module, args


@cache
def _exported(name: str) -> bytes:
    module, args = network(name)
    loaded = load_network(module).with_example(python_sample(args))
    feed = load_inputs(loaded.signature, args)
    return onnx_artefact(loaded, None, Job(feed.samples[0])).model.SerializeToString()


def as_onnx(name: str) -> onnx.ModelProto:
    """The network as this package exports it."""
    return onnx.load_from_string(_exported(name))


@dataclass(frozen=True)
class Fault:
    """What is changed, in which network, and the module a finding has to name; `kind` is the cause."""

    name: str
    net: str
    module: str
    kind: str
    plant: Callable[[onnx.ModelProto], None]

    def file(self, folder: Path) -> Path:
        """The faulty network as a file."""
        model = as_onnx(self.net)
        self.plant(model)
        return save(model, folder / f"{self.name}.onnx")


def _named(model: onnx.ModelProto, output: str) -> onnx.NodeProto:
    return next(n for n in model.graph.node if output in n.output)


def _one_channel(model: onnx.ModelProto) -> None:
    scale_channel(model, _named(model, "getitem_15"), 3, 1.25)


def _hard_gate(model: onnx.ModelProto) -> None:
    _named(model, "sigmoid_2").op_type = "HardSigmoid"


def _shifted_padding(model: onnx.ModelProto) -> None:
    set_attribute(_named(model, "convolution_2"), "pads", [1, 2, 3, 2])


def _corners(model: onnx.ModelProto) -> None:
    set_attribute(node_of(model, "Resize"), "coordinate_transformation_mode", "align_corners")


def _epsilon(model: onnx.ModelProto) -> None:
    set_attribute(_named(model, "layer_norm_3"), "epsilon", 1e-2)


FAULTS: tuple[Fault, ...] = (
    Fault("one-channel", "mbconv", "blocks.1.depthwise", "weights", _one_channel),
    Fault("hard-gate", "mbconv", "blocks.2.attend", "activation", _hard_gate),
    Fault("shifted-padding", "unet", "down3.2", "padding", _shifted_padding),
    Fault("corners", "unet", "upsample_bilinear2d", "resize", _corners),
    Fault("epsilon", "transformer", "blocks.1.norm2", "eps", _epsilon),
)
