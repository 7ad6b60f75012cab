"""Networks and how they are loaded.

>>> import torch
>>> load_network(torch.nn.Linear(2, 3)).parameters
9
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinnet.importing import names_from
from twinnet.network.base import ModuleNetwork, Network
from twinnet.network.load import is_network, load_network
from twinnet.network.shapes import apply_shapes, parse_shape, parse_shapes

if TYPE_CHECKING:
    from twinnet.network.exported import ExportedNetwork
    from twinnet.network.torch_network import TorchNetwork, input_placeholders, output_nodes

__all__ = [
    "ExportedNetwork",
    "ModuleNetwork",
    "Network",
    "TorchNetwork",
    "apply_shapes",
    "input_placeholders",
    "is_network",
    "load_network",
    "output_nodes",
    "parse_shape",
    "parse_shapes",
]


# Loaded on first use, because each needs a heavy import (torch).
_HOMES = {
    "ExportedNetwork": "exported",
    "TorchNetwork": "torch_network",
    "input_placeholders": "torch_network",
    "output_nodes": "torch_network",
}


# Names load on first use: running tables needs no torch, and `import twinnet` stays light.
__getattr__ = names_from(__name__, _HOMES)
