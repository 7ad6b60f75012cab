"""The base of all sessions of ONNX models: origin of values, observable sites, and tapping."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from twinnet.engines.base import Session
from twinnet.job import Arrays, Job
from twinnet.site import Site
from twinnet.trace import Trace, TraceBuilder

if TYPE_CHECKING:
    import onnx

    from twinnet.layers import Graph
    from twinnet.onnx.export import OnnxArtefact
    from twinnet.onnx.graph import Piece

__all__ = ["OnnxSession", "Runner", "TappedSession"]

_PIECE_BYTES = 64 << 20


class Runner(Protocol):
    """A loaded model: the names of its inputs and outputs, and a call that runs it."""

    @property
    def inputs(self) -> Sequence[str]: ...

    @property
    def outputs(self) -> Sequence[str]: ...

    def __call__(self, feeds: Arrays) -> Sequence[np.ndarray]: ...


class OnnxSession(Session):
    """A session of an ONNX model. A subclass runs it and lists the tensors that survive optimisation."""

    def __init__(self, artefact: OnnxArtefact) -> None:
        from twinnet.onnx.graph import OnnxGraph

        self._artefact = artefact
        self._cut = OnnxGraph(artefact.model)
        self.signature = artefact.signature
        self.precision = artefact.precision

    def sites_of(self, names: Iterable[str]) -> tuple[Site, ...]:
        """The sites of these values, with the modules and source lines they come from."""
        outputs = self._cut.outputs
        found = []
        # An output that depends on no input cannot be tapped, and is there all the same.
        for name in dict.fromkeys((*names, *(n for n in outputs if n in self._cut.static))):
            if name not in self._cut.producer:
                found.append(Site(tensor=name, node=name, op="Constant", role="output"))
                continue
            node = self._cut.nodes[self._cut.producer[name]]
            origin = self._artefact.origin.get(name)
            found.append(
                Site(
                    tensor=name,
                    node=node.name or name,
                    op=node.op_type,
                    module=origin.module if origin else "",
                    call=origin.call if origin else 0,
                    index=list(node.output).index(name),
                    source=origin.source if origin else "",
                    role="output" if name in outputs else "inner",
                )
            )
        return tuple(found)

    def _given(self, inputs: Arrays, patches: Arrays, builder: TraceBuilder) -> tuple[Arrays, Arrays]:
        """The model's feeds and the patches of inner tensors; both are added to the trace."""
        feeds = self._artefact.feeds(inputs)
        given = {name: np.asarray(array) for name, array in patches.items()}
        for name, array in (*feeds.items(), *given.items()):
            builder.add(name, array)
        return feeds, given

    def part(self, tensor: str, known: Collection[str], values: Arrays) -> np.ndarray:
        from twinnet.onnx.cut import between, build

        nodes, read = between(self._cut, [tensor], set(known) - {tensor})
        feeds = {name: np.asarray(values[name]) for name in read}
        model = build(self._cut, nodes, feeds, [tensor], self._artefact.network.weights())
        return np.asarray(self.run_part(model, feeds)[tensor])

    @abstractmethod
    def run_part(self, model: onnx.ModelProto, feeds: Arrays) -> Mapping[str, np.ndarray]:
        """Run a part of the network, cut out as a separate model, under this session's options.

        A crash of the part must not affect this session.
        """

    @property
    def inputs(self) -> dict[str, str]:
        return self._artefact.inputs

    @property
    def output_tensors(self) -> tuple[str, ...]:
        return self._cut.outputs

    @property
    def artefact(self) -> OnnxArtefact:
        return self._artefact

    @property
    def provenance(self) -> dict[str, str] | None:
        return self._artefact.provenance

    @property
    def size(self) -> int | None:
        return self._artefact.size

    @property
    def random(self) -> str:
        return self._cut.random

    def graph(self) -> Graph | None:
        return self._artefact.graph


class TappedSession(OnnxSession):
    """Shows tensors by marking them as outputs, in consecutive pieces where they take much memory.

    A subclass needs only `load_part`. One that fuses operators also overrides `sites` to list surviving tensors.
    """

    def __init__(self, artefact: OnnxArtefact, job: Job) -> None:
        super().__init__(artefact)
        self._job = job
        self._plans: dict[frozenset[str], list[Piece]] = {}
        self._whole: dict[frozenset[str], Runner] = {}

    @abstractmethod
    def load_part(self, model: onnx.ModelProto) -> Runner:
        """Load a part of the network, cut out as a separate model, under this session's options."""

    @cached_property
    def runner(self) -> Runner:
        """The network as deployed, nothing tapped."""
        return self.load_part(self._artefact.network.complete())

    @property
    def sites(self) -> tuple[Site, ...]:
        return self.sites_of(self._cut.observable)

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        feeds = self._artefact.feeds(inputs)
        return dict(zip(self.runner.outputs, self.runner(feeds), strict=True))

    def load_tapped(self, names: Sequence[str]) -> Runner:
        """The whole network with these tensors as further outputs."""
        return self.load_part(self._cut.with_outputs(names))

    def trace(self, inputs: Arrays, watch: Collection[str], builder: TraceBuilder) -> Trace:
        feeds = self._artefact.feeds(inputs)
        for name, array in feeds.items():
            builder.add(name, array)
        values: dict[str, np.ndarray] = dict(feeds)
        key = frozenset(watch)
        # A loaded model may show more than is needed.
        tapped = next((loaded for loaded in self._whole if key <= loaded), key)
        pieces = self._plan(tapped, feeds)
        for index, piece in enumerate(pieces):
            needed_later = {n for later in pieces[index + 1 :] for n in later.inputs}
            runner = self._whole.get(tapped) or self._piece_runner(piece, values, len(pieces), tapped)
            if len(pieces) == 1:
                # A single piece serves all samples. Of several, each is freed after use, with its threads and buffers.
                self._whole[tapped] = runner
            results = runner({n: values[n] for n in runner.inputs if n in values})
            for name, result in zip(runner.outputs, results, strict=True):
                if not isinstance(result, np.ndarray) or result.dtype == object:
                    if name in needed_later:
                        values[name] = result
                    continue
                if name in key or name in self._cut.outputs:
                    builder.add(name, result)
                if name in needed_later:
                    values[name] = result
            del results, runner
            values = {n: v for n, v in values.items() if n in needed_later or n in feeds}
        return builder.done()

    def retrace(
        self, inputs: Arrays, patches: Arrays, watch: Collection[str], builder: TraceBuilder
    ) -> Trace:
        feeds, given = self._given(inputs, patches, builder)
        wanted = [n for n in self._cut.observable if n in watch or n in self._cut.outputs]
        model = self._cut.with_values(given, wanted)
        if not model.graph.output:  # all wanted tensors were given
            return builder.done()
        runner = self.load_part(model)
        values = {**feeds, **given}
        results = runner({n: values[n] for n in runner.inputs if n in values})
        for name, result in zip(runner.outputs, results, strict=True):
            if isinstance(result, np.ndarray) and result.dtype != object:
                builder.add(name, result)
        return builder.done()

    def run_part(self, model: onnx.ModelProto, feeds: Arrays) -> Mapping[str, np.ndarray]:
        runner = self.load_part(model)
        return dict(zip(runner.outputs, runner({n: feeds[n] for n in runner.inputs}), strict=True))

    def _plan(self, watch: frozenset[str], feeds: Arrays) -> list[Piece]:
        if watch not in self._plans:
            budget = _PIECE_BYTES if self._job.memory is None else max(self._job.memory // 3, 1 << 20)
            sizes = self._cut.sizes({n: a.shape for n, a in feeds.items()})
            self._plans[watch] = self._cut.pieces(watch, sizes, budget)
        return self._plans[watch]

    def _piece_runner(self, piece: Piece, values: Arrays, count: int, watch: Collection[str]) -> Runner:
        if count == 1:
            return self.load_tapped([n for n in self._cut.observable if n in watch])
        from twinnet.onnx.cut import extract

        return self.load_part(extract(self._cut, piece, values))

    def close(self) -> None:
        self._whole.clear()
        with contextlib.suppress(AttributeError):  # it was never used
            del self.runner
