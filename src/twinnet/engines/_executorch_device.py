"""A recording that a device made with ExecuTorch, in the place of a run here."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from twinnet.engines._executorch_lowered import Lowered
from twinnet.engines.base import Session
from twinnet.errors import EngineError, UsageError
from twinnet.executorch import DebugBuffer, Dump, Record, Shown, shown_tensors
from twinnet.job import Arrays, Job
from twinnet.network import Network
from twinnet.signature import Signature, TensorSpec
from twinnet.site import Site
from twinnet.trace import Trace, TraceBuilder

if TYPE_CHECKING:
    from twinnet.layers import Graph

__all__ = ["DeviceSession"]


class DeviceSession(Session):
    """An ETDump with its debug buffer: its executions are the samples of the check, in order."""

    engine = "executorch"
    version = "recorded"
    live = False
    untold_hint = "give its ETRecord (etrecord=FILE)"

    def __init__(
        self,
        dump: Dump,
        buffer: DebugBuffer,
        record: Record | None,
        method: str,
        network: Network | None,
        job: Job,
        file: Path | None = None,
    ) -> None:
        runs = [run for run in dump.executions if run.values]
        if not runs:
            raise UsageError(
                f"{dump.path} holds no tensors of an execution",
                hint="record with a debug buffer and a debug level: see docs/executorch.md",
            )
        self._samples = list(job.samples) or [job.inputs]
        if len(runs) < len(self._samples):
            raise UsageError(
                f"the check has {len(self._samples)} samples, but {dump.path} fewer executions: {len(runs)}",
                hint=f"give the inputs that the device ran, in its order (--samples {len(runs)})",
            )
        self._buffer, self._record, self._job = buffer, record, job
        self._shown = [shown_tensors(run, record, method) for run in runs]
        self.signature = Signature(tuple(TensorSpec(name) for name in job.inputs))
        self._lowered = Lowered(record, network, job.inputs)
        self.notes = _notes(self._lowered, self._shown[0])
        self.untold = self._lowered.untold(file)
        self.precision = "int8" if self._lowered.quantised or self.untold else "float32"

    def _index(self, inputs: Arrays) -> int:
        for index, sample in enumerate(self._samples):
            if all(np.array_equal(sample[n], inputs[n]) for n in inputs if n in sample):
                return index
        raise EngineError("the device was not recorded on these inputs", stage="run the network")

    @property
    def inputs(self) -> Mapping[str, str]:
        exported = None if self._record is None else self._record.exported
        own = () if exported is None else exported.inputs[-len(self._job.inputs) :]
        names = (
            own if len(own) == len(self._job.inputs) else [f"input.{i}" for i in range(len(self._job.inputs))]
        )
        return dict(zip(self._job.inputs, names, strict=True))

    @cached_property
    def output_tensors(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        found = tuple(s.site.tensor for s in self._shown[0] if s.site.role == "output")
        if not found:
            raise UsageError(
                f"{self._buffer.path} holds no outputs of the program",
                hint="set the debug level to kProgramOutputs or kIntermediateOutputs",
            )
        return found

    @property
    def sites(self) -> tuple[Site, ...]:
        return tuple(s.site for s in self._shown[0])

    @cached_property
    def provenance(self) -> Mapping[str, str] | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._lowered.provenance(self.sites)

    def graph(self) -> Graph | None:
        return self._lowered.graph

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        found = {s.site.tensor: s for s in self._shown[self._index(inputs)]}
        return {name: np.array(self._buffer.array(found[name].tensor)) for name in self.output_tensors}

    def trace(self, inputs: Arrays, watch: Collection[str], builder: TraceBuilder) -> Trace:
        for name, tensor in self.inputs.items():
            builder.add(tensor, np.asarray(inputs[name]))
        wanted = {*watch, *self.output_tensors}
        for one in self._shown[self._index(inputs)]:
            if one.site.tensor in wanted:
                builder.add(one.site.tensor, self._buffer.array(one.tensor))
        return builder.done()

    def part(self, tensor: str, known: Collection[str], values: Arrays) -> np.ndarray:
        raise EngineError("a recording cannot be run, whole or in part", stage="cut")


def _notes(lowered: Lowered, shown: Sequence[Shown]) -> tuple[str, ...]:
    said = [
        "the device's inputs are not in its recording: they are taken to be those of the check",
        *lowered.notes,
    ]
    if all(s.site.role == "output" for s in shown):
        said.append("the device recorded program outputs only: a fault can be seen, but not located")
    return tuple(said)
