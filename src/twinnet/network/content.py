"""What decides whether two exported programs are the same."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

__all__ = ["program_content"]


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
