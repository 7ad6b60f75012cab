"""A network as an exported program, for converters, and what decides whether two of them are the same."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from twinnet.errors import UsageError
from twinnet.network.base import ModuleNetwork, Network

if TYPE_CHECKING:
    import torch

__all__ = ["exported_program", "program_content"]


def exported_program(
    network: Network, inputs: Mapping[str, Any], wanted: str, file: str
) -> torch.export.ExportedProgram:
    """The network as a program that is to be `wanted` ("exported to ONNX"); errors suggest the twin `file` instead."""
    if not isinstance(network, ModuleNetwork):
        raise UsageError(
            f"a network of format {network.format} cannot be {wanted}",
            hint=f"give the twin as a file: --twin {file}",
        )
    return network.program_for(inputs, advice=f"or give the twin as a file: --twin {file}")


def program_content(program: torch.export.ExportedProgram) -> tuple[str, str]:
    """Graph and input shapes of a program as text, and a hash of all its weights."""
    import torch

    from twinnet.network.arrays import tensor_bytes

    values = [(n.name, n.meta.get("val")) for n in program.graph.nodes if n.op == "placeholder"]
    inputs = [(name, getattr(v, "dtype", ""), tuple(getattr(v, "shape", ()))) for name, v in values]
    digest = hashlib.sha256()
    for name, tensor in [*program.state_dict.items(), *program.constants.items()]:
        digest.update(name.encode())
        if isinstance(tensor, torch.Tensor):
            digest.update(f"{tensor.dtype}:{tuple(tensor.shape)}".encode())
            digest.update(tensor_bytes(tensor))
    return f"{program.graph}{program.graph_signature}{inputs}", digest.hexdigest()
