"""Sessions of compilers: one module for the network as deployed, others with inner tensors as outputs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from twinnet.engines.onnx_session import OnnxSession
from twinnet.job import Arrays, Job
from twinnet.site import Site
from twinnet.trace import Trace, TraceBuilder

if TYPE_CHECKING:
    import onnx

    from twinnet.engines._compiled_model import Prepared
    from twinnet.onnx.export import OnnxArtefact

__all__ = ["CompiledSession"]

Module = TypeVar("Module")


class CompiledSession(OnnxSession, Generic[Module]):
    """A network in a compiler that takes ONNX, one module for each set of shapes and watched tensors.

    `static`: modules are compiled for the shapes of the sample they run. A model of an opset before `oldest` is
    converted to `opset`, which the notes say.
    """

    watched_apart = True

    def __init__(
        self, artefact: OnnxArtefact, job: Job, *, name: str, static: bool, oldest: int, opset: int
    ) -> None:
        super().__init__(artefact)
        self._job = job
        self._static = static
        self._opsets = oldest, opset
        self._shapes: dict[tuple[object, ...], Prepared] = {}
        self._modules: dict[tuple[tuple[object, ...], frozenset[str]], Module] = {}
        was = self._prepared(artefact.feeds(job.inputs)).converted_from
        if was:
            self.notes = (f"{name}: the ONNX model was converted from opset {was} to {opset} first",)

    @abstractmethod
    def _compile(self, model: onnx.ModelProto, prepared: Prepared, outputs: tuple[str, ...]) -> Module:
        """Compile a model; `outputs` are all of its outputs in order."""

    @abstractmethod
    def _call(self, module: Module, feeds: Arrays, watch: frozenset[str]) -> dict[str, np.ndarray]:
        """Run a module: its outputs, and what else of `watch` it shows."""

    def _shape(self, feeds: Arrays) -> tuple[object, ...]:
        return tuple((n, feeds[n].shape) for n in sorted(feeds)) if self._static else ()

    def _prepared(self, feeds: Arrays) -> Prepared:
        key = self._shape(feeds)
        if key not in self._shapes:
            self._shapes[key] = self._prepare(self._artefact.network.complete(), feeds)
        return self._shapes[key]

    def _prepare(self, model: onnx.ModelProto, feeds: Arrays) -> Prepared:
        from twinnet.engines._compiled_model import prepare

        oldest, opset = self._opsets
        return prepare(model, feeds, static=self._static, oldest=oldest, opset=opset)

    def _taps(self, watch: frozenset[str]) -> frozenset[str]:
        """The tensors that must be outputs of a module to be seen; a runtime may have another way."""
        return watch

    def _module(self, feeds: Arrays, watch: frozenset[str]) -> Module:
        """A module that shows at least these tensors; without any it is the network as deployed."""
        watch = self._taps(watch)
        shape = self._shape(feeds)
        for (other, taps), module in self._modules.items():
            if other == shape and (watch <= taps if watch else not taps):
                return module
        prepared = self._prepared(feeds)
        model, outputs = prepared.tapped(watch)
        self._modules[shape, watch] = self._compile(model, prepared, outputs)
        return self._modules[shape, watch]

    @property
    def sites(self) -> tuple[Site, ...]:
        prepared = self._prepared(self._artefact.feeds(self._job.inputs))
        seen = {*prepared.taps, *prepared.outputs}
        return self.sites_of(n for n in self._cut.observable if n in seen)

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        feeds = self._artefact.feeds(inputs)
        return self._call(self._module(feeds, frozenset()), feeds, frozenset())

    def trace(self, inputs: Arrays, watch: Collection[str], builder: TraceBuilder) -> Trace:
        feeds = self._artefact.feeds(inputs)
        for name, array in feeds.items():
            builder.add(name, array)
        inner = frozenset(watch) - frozenset(self._cut.outputs)
        self._show(self._module(feeds, inner), feeds, inner, builder)
        return builder.done()

    def retrace(
        self, inputs: Arrays, patches: Arrays, watch: Collection[str], builder: TraceBuilder
    ) -> Trace:
        from twinnet.onnx.graph import OnnxGraph

        feeds, given = self._given(inputs, patches, builder)
        model = OnnxGraph(self._artefact.network.complete()).with_values(given, ())
        inner = frozenset(watch) - frozenset(self._cut.outputs) - frozenset(given)
        # Patches are inputs, so one module serves all values at these sites.
        feeds = {**feeds, **given}
        prepared = self._prepare(model, feeds)
        tapped, outputs = prepared.tapped(self._taps(inner))
        if outputs:  # otherwise all wanted tensors were given
            self._show(self._compile(tapped, prepared, outputs), feeds, inner, builder)
        return builder.done()

    def run_part(self, model: onnx.ModelProto, feeds: Arrays) -> Mapping[str, np.ndarray]:
        prepared = self._prepare(model, feeds)
        return self._call(self._compile(prepared.model, prepared, prepared.outputs), feeds, frozenset())

    def _show(self, module: Module, feeds: Arrays, inner: frozenset[str], builder: TraceBuilder) -> None:
        """Run a module and add its outputs and the watched inner tensors to the trace."""
        found = self._call(module, feeds, inner)
        for name in self._cut.observable:
            if name in found and (name in inner or name in self._cut.outputs):
                builder.add(name, found[name])
