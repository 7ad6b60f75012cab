"""A recording as an engine: replays what a side computed elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from twinnet.engines.base import Abilities, Engine, Session, read_options
from twinnet.errors import EngineError, UsageError
from twinnet.job import Arrays, Job
from twinnet.recording import Recording, Sample, load_recording
from twinnet.signature import Signature, TensorSpec
from twinnet.site import Site
from twinnet.trace import Trace, TraceBuilder

if TYPE_CHECKING:
    from twinnet.layers import Graph
    from twinnet.network import Network

__all__ = ["Reading", "RecordedSession", "RecordingEngine"]


class RecordingEngine(Engine):
    """Replays a folder written by `twinnet record`, or files of arrays that somebody else wrote."""

    name: ClassVar[str] = "recording"
    summary: ClassVar[str] = "a folder of recorded tensors"
    abilities: ClassVar[Abilities] = Abilities(capture=True, note="replays; cannot run new inputs")
    replays: ClassVar[bool] = True

    def version(self) -> str:
        return "1"

    def open(
        self, network: Network | None, options: Mapping[str, str], file: str | None, job: Job
    ) -> Session:
        read_options(self, options)
        if file is None:
            raise UsageError("the recording engine needs a folder", hint="recording:DIR")
        recording = load_recording(file)
        if recording.by_hand and len(recording.samples) != len(job.samples):
            raise UsageError(
                f"{file} holds {len(recording.samples)} samples, the inputs are {len(job.samples)}",
                hint="give the inputs it was recorded on, in its order (--inputs; --samples limits their number)",
            )
        return RecordedSession(recording, samples=job.samples)


@dataclass(frozen=True)
class Reading:
    """What files that somebody else wrote mean beside a network.

    `outputs` and `inputs` map the network's names to names of arrays, `turns` gives an array the network's order of
    axes, `guessed` names the outputs that were known by their shape only.
    """

    outputs: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
    turns: Mapping[str, Callable[[np.ndarray], np.ndarray]] = field(default_factory=dict)
    guessed: frozenset[str] = frozenset()


class RecordedSession(Session):
    """Knows only the samples it was recorded on.

    `samples` are the inputs of the check, by which arrays without inputs of their own are found.
    """

    engine = "recording"
    live = False

    def __init__(
        self,
        recording: Recording,
        *,
        graph: Graph | None = None,
        second: bool = False,
        samples: Sequence[Arrays] = (),
        reading: Reading | None = None,
    ) -> None:
        self.recording = recording
        self.by_hand = self.loose_outputs = recording.by_hand
        self._samples = samples
        self.reading = reading or Reading()
        self.version = recording.side.version
        self.precision = recording.side.precision
        self._graph = graph
        self._second = second
        self.signature = Signature(tuple(TensorSpec(n) for n in recording.inputs))

    def read_as(self, reading: Reading) -> RecordedSession:
        """The same recording, its arrays with the meaning that they have beside a network."""
        return RecordedSession(
            self.recording, graph=self._graph, second=self._second, samples=self._samples, reading=reading
        )

    @property
    def inputs(self) -> Mapping[str, str]:
        return self.recording.inputs

    @property
    def output_tensors(self) -> tuple[str, ...]:
        return self.recording.outputs or tuple(self.reading.outputs.values())

    @property
    def sites(self) -> tuple[Site, ...]:
        fed = self.reading.inputs.values()
        return tuple(site for site in self.recording.sites if site.tensor not in fed)

    def graph(self) -> Graph | None:
        return self._graph

    def _index(self, inputs: Arrays) -> int:
        if isinstance(inputs, Sample):
            return inputs.index
        for i in range(len(self.recording.samples)):
            known = self._samples[i] if self.by_hand else self.recording.sample(i)
            if known.keys() == inputs.keys() and all(np.array_equal(known[n], inputs[n]) for n in known):
                return i
        raise EngineError(
            f"the recording {self.recording.folder} was not made on these inputs",
            hint="leave --inputs out: a recording holds its own",
        )

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        index = self._index(inputs)
        trace = self._trace(index)
        missing = [name for name in self.output_tensors if name not in trace]
        if missing:
            raise UsageError(
                f"the recording {self.recording.samples[index]} is incomplete: it lacks the output {missing[0]}"
            )
        called = {site.tensor: site.own_name for site in self.recording.sites}
        called |= {tensor: name for name, tensor in self.reading.outputs.items()}
        return {called.get(tensor, tensor): np.asarray(trace[tensor]) for tensor in self.output_tensors}

    def prepared(self, inputs: Arrays) -> Arrays:
        index = self._index(inputs)
        if self.reading.inputs:
            trace = self._trace(index)
            return {name: trace[tensor] for name, tensor in self.reading.inputs.items()}
        if not self._second:
            return {}
        own = self.recording.sample(index)
        return dict(zip(inputs, own.values(), strict=False)) if len(own) == len(inputs) else {}

    def part(self, tensor: str, known: Collection[str], values: Arrays) -> np.ndarray:
        raise EngineError("a recording cannot be run, whole or in part", stage="cut")

    def trace(self, inputs: Arrays, watch: Collection[str], builder: TraceBuilder) -> Trace:
        return self._trace(self._index(inputs))

    def _trace(self, index: int) -> Trace:
        """One sample, in the network's order of axes where it is known."""
        trace = self.recording.trace(index)
        turns = self.reading.turns
        return (
            trace.with_arrays({name: turn(trace[name]) for name, turn in turns.items()}) if turns else trace
        )
