"""Networks: what they are, and how they come in.

>>> import torch
>>> load_network(torch.nn.Linear(2, 3)).parameters
9
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twinnet.network.base import Network
from twinnet.network.exported import ExportedNetwork
from twinnet.network.load import load_network
from twinnet.network.shapes import apply_shapes, format_shape, parse_shape, parse_shapes
from twinnet.network.torch_network import TorchNetwork, input_placeholders, output_nodes

if TYPE_CHECKING:
    from twinnet.network.onnx_network import OnnxNetwork

__all__ = [
    "ExportedNetwork",
    "Network",
    "OnnxNetwork",
    "TorchNetwork",
    "apply_shapes",
    "format_shape",
    "input_placeholders",
    "load_network",
    "output_nodes",
    "parse_shape",
    "parse_shapes",
]


def __getattr__(name: str) -> Any:
    if name == "OnnxNetwork":  # needs the onnx extra
        from twinnet.network.onnx_network import OnnxNetwork

        return OnnxNetwork
    raise AttributeError(name)
