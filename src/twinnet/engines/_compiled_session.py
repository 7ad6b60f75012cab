"""Sessions of compilers: a module for the network as deployed, others that show inner tensors as outputs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from twinnet.engines._onnx_session import OnnxSession
from twinnet.engines.base import Arrays, Job
from twinnet.site import Site
from twinnet.trace import Trace, TraceBuilder

if TYPE_CHECKING:
    import onnx

    from twinnet.engines._compiled_model import Prepared
    from twinnet.engines._export import OnnxArtefact

__all__ = ["CompiledSession"]

Module = TypeVar("Module")


class CompiledSession(OnnxSession, Generic[Module]):
    """A network in a compiler that takes ONNX, one module for each set of shapes and watched tensors.

    `static`: modules are compiled for the shapes of the sample they run. A model of an opset before `oldest` is
    converted to `opset`, which the notes say.
    """

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
        from twinnet.engines._compiled_model import prepare

        key = self._shape(feeds)
        if key not in self._shapes:
            oldest, opset = self._opsets
            whole = self._artefact.network.complete()
            self._shapes[key] = prepare(whole, feeds, static=self._static, oldest=oldest, opset=opset)
        return self._shapes[key]

    def _module(self, feeds: Arrays, watch: frozenset[str]) -> Module:
        """A module that shows at least these tensors; without any it is the network as deployed."""
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
        return self._sites_of(n for n in self._cut.observable if n in seen)

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        feeds = self._artefact.feeds(inputs)
        return self._call(self._module(feeds, frozenset()), feeds, frozenset())

    def trace(self, inputs: Arrays, watch: Collection[str], builder: TraceBuilder) -> Trace:
        feeds = self._artefact.feeds(inputs)
        for name, array in feeds.items():
            builder.add(name, array)
        inner = frozenset(watch) - frozenset(self._cut.outputs)
        self._show(feeds, inner, inner | frozenset(self._cut.outputs), builder)
        return builder.done()

    def _show(
        self, feeds: Arrays, inner: frozenset[str], wanted: frozenset[str], builder: TraceBuilder
    ) -> None:
        """Run with inner tensors watched and add what is wanted to the trace."""
        found = self._call(self._module(feeds, inner), feeds, inner)
        for name in self._cut.observable:
            if name in found and name in wanted:
                builder.add(name, found[name])
