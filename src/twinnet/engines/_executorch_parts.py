"""A part of a program by itself: cut from the exported program, and lowered in the same way."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twinnet.engines._executorch_home import Home
from twinnet.engines._executorch_made import Lowering, make
from twinnet.errors import EngineError
from twinnet.job import Arrays

if TYPE_CHECKING:
    from torch.export import ExportedProgram

__all__ = ["LoweredPart", "lower_part"]


class LoweredPart:
    """A part that was lowered: its file, its operators, and the values it starts from."""

    def __init__(self, pte: Path, operators: tuple[str, ...], feeds: dict[str, np.ndarray]) -> None:
        self.pte, self.operators, self.feeds = pte, operators, feeds


def lower_part(
    program: ExportedProgram,
    tensor: str,
    known: Collection[str],
    values: Arrays,
    how: Lowering,
    home: Home,
) -> LoweredPart:
    """Lower what makes `tensor` from values that are known. Its steps, if any, are in the program already."""
    from twinnet.network.arrays import to_tensor
    from twinnet.network.program_parts import ProgramParts
    from twinnet.network.torch_network import TorchNetwork

    parts = ProgramParts(program)
    if tensor not in parts.nodes:
        raise EngineError(f"{tensor} is not a value of the lowered program", stage="cut")
    part = parts.part([tensor], lambda node: node.name in known and node.name in values)
    missing = [name for name in part.reads if name not in values]
    if missing or not part.reads:
        what = f"the value of {missing[0]} is not known" if missing else "it reads nothing that is computed"
        raise EngineError(what, stage="cut")
    feeds = {name: np.array(values[name]) for name in part.reads}
    example: tuple[Any, ...] = tuple(to_tensor(a) for a in feeds.values())
    network = TorchNetwork(part.module, example=example, name=tensor)
    named = {spec.name: array for spec, array in zip(network.signature.inputs, feeds.values(), strict=True)}
    made = make(network, named, replace(how, quantize=""), home)
    return LoweredPart(made.pte, part.operators, feeds)
