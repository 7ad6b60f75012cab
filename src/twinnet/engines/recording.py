"""A recording as an engine: replays what a side computed elsewhere."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from twinnet.engines.base import Abilities, Engine, Session, read_options
from twinnet.errors import EngineError, UsageError
from twinnet.job import Arrays, Job
from twinnet.recording import Recording, load_recording
from twinnet.signature import Signature, TensorSpec
from twinnet.site import Site
from twinnet.trace import Trace, TraceBuilder

if TYPE_CHECKING:
    from twinnet.layers import Graph
    from twinnet.network import Network

__all__ = ["RecordedSession", "RecordingEngine"]


class RecordingEngine(Engine):
    """Replays a folder written by `twinnet record`, or a folder of `.npy`/`.npz` files."""

    name: ClassVar[str] = "recording"
    summary: ClassVar[str] = "a folder of recorded tensors"
    abilities: ClassVar[Abilities] = Abilities(capture=True, note="replays; cannot run new inputs")

    def version(self) -> str:
        return "1"

    def open(
        self, network: Network | None, options: Mapping[str, str], file: str | None, job: Job
    ) -> Session:
        read_options(self, options)
        if file is None:
            raise UsageError("the recording engine needs a folder", hint="recording:DIR")
        return RecordedSession(load_recording(file))


class RecordedSession(Session):
    """Knows only the samples it was recorded on."""

    engine = "recording"
    live = False

    def __init__(
        self,
        recording: Recording,
        *,
        graph: Graph | None = None,
        second: bool = False,
    ) -> None:
        self.recording = recording
        self.version = recording.side.version
        self.precision = recording.side.precision
        self._graph = graph
        self._second = second
        self.signature = Signature(tuple(TensorSpec(n) for n in recording.inputs))

    @property
    def inputs(self) -> Mapping[str, str]:
        return self.recording.inputs

    @property
    def output_tensors(self) -> tuple[str, ...]:
        return self.recording.outputs

    @property
    def sites(self) -> tuple[Site, ...]:
        return self.recording.sites

    def graph(self) -> Graph | None:
        return self._graph

    def _index(self, inputs: Arrays) -> int:
        index = getattr(inputs, "index", None)
        if isinstance(index, int):
            return index
        for i in range(len(self.recording.samples)):
            known = self.recording.sample(i)
            if known.keys() == inputs.keys() and all(np.array_equal(known[n], inputs[n]) for n in known):
                return i
        raise EngineError(
            f"the recording {self.recording.folder} was not made on these inputs",
            hint=f"use its own inputs: --inputs {self.recording.folder}/0000/inputs.safetensors",
        )

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        index = self._index(inputs)
        trace = self.recording.trace(index)
        missing = [name for name in self.output_tensors if name not in trace]
        if missing:
            raise UsageError(
                f"the recording {self.recording.samples[index]} is incomplete: it lacks the output {missing[0]}"
            )
        return {name: np.asarray(trace[name]) for name in self.output_tensors}

    def prepared(self, inputs: Arrays) -> Arrays:
        if not self._second:
            return {}
        own = self.recording.sample(self._index(inputs))
        return dict(zip(inputs, own.values(), strict=False)) if len(own) == len(inputs) else {}

    def part(self, tensor: str, known: Collection[str], values: Arrays) -> np.ndarray:
        raise EngineError("a recording cannot be run, whole or in part", stage="cut")

    def trace(self, inputs: Arrays, watch: Collection[str], builder: TraceBuilder) -> Trace:
        return self.recording.trace(self._index(inputs))
