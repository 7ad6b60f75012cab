"""PyTorch itself: eager, the exported graph node by node, other precisions, and torch.compile."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from twinnet.engines import find_engine
from twinnet.engines.base import Abilities, Engine, Session, one_of, positive, read_options, switch
from twinnet.engines.timing import Timed
from twinnet.errors import EngineError, MissingExtra, UsageError, guarded
from twinnet.job import Arrays, Job
from twinnet.network import ModuleNetwork, Network
from twinnet.programs.trial import announces_amx, try_out
from twinnet.signature import by_position
from twinnet.site import Site
from twinnet.trace import Trace, TraceBuilder

if TYPE_CHECKING:
    import torch

    from twinnet.layers import Graph

__all__ = ["TorchEngine", "TorchSession", "try_narrow"]

_DTYPES = ("float32", "float64", "bfloat16", "float16")
_TRIAL = Path(__file__).with_name("_torch_trial.py")


class TorchEngine(Engine):
    """Runs modules and exported programs."""

    name: ClassVar[str] = "torch"
    summary: ClassVar[str] = "PyTorch, CPU: eager, exported graph, torch.compile"
    abilities: ClassVar[Abilities] = Abilities(
        capture=True, segment="cheap", profile=True, note="compile=1 shows outputs only"
    )
    packages: ClassVar[tuple[str, ...]] = ("torch",)
    takes = "network"
    suffixes: ClassVar[tuple[str, ...]] = (".pt2",)
    formats: ClassVar[tuple[str, ...]] = ("PyTorch", "exported program")
    options: ClassVar[Mapping[str, str]] = {
        "dtype": "float32|float64|bfloat16|float16 (default: the network's own)",
        "compile": "0|1 (default 0)",
        "threads": "a number (default: torch's own)",
        "sites": "lut (name the sites as that engine does)",
    }

    def version(self) -> str:
        try:
            import torch
        except ImportError:
            raise MissingExtra("PyTorch", "torch") from None
        return torch.__version__

    def open(
        self, network: Network | None, options: Mapping[str, str], file: str | None, job: Job
    ) -> Session:
        chosen = read_options(
            self, options, dtype=one_of(*_DTYPES), compile=switch, threads=positive, sites=str
        )
        from twinnet.network import load_network

        if file is not None:
            network = load_network(file)
        if network is None:
            raise UsageError("no network and no file to load")
        if "sites" in chosen:
            return find_engine(chosen["sites"]).named_sites(network, job)
        if not isinstance(network, ModuleNetwork):
            raise UsageError(
                f"the torch engine runs modules and exported programs, not {network.format} files",
                hint="use onnxruntime or onnx-reference for this network"
                if network.format == "ONNX"
                else None,
            )
        return TorchSession(
            network,
            job,
            dtype=chosen.get("dtype"),
            compiled=chosen.get("compile", False),
            threads=chosen.get("threads", job.threads),
        )


def try_narrow(precision: str) -> None:
    """An `EngineError` where PyTorch would end this process if it computed in `precision`.

    >>> try_narrow("float32")
    """
    if precision in ("bfloat16", "float16") and announces_amx():
        try_out("torch", _TRIAL, precision)


class TorchSession(Session):
    """A module. Tensors are observed by walking its exported graph; if export fails, by hooks on eager execution."""

    engine = "torch"

    def __init__(
        self,
        network: ModuleNetwork,
        job: Job,
        *,
        dtype: str | None = None,
        compiled: bool = False,
        threads: int | None = None,
    ) -> None:
        import torch

        self.version = torch.__version__
        self.network = network
        self.signature = network.signature
        # A separate module may name its inputs differently: they are then mapped by position.
        self._names = by_position(job.inputs, [spec.name for spec in network.signature.inputs])
        self._job = job = replace(job, inputs=self._mine(job.inputs))
        self._dtype = getattr(torch, dtype) if dtype else None
        self._own = own_precision(network)
        self.precision = dtype or self._own
        try_narrow(self.precision)
        self._threads = threads
        self._compiled = compiled
        self._kept: frozenset[str] = frozenset()
        self.notes = ()
        with job.step("export"):
            self._program = network.exported(job.inputs)
        if self._program is None:
            self.notes = (f"torch.export failed {network.failure.what}; tensors observed in eager mode",)
        self._module = network.module if self._dtype is None else _converted(network, self._dtype)
        self._callable = torch.compile(self._module, dynamic=False) if compiled else self._module

    def _mine(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """A sample under the network's own input names."""
        return {self._names.get(name, name): array for name, array in inputs.items()}

    # -- a part in the network's own precision -----------------------------------------------------------------

    def in_float(self, targets: Collection[str], known: Collection[str]) -> TorchSession:
        """A copy of this session that computes `targets` from `known` in the network's own precision.

        Those operators read the network's own weights; their results are rounded where a narrow operator reads them.
        """
        if self._program is None or self._dtype is None or self._compiled:
            raise EngineError(
                "only an exported network that runs in another dtype can keep a part in its own precision",
                stage="run",
            )
        from twinnet.engines._exported import nodes_between

        session = copy.copy(self)
        session._kept = nodes_between(self._program, targets, known)
        return session

    # -- what can be observed ------------------------------------------------------------------------------------

    @cached_property
    def _graph(self) -> Graph | None:
        if self._program is None:
            return None
        from twinnet.layers.read_fx import read_fx

        return read_fx(self._program)

    def graph(self) -> Graph | None:
        return self._graph

    @cached_property
    def _output_nodes(self) -> tuple[str, ...]:
        """Value names of the outputs, in order, as the exported graph calls them."""
        if self._program is None:
            return tuple(o.name for o in self.network.signature.outputs)
        from twinnet.network import output_nodes

        return tuple(output_nodes(self._program).values())

    @property
    def inputs(self) -> dict[str, str]:
        if self._program is None:
            own = {i.name: i.name for i in self.signature.inputs}
        else:
            own = self.network.placeholders(self._program)
        back = {mine: name for name, mine in self._names.items()}
        return {back.get(name, name): value for name, value in own.items()}

    @property
    def output_tensors(self) -> tuple[str, ...]:
        return self._output_nodes

    @cached_property
    def sites(self) -> tuple[Site, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        outputs = dict.fromkeys(self._output_nodes)
        if self._compiled:
            return tuple(Site(n, node=n, op="output", role="output") for n in outputs)
        if self._graph is None:
            from twinnet.engines._eager import eager_sites

            return eager_sites(self.network, self._job.inputs)
        static = self._graph.static
        return tuple(
            layer.site(index, role="output" if name in outputs else "inner")
            for layer in self._graph
            for index, name in enumerate(layer.outputs)
            if name and (name not in static or name in outputs)
        )

    # -- running -------------------------------------------------------------------------------------------------

    def _tensors(self, inputs: Arrays) -> dict[str, Any]:
        from twinnet.engines._exported import cast
        from twinnet.network.arrays import to_tensor

        return {name: cast(to_tensor(np.array(a)), self._dtype) for name, a in inputs.items()}

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        from twinnet.network.arrays import to_numpy

        if self._kept:
            trace = self.trace(inputs, (), TraceBuilder())
            return {name: trace[name] for name in self._output_nodes}
        what = "compile and run the network" if self._compiled else "run the network"
        with self._job.step("run"), _threads(self._threads):
            module = guarded(self._callable, what, "torch")
            results = self.network.call(self._tensors(self._mine(inputs)), module=module)
        # A copy: an output may be a view of a parameter or of an input.
        return {name: np.array(to_numpy(t)) for name, t in results.items()}

    def trace(self, inputs: Arrays, watch: Collection[str], builder: TraceBuilder) -> Trace:
        return self._traced(inputs, {}, watch, builder)

    def retrace(
        self, inputs: Arrays, patches: Arrays, watch: Collection[str], builder: TraceBuilder
    ) -> Trace:
        if self._compiled:
            return super().retrace(inputs, patches, watch, builder)
        return self._traced(inputs, patches, watch, builder)

    def part(self, tensor: str, known: Collection[str], values: Arrays) -> np.ndarray:
        if self._program is None:
            raise EngineError(
                "torch.export failed: there is no graph that a part could be cut from", stage="cut"
            )
        if self._compiled:
            raise EngineError("torch.compile shows outputs only: the segment is the whole twin", stage="cut")
        from twinnet.engines._exported import nodes_between, values_read

        only = nodes_between(self._program, [tensor], known)
        given = {n: np.asarray(values[n]) for n in values_read(self._program, only) if n in known}
        with self._job.step("run"), _threads(self._threads):
            return self._walk({}, {tensor}, TraceBuilder(), given, only)[tensor]

    def profile(self, inputs: Arrays, repeats: int = 10) -> Timed:
        from twinnet.engines._torch_profile import Call, operators_of, timed_module

        if self._program is None:
            raise EngineError(
                f"torch.export failed {self.network.failure.what}: operators cannot be told apart",
                stage="profile",
            )
        expected = operators_of(self._program)
        if self._compiled:
            expected = [Call("torch.compile", self._output_nodes)]
        tensors = self._tensors(self._mine(inputs))
        module = guarded(self._callable, "run the network", "torch")

        def ready() -> Any:
            # Copies: a module may change its inputs.
            args, kwargs = self.network.unflatten({n: t.clone() for n, t in tensors.items()})
            return lambda: module(*args, **kwargs)

        with self._job.step("run"), _threads(self._threads):
            return timed_module(ready, expected, repeats)

    @property
    def size(self) -> int | None:
        return sum(t.nbytes for t in self._module.state_dict().values() if hasattr(t, "nbytes"))

    def _traced(
        self, inputs: Arrays, patches: Arrays, watch: Collection[str], builder: TraceBuilder
    ) -> Trace:
        if self._compiled:
            for name, array in self._mine(inputs).items():
                builder.add(name, np.asarray(array))
            for node, array in zip(self._output_nodes, self.run(inputs).values(), strict=False):
                builder.add(node, array)
            return builder.done()
        if self._program is None:
            from twinnet.engines._eager import eager_trace

            return eager_trace(
                self.network,
                self._module,
                self._tensors(self._mine(inputs)),
                watch,
                builder,
                self._tensors(patches),
            )
        with self._job.step("run"), _threads(self._threads):
            return self._walk(inputs, {*watch, *self._output_nodes}, builder, patches)

    def _walk(
        self,
        inputs: Arrays,
        wanted: Collection[str],
        builder: TraceBuilder,
        patches: Arrays,
        only: Collection[str] | None = None,
    ) -> Trace:
        import torch

        from twinnet.engines._exported import Walk

        names = self.inputs
        walk = Walk(self._program, names.values(), self._dtype, getattr(torch, self._own), self._kept)
        tensors = {names.get(name, name): tensor for name, tensor in self._tensors(inputs).items()}
        return walk.trace(tensors, wanted, builder, self._tensors(patches), only)


def own_precision(network: Network) -> str:
    """The widest float format among the network's parameters, else float32."""
    import torch

    state = network.state() if isinstance(network, ModuleNetwork) else {}
    names = {str(p.dtype).removeprefix("torch.") for p in state.values() if isinstance(p, torch.Tensor)}
    return next((d for d in ("float64", "float32", "bfloat16", "float16") if d in names), "float32")


def _converted(network: ModuleNetwork, dtype: torch.dtype) -> torch.nn.Module:
    from twinnet.engines._exported import cast

    # Not `module.to(dtype)`: of complex parameters that keeps the real part only.
    return copy.deepcopy(network.module)._apply(lambda tensor: cast(tensor, dtype))


@contextlib.contextmanager
def _threads(count: int | None) -> Iterator[None]:
    """torch's thread count inside a block."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
