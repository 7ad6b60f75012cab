"""Layers of a model: listed from its graph without running anything, and cut out with values that were captured.

One file per format; each has a class with the methods of `Cutter`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from twinnet.engines.spec import file_name
from twinnet.errors import UsageError

if TYPE_CHECKING:
    from twinnet.network import Network

__all__ = ["Cut", "Cutter", "Layer", "cutter_for"]


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


@dataclass(frozen=True)
class Cut:
    """A layer as a network of its own, with one sample.

    `identity` is equal for layers with the same operator, attributes, weights and shapes of inputs. `data` is the layer
    as a file with this suffix, if its format has one.
    """

    network: Network
    sample: dict[str, np.ndarray]
    identity: str
    data: bytes = b""
    suffix: str = ""


class Cutter(Protocol):
    """Lists and cuts the layers of one model."""

    def layers(self) -> tuple[Layer, ...]:
        """The layers in the order of the graph; shape chains and constants are parts of those that read them."""
        ...

    def cut(self, layer: Layer, values: Mapping[str, np.ndarray], name: str) -> Cut:
        """A layer with the values it reads. An EngineError of stage "cut" means that it cannot run alone."""
        ...


def cutter_for(network: Any, sample: Mapping[str, np.ndarray]) -> Cutter:
    """The cutter for a network; `sample` is one of its inputs, for networks that have no graph without one."""
    if network.format == "ONNX":
        from twinnet.suite.cutting.onnx import OnnxCutter

        return OnnxCutter(network)
    if network.format == "TFLite":
        from twinnet.suite.cutting.tflite import TfliteCutter

        return TfliteCutter(network)
    if hasattr(network, "exported"):
        from twinnet.suite.cutting.program import ProgramCutter

        return ProgramCutter(network, sample)
    raise UsageError(f"the layers of a network of format {network.format} cannot be listed")
