"""What is known of a program from elsewhere: by its ETRecord, if there is one, else by the order of its kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from twinnet.engines._executorch_names import counted_names, integer_biases, quantised_names, same_names
from twinnet.errors import UsageError
from twinnet.executorch import Record, recorded_program, steps_inside
from twinnet.job import Arrays
from twinnet.network import ModuleNetwork, Network
from twinnet.site import Site

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from twinnet.layers import Graph

__all__ = ["Lowered"]

_DELEGATES = {"XnnpackBackend": "xnnpack"}
_NO_RECORD = "no ETRecord was given: tensors are paired by their order and values (etrecord=FILE)"


class Lowered:
    """The program behind a `.pte` file or a device's recording, beside the network it is checked against."""

    def __init__(self, record: Record | None, network: Network | None, inputs: Arrays) -> None:
        self.record, self._network, self._inputs = record, network, inputs
        self.notes: tuple[str, ...] = () if record is not None else (_NO_RECORD,)
        self.program: ExportedProgram | None = None
        """What was lowered, of a program with steps or delegates."""
        if record is not None and (self.quantised or self.delegate == "xnnpack"):
            try:
                self.program = recorded_program(record)
            except UsageError as error:
                self.notes = (f"the program in the ETRecord cannot be read: {error.what}",)

    @cached_property
    def quantised(self) -> bool:
        """Whether the program has steps, as its ETRecord says."""
        exported = None if self.record is None else self.record.exported
        nodes = () if exported is None else exported.nodes
        return any(node.op.split(".")[0] == "quantized_decomposed" for node in nodes)

    def untold(self, file: Path | None) -> str:
        """What shows that a program without a readable ETRecord counts in steps; empty if it does not."""
        if file is None or self.graph is not None:
            return ""
        inside = steps_inside(file)
        return f"{file.name} has {inside}" if inside else ""

    @cached_property
    def delegate(self) -> str:
        """The engine's name of the delegate that runs a part of it; "none" if none does, or one that is not known."""
        methods = () if self.record is None else self.record.methods.values()
        known = {_DELEGATES.get(name, "") for method in methods for name in method.backends.values()}
        return known.pop() or "none" if len(known) == 1 else "none"

    @cached_property
    def layers(self) -> Graph | None:
        """The layers of `program`."""
        if self.program is None:
            return None
        from twinnet.layers.read_fx import read_fx

        found = read_fx(self.program)
        return integer_biases(found) if self.quantised and self.delegate != "none" else found

    @property
    def graph(self) -> Graph | None:
        """The layers of a quantised program, which have its steps; others are judged by the network's own."""
        return self.layers if self.quantised else None

    def provenance(self, sites: Sequence[Site]) -> Mapping[str, str] | None:
        """Values that the network's own export has too: by name and operator, or by their order without an ETRecord."""
        if not isinstance(self._network, ModuleNetwork):
            return None
        program = self._network.exported(self._inputs)
        if program is None:
            return None
        if self.quantised and self.program is not None:
            return quantised_names(program, self.program)
        return counted_names(program, sites) if self.record is None else same_names(program, self.record)
