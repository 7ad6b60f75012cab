"""Parts of networks as networks of their own, with inputs: a layer, a prefix, a block.

One file per format. A `Cutter` lists and cuts single layers, on values that were captured; one of a file with a graph
(`GraphCutter`) also cuts what lies between any two values. PyTorch modules that nobody can export are cut by
`ladder/torch_source.py`, which runs them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from twinnet.engines.spec import file_name
from twinnet.errors import UsageError
from twinnet.job import Arrays
from twinnet.network import ModuleNetwork, Network

__all__ = ["Cut", "Cutter", "GraphCutter", "Layer", "Node", "cutter_for", "graph_cutter_for"]


@dataclass(frozen=True, slots=True)
class Layer:
    """One operator of a model: its name in the names of cases, and the values it makes."""

    name: str
    op: str
    outputs: tuple[str, ...]

    @staticmethod
    def numbered(op: str, number: int, outputs: tuple[str, ...]) -> Layer:
        """The layer with this number; what a file calls an operator may not be a name for a folder.

        >>> Layer.numbered("../Conv", 3, ("y",)).name
        '..-Conv_3'
        """
        return Layer(f"{file_name(op, 60)}_{number}", op, outputs)


@dataclass(frozen=True, slots=True)
class Node:
    """One operator of a graph: its name, its kind, what it reads and makes, and the parameters it holds."""

    name: str
    op: str
    reads: frozenset[Any]
    makes: tuple[Any, ...]
    parameters: int


@dataclass(frozen=True)
class Cut:
    """A part of a network as a network, with inputs of its own.

    Of a layer, `identity` is equal for those with the same operator, attributes, weights and shapes of inputs, and
    `data` is the layer as a file with this suffix, if its format has one.
    """

    network: Network
    samples: Sequence[Arrays]
    identity: str = ""
    data: bytes = b""
    suffix: str = ""

    @property
    def sample(self) -> dict[str, np.ndarray]:
        """Its first inputs."""
        return dict(self.samples[0])


class Cutter(Protocol):
    """Lists and cuts the layers of one model."""

    def layers(self) -> tuple[Layer, ...]:
        """The layers in the order of the graph; shape chains and constants are parts of those that read them."""
        ...

    def cut(self, layer: Layer, values: Mapping[str, np.ndarray], name: str) -> Cut:
        """A layer with the values it reads. An EngineError of stage "cut" means that it cannot run alone."""
        ...


class GraphCutter(Cutter, Protocol):
    """A cutter of a file, whose graph can be cut between any values."""

    @property
    def outputs(self) -> frozenset[Any]:
        """The outputs of the graph."""
        ...

    def nodes(self) -> Sequence[Node]:
        """The operators that depend on an input, in the order they run."""
        ...

    def between(self, source: Any, target: Any, samples: Sequence[Arrays]) -> Cut:
        """The part from one value (None: the inputs) to another (None: the outputs), on samples of its inputs."""
        ...


def cutter_for(network: Network, sample: Mapping[str, np.ndarray]) -> Cutter:
    """The cutter for a network; `sample` is one of its inputs, for networks that have no graph without one."""
    found = graph_cutter_for(network)
    if found is not None:
        return found
    if isinstance(network, ModuleNetwork):
        from twinnet.cutting.program import ProgramCutter

        return ProgramCutter(network, sample)
    raise UsageError(f"the layers of a network of format {network.format} cannot be listed")


def graph_cutter_for(network: Any) -> GraphCutter | None:
    """The cutter for a network that is a graph in a file; None for any other."""
    if network.format == "ONNX":
        from twinnet.cutting.onnx import OnnxCutter

        return OnnxCutter(network)
    if network.format == "TFLite":
        from twinnet.cutting.tflite import TfliteCutter

        return TfliteCutter(network)
    return None
