"""A `.pte` file that somebody else made."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twinnet.engines._executorch_home import Home
from twinnet.engines._executorch_lowered import Lowered
from twinnet.engines._executorch_made import Lowering, Made
from twinnet.engines._executorch_taps import TappedSession
from twinnet.errors import EngineError, UsageError
from twinnet.executorch import Record
from twinnet.job import Arrays
from twinnet.network import Network
from twinnet.signature import Signature, TensorSpec

if TYPE_CHECKING:
    from twinnet.layers import Graph

__all__ = ["FileSession", "Program"]


@dataclass(frozen=True)
class Program:
    """A `.pte` file, its ETRecord if there is one, and the method to run."""

    file: Path
    record: Record | None = None
    method: str = "forward"


class FileSession(TappedSession):
    """A `.pte` file as it is. With its ETRecord its tensors have the names of the program it was exported from."""

    untold_hint = "give its ETRecord (etrecord=FILE)"

    def __init__(self, program: Program, network: Network | None, home: Home, *, taps: bool) -> None:
        super().__init__(home)
        file, record, method, given = program.file, program.record, program.method, home.job.inputs
        if not file.is_file():
            raise UsageError(f"no such file: {file}")
        self._file, self._known, self._method = file.absolute(), record, method
        request = {"do": "describe", "pte": str(self._file), "method": method}
        said = home.ask(request, "load the network")
        self._parameters = said["inputs"]
        tensors = [i for i in said["inputs"] if i is not None]
        if len(tensors) != len(given):
            raise UsageError(
                f"{file} takes {len(tensors)} tensors, and the inputs hold {len(given)}: {', '.join(given)}"
            )
        names = _input_names(record, tensors)
        self._inputs = dict(zip(given, names, strict=True))
        self.signature = Signature(
            tuple(TensorSpec(n, shape=tuple(t["shape"])) for n, t in zip(given, tensors, strict=True))
        )
        self._count = sum(o is not None for o in said["outputs"])
        self._lowered = Lowered(record, network, given)
        self.notes = self._lowered.notes
        self.untold = self._lowered.untold(self._file)
        self.precision = "int8" if self._lowered.quantised or self.untold else "float32"
        self._how = Lowering(self._lowered.delegate, "static" if self._lowered.quantised else "")
        if taps and self._how.delegate == "xnnpack" and self._lowered.program is not None:
            self._tapped, said = self._tried_taps()
            self.notes += said

    def _program(self, inputs: Arrays) -> tuple[Path, list[Any]]:
        values = iter(np.asarray(inputs[name]) for name in self._inputs)
        return self._file, [None if p is None else next(values) for p in self._parameters]

    def _made(self, inputs: Arrays) -> Made:
        record, program = self._known, self._lowered.program
        if record is None or program is None:
            raise EngineError("the program that was lowered is not known", stage="cut")
        return Made(self._digest, self._file, record.path, program, ())

    @cached_property
    def _digest(self) -> str:
        return hashlib.sha256(self._file.read_bytes()).hexdigest()

    @property
    def _layers(self) -> Graph:
        assert self._lowered.layers is not None
        return self._lowered.layers

    def _record(self, inputs: Arrays) -> Record | None:
        return self._known

    @property
    def inputs(self) -> Mapping[str, str]:
        return self._inputs

    @cached_property
    def output_tensors(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        exported = None if self._known is None else self._known.exported
        if exported is not None and len(exported.outputs) == self._count:
            return exported.outputs
        return tuple(f"output.{i}" for i in range(self._count))

    @cached_property
    def provenance(self) -> Mapping[str, str] | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._lowered.provenance(self.sites)

    def graph(self) -> Graph | None:
        return self._lowered.graph


def _input_names(record: Record | None, tensors: Sequence[Any]) -> list[str]:
    """The names of the inputs in the exported program, which lists them after its weights."""
    exported = None if record is None else record.exported
    if exported is not None and len(exported.inputs) >= len(tensors):
        return list(exported.inputs[len(exported.inputs) - len(tensors) :])
    return [f"input.{i}" for i in range(len(tensors))]
