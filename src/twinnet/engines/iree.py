"""IREE on the CPU: ONNX is imported, compiled by LLVM and run, each step in a process of its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from twinnet.engines._onnx_session import OnnxSession
from twinnet.engines.base import (
    Abilities,
    Arrays,
    Engine,
    Job,
    LayerTime,
    Session,
    one_of,
    positive,
    read_options,
)
from twinnet.errors import MissingExtra
from twinnet.site import Site
from twinnet.trace import Trace, TraceBuilder

if TYPE_CHECKING:
    from twinnet.engines._compiled_model import Prepared
    from twinnet.engines._export import OnnxArtefact
    from twinnet.engines._iree_tools import Compiler, Module
    from twinnet.network import Network

__all__ = ["IreeEngine"]


class IreeEngine(Engine):
    """Compiles ONNX files, and torch networks after exporting them to ONNX."""

    name: ClassVar[str] = "iree"
    extra: ClassVar[str | None] = "iree"
    summary: ClassVar[str] = "IREE, llvm-cpu"
    abilities: ClassVar[Abilities] = Abilities(capture=True, segment="compile", profile=True)
    options: ClassVar[Mapping[str, str]] = {
        "opt": "O0|O1|O2|O3 (default: the compiler's own)",
        "cpu": "host|generic|a name that LLVM knows (default host)",
        "threads": "a number (default 1)",
        "shapes": "static|dynamic (default static: compiled for the shapes of the sample)",
        "f64": "keep|demote (default keep; demote is the compiler's own default)",
        "ir": "phases|passes (default phases: what --debug-ir writes)",
        "flag.NAME": "a flag of iree-compile, without its dashes",
    }

    def version(self) -> str:
        from importlib.util import find_spec

        if find_spec("onnx") is None:
            raise MissingExtra("onnx", "iree")
        from twinnet.engines._iree_tools import iree_version

        return iree_version()

    def open(
        self, network: Network | None, options: Mapping[str, str], file: str | None, job: Job
    ) -> Session:
        chosen = read_options(
            self,
            options,
            opt=one_of("O0", "O1", "O2", "O3"),
            cpu=str,
            threads=positive,
            shapes=one_of("static", "dynamic"),
            f64=one_of("keep", "demote"),
            ir=one_of("phases", "passes"),
            **{"flag.": str},
        )
        version = self.version()
        from twinnet.engines._export import onnx_artefact
        from twinnet.engines._iree_alone import iree_flags
        from twinnet.engines._iree_tools import Compiler

        artefact = onnx_artefact(network, file, job)
        compiler = Compiler(tuple(iree_flags(chosen)), job, chosen.get("ir", "phases"))
        threads = chosen.get("threads", job.threads) or 1
        static = chosen.get("shapes", "static") == "static"
        return IreeSession(artefact, compiler, threads, static, job, version)


class IreeSession(OnnxSession):
    """One model under one set of flags. Watched tensors are outputs of a second module, compiled when first needed."""

    engine = "iree"

    def __init__(
        self,
        artefact: OnnxArtefact,
        compiler: Compiler,
        threads: int,
        static: bool,
        job: Job,
        version: str,
    ) -> None:
        super().__init__(artefact)
        self.version = version
        self._compiler = compiler
        self._static = static
        self._job = job
        self._device = (
            ["--device=local-sync"]
            if threads == 1
            else ["--device=local-task", f"--task_topology_group_count={threads}"]
        )
        self._shapes: dict[tuple[object, ...], Prepared] = {}
        self._modules: dict[tuple[tuple[object, ...], frozenset[str]], Module] = {}
        first = self._prepared(artefact.feeds(job.inputs))
        if first.converted_from:
            self.notes = (
                f"iree: the ONNX model was converted from opset {first.converted_from} to 17 before its import",
            )
        self._module(artefact.feeds(job.inputs), frozenset())

    # -- compiling -----------------------------------------------------------------------------------------------

    def _shape(self, feeds: Arrays) -> tuple[object, ...]:
        return tuple((n, feeds[n].shape) for n in sorted(feeds)) if self._static else ()

    def _prepared(self, feeds: Arrays) -> Prepared:
        from twinnet.engines._compiled_model import prepare
        from twinnet.engines._iree_alone import OPSETS

        key = self._shape(feeds)
        if key not in self._shapes:
            oldest, opset = OPSETS
            made = prepare(
                self._artefact.network.complete(), feeds, static=self._static, oldest=oldest, opset=opset
            )
            made.model.graph.name = "network"
            self._shapes[key] = made
        return self._shapes[key]

    def _module(self, feeds: Arrays, watch: frozenset[str]) -> Module:
        """A module that shows at least these tensors; without any it is the network as deployed."""
        shape = self._shape(feeds)
        for (other, taps), module in self._modules.items():
            if other == shape and (taps == watch if not watch else watch <= taps):
                return module
        prepared = self._prepared(feeds)
        model, outputs = prepared.tapped(watch)
        # What is looked at is the network as deployed, compiled for the first sample.
        show = None if watch or self._modules else self._job.ir_folder
        module = self._compiler.compile(model, prepared.inputs, outputs, show)
        self._modules[shape, watch] = module
        return module

    # -- running -------------------------------------------------------------------------------------------------

    @property
    def sites(self) -> tuple[Site, ...]:
        prepared = self._prepared(self._artefact.feeds(self._job.inputs))
        seen = {*prepared.taps, *prepared.outputs}
        return self._sites_of(n for n in self._cut.observable if n in seen)

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        from twinnet.engines._iree_tools import run_module

        feeds = self._artefact.feeds(inputs)
        found: dict[str, np.ndarray] = {}
        run_module(self._module(feeds, frozenset()), feeds, self._device, self._job, found.__setitem__)
        return found

    def trace(self, inputs: Arrays, watch: Collection[str], builder: TraceBuilder) -> Trace:
        from twinnet.engines._iree_tools import run_module

        feeds = self._artefact.feeds(inputs)
        for name, array in feeds.items():
            builder.add(name, array)
        wanted = frozenset(watch) | frozenset(self._cut.outputs)
        module = self._module(feeds, wanted - frozenset(self._cut.outputs))

        def keep(name: str, array: np.ndarray) -> None:
            if name in wanted:
                builder.add(name, array)

        run_module(module, feeds, self._device, self._job, keep)
        return builder.done()

    def profile(self, inputs: Arrays, repeats: int = 10) -> tuple[LayerTime, ...]:
        from twinnet.engines._iree_profile import dispatch_times, dispatched_nodes

        feeds = self._artefact.feeds(inputs)
        module = self._module(feeds, frozenset())
        calls = dispatched_nodes(self._compiler, self._prepared(feeds).model)
        return dispatch_times(module, feeds, self._device, self._job, max(repeats, 1), calls)
