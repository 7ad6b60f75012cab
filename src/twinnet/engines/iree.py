"""IREE on the CPU: ONNX is imported, compiled by LLVM and run, each step in a separate process."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from twinnet.engines._compiled_session import CompiledSession
from twinnet.engines.base import Abilities, Engine, Session, Standalone, one_of, positive, read_options
from twinnet.engines.timing import Timed
from twinnet.errors import EngineError, MissingExtra, undoing
from twinnet.job import Arrays, Job
from twinnet.trace import TraceBuilder

if TYPE_CHECKING:
    import onnx

    from twinnet.engines._compiled_model import Prepared
    from twinnet.engines._iree_tools import Compiler, Module
    from twinnet.network import Network
    from twinnet.onnx.export import OnnxArtefact

__all__ = ["IreeEngine"]


class IreeEngine(Engine):
    """Compiles ONNX files, and torch networks after exporting them to ONNX."""

    name: ClassVar[str] = "iree"
    extra: ClassVar[str | None] = "iree"
    summary: ClassVar[str] = "IREE, llvm-cpu"
    abilities: ClassVar[Abilities] = Abilities(capture=True, segment="compile", profile=True)
    packages: ClassVar[tuple[str, ...]] = ("iree-base-compiler", "iree-base-runtime")
    takes = "onnx"
    board: ClassVar[tuple[str, ...] | None] = ()
    calmer: ClassVar[tuple[Mapping[str, str], ...]] = ({"opt": "O0"},)
    settings: ClassVar[Mapping[str, tuple[str, ...]]] = {"opt": ("O0", "O1", "O2", "O3")}
    options: ClassVar[Mapping[str, str]] = {
        "opt": "O0|O1|O2|O3 (default: the compiler's own)",
        "cpu": "host|generic|a name that LLVM knows (default host, on a board generic)",
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
        from twinnet.engines._iree_alone import iree_flags
        from twinnet.engines._iree_tools import Compiler
        from twinnet.onnx.export import onnx_artefact

        artefact = onnx_artefact(network, file, job)
        if job.place.name:
            chosen = {**_for_machine(job.place.machine), **chosen}
        compiler = Compiler(tuple(iree_flags(chosen)), job, chosen.get("ir", "phases"))
        threads = chosen.get("threads", job.threads) or 1
        static = chosen.get("shapes", "static") == "static"
        return IreeSession(artefact, compiler, threads, static, job, version)

    def standalone(self) -> Standalone:
        from twinnet.engines._iree_alone import iree_flags, iree_problem, run_iree
        from twinnet.engines._onnx_alone import typed_model

        helpers = (typed_model, iree_flags, iree_problem)
        return Standalone(run_iree, helpers, "iree.compiler", ("onnx", *self.packages))


def _for_machine(machine: str) -> dict[str, str]:
    """Options that compile for a board with this processor, as far as they are not given."""
    found = {"cpu": "generic"}
    if machine != platform.machine():
        found["flag.iree-llvmcpu-target-triple"] = f"{machine}-unknown-linux-gnu"
    return found


class IreeSession(CompiledSession["Module"]):
    """One model under one set of flags. Watched tensors are outputs of a second module, compiled when first needed."""

    engine = "iree"

    def __init__(
        self, artefact: OnnxArtefact, compiler: Compiler, threads: int, static: bool, job: Job, version: str
    ) -> None:
        from twinnet.engines._iree_alone import OPSETS

        oldest, opset = OPSETS
        super().__init__(artefact, job, name="iree", static=static, oldest=oldest, opset=opset)
        self.version = version
        self._compiler = compiler
        self._device = (
            ["--device=local-sync"]
            if threads == 1
            else ["--device=local-task", f"--task_topology_group_count={threads}"]
        )
        self._room = job.place.room("iree")
        with undoing(self.close):
            self._module(artefact.feeds(job.inputs), frozenset())

    def close(self) -> None:
        self._room.close()

    def _compile(self, model: onnx.ModelProto, prepared: Prepared, outputs: tuple[str, ...]) -> Module:
        model.graph.name = "network"
        # The IR shown is that of the network as deployed, compiled for the first sample.
        show = None if self._modules else self._job.ir_folder
        return self._compiler.compile(model, prepared.inputs, outputs, show)

    def _call(self, module: Module, feeds: Arrays, watch: frozenset[str]) -> dict[str, np.ndarray]:
        from twinnet.engines._iree_tools import run_module

        found: dict[str, np.ndarray] = {}
        run_module(module, feeds, self._device, self._room, self._job, found.__setitem__)
        return found

    def _show(self, module: Module, feeds: Arrays, inner: frozenset[str], builder: TraceBuilder) -> None:
        from twinnet.engines._iree_tools import run_module

        def keep(name: str, array: np.ndarray) -> None:
            if name in inner or name in self._cut.outputs:
                builder.add(name, array)

        # One tensor at a time, so that the builder can move them to disk.
        run_module(module, feeds, self._device, self._room, self._job, keep)

    def profile(self, inputs: Arrays, repeats: int = 10) -> Timed:
        if self._job.place.name:
            raise EngineError("iree measures times per layer on this machine only", stage="profile")
        from twinnet.engines._iree_profile import dispatch_times, dispatched_nodes

        feeds = self._artefact.feeds(inputs)
        module = self._module(feeds, frozenset())
        model, _ = self._prepared(feeds).tapped(())
        model.graph.name = "network"
        calls = dispatched_nodes(self._compiler, model)
        return dispatch_times(module, feeds, self._device, self._job, max(repeats, 1), calls)

    def passes(self) -> tuple[tuple[str, float], ...]:
        from twinnet.engines._iree_profile import pass_times

        model, _ = self._prepared(self._artefact.feeds(self._job.inputs)).tapped(())
        model.graph.name = "network"
        return pass_times(self._compiler, model)

    @property
    def size(self) -> int | None:
        return self._module(self._artefact.feeds(self._job.inputs), frozenset()).file.stat().st_size
