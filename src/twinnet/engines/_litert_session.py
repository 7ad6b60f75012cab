"""A TFLite network under LiteRT, tapped by an interpreter that keeps all tensors."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from twinnet.engines._litert_child import Child, Loaded
from twinnet.engines.base import Part, Session
from twinnet.engines.timing import WARM_UP, Timed
from twinnet.errors import EngineError, undoing
from twinnet.job import Arrays, Job
from twinnet.network import ModuleNetwork, Network
from twinnet.signature import Signature, by_position
from twinnet.site import Site
from twinnet.tflite.cut import Cutter, between
from twinnet.tflite.ends import given_name, shown_name, stored, view_for
from twinnet.tflite.model import Tensor
from twinnet.tflite.names import module_of
from twinnet.tflite.network import TfliteNetwork
from twinnet.tflite.view import View, last_to_first
from twinnet.trace import Trace, TraceBuilder

if TYPE_CHECKING:
    from twinnet.layers import Graph

__all__ = ["LiteRtSession", "Settings"]


@dataclass(frozen=True, slots=True)
class Settings:
    """How files are loaded: kernel set, threads, and the library of an external delegate."""

    kernels: str
    threads: int
    delegate: str | None = None


class LiteRtSession(Session):
    """One file under one set of options.

    `run` uses an interpreter as it is deployed. Tensors are shown by a second one, which keeps them all: without that
    their memory is used again, and what is read there later is something else.
    """

    engine = "litert"

    def __init__(
        self, tflite: TfliteNetwork, network: Network | None, settings: Settings, job: Job, version: str
    ) -> None:
        self.network = tflite
        self.version = version
        self.setting = f"kernels={settings.kernels}"
        self.precision = tflite.quantised or "float32"
        self.signature: Signature = tflite.signature
        if others := tflite.model.others:
            self.notes = (f"{tflite.name} has more signatures, which are not checked: {', '.join(others)}",)
        self._settings = settings
        self._job = job
        self._graph = tflite.model.main
        ours = [i.name for i in network.signature.inputs] if network is not None else []
        labels = [label for label, _ in tflite.model.inputs]
        back = {theirs: mine for mine, theirs in by_position(ours, labels).items()}
        self._given = {back.get(label, label): tensor for label, tensor in tflite.model.inputs}
        self.view: View = view_for(tflite, network, {t: job.inputs.get(n) for n, t in self._given.items()})
        self._modules = _modules(network)
        self._child = Child(job)
        self._file = tflite.path
        if self._file is None:
            self._file = self._child.folder / "network.tflite"
            self._file.write_bytes(tflite.data)
        self._loaded: dict[tuple[bool, tuple[Any, ...]], Loaded] = {}
        with undoing(self.close):
            self._interpreter(self._feeds(job.inputs), preserve=False)

    # -- names and forms -----------------------------------------------------------------------------------------------

    @property
    def inputs(self) -> dict[str, str]:
        return {name: given_name(self._graph.tensors[t], self.view) for name, t in self._given.items()}

    @property
    def output_tensors(self) -> tuple[str, ...]:
        return tuple(shown_name(self._graph.tensors[t], self.view) for t in self._graph.outputs)

    @cached_property
    def _by_name(self) -> dict[str, Tensor]:
        return {t.name: t for t in self._graph.tensors}

    @cached_property
    def _computed(self) -> frozenset[int]:
        """Tensors that depend on an input of the network."""
        found = set(self._graph.inputs)
        for op in self._graph.operators:
            if any(t in found for t in op.inputs) or not any(t >= 0 for t in op.inputs):
                found.update(t for t in op.outputs if t >= 0)
        return frozenset(found)

    @cached_property
    def sites(self) -> tuple[Site, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Every tensor that an operator computes from the inputs; integer outputs also as real numbers."""
        ends, found = set(self._graph.outputs), []
        for op in self._graph.operators:
            for place, index in enumerate(op.outputs):
                if index < 0 or index not in self._computed:
                    continue
                tensor = self._graph.tensors[index]
                real = index in self.view.real
                role = "output" if index in ends and not real else "inner"
                module = module_of(tensor.name, self._modules)
                found.append(Site(tensor.name, tensor.name, op.label, module, index=place, role=role))
                if real and index in ends:
                    found.append(Site(f"{tensor.name}/real", tensor.name, op.label, module, role="output"))
        shown = {s.tensor for s in found}
        for name in self.output_tensors:
            if name not in shown:
                found.append(Site(name, name, "Constant", role="output"))
        return tuple(found)

    def graph(self) -> Graph | None:
        return self._layers

    @cached_property
    def _layers(self) -> Graph:
        from twinnet.tflite.read import read_tflite

        return read_tflite(self.network.model, self.view, self._modules, self._settings.kernels)

    @property
    def random(self) -> str:
        drawn = {"RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL", "MULTINOMIAL"}
        return next((op.op for op in self._graph.operators if op.op in drawn), "")

    def _feeds(self, inputs: Arrays) -> dict[int, np.ndarray]:
        """A sample in the form of the file, by tensor."""
        found: dict[int, np.ndarray] = {}
        for name, index in self._given.items():
            if name not in inputs:
                raise EngineError(f"the network takes an input {name} that is not given", stage="run")
            found[index] = stored(self._graph.tensors[index], self.view, np.asarray(inputs[name]), given=True)
        return found

    def _seen(self, tensor: Tensor, array: np.ndarray) -> np.ndarray:
        """A value of the file, as it is seen."""
        if self.view.seen_first(tensor.index) and array.ndim == 4:
            return np.ascontiguousarray(array.transpose(last_to_first(4)))
        return array

    def _real(self, tensor: Tensor, array: np.ndarray) -> np.ndarray:
        assert tensor.steps is not None
        centred = array.astype(np.float64) - tensor.steps.zero[0]
        return (centred * tensor.steps.scale[0]).astype(np.float32)

    # -- runs ----------------------------------------------------------------------------------------------------------

    def _interpreter(self, feeds: Mapping[int, np.ndarray], *, preserve: bool) -> Loaded:
        shapes = tuple((t, a.shape) for t, a in feeds.items())
        key = (preserve, shapes)
        if key not in self._loaded:
            for old in [k for k in self._loaded if k[0] == preserve]:
                self._loaded.pop(old).drop()
            assert self._file is not None
            self._loaded[key] = self._child.load(self._file, self._load_settings(shapes, preserve))
        return self._loaded[key]

    def _load_settings(
        self, shapes: Collection[tuple[int, tuple[int, ...]]], preserve: bool
    ) -> dict[str, Any]:
        s = self._settings
        return {
            "kernels": s.kernels,
            "threads": s.threads,
            "delegate": s.delegate,
            "preserve": preserve,
            "shapes": {str(t): list(shape) for t, shape in shapes},
        }

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        feeds = self._feeds(inputs)
        found = dict(self._interpreter(feeds, preserve=False).run(feeds, self._graph.outputs))
        made: dict[str, np.ndarray] = {}
        for (label, index), _ in zip(self.network.model.outputs, self._graph.outputs, strict=True):
            tensor = self._graph.tensors[index]
            if index not in found:
                raise EngineError(f"litert did not give the output {label}", stage="run the network")
            array = self._seen(tensor, found[index])
            made[label] = self._real(tensor, array) if index in self.view.real else array
        return made

    def trace(self, inputs: Arrays, watch: Collection[str], builder: TraceBuilder) -> Trace:
        feeds = self._feeds(inputs)
        for name, graph_name in self.inputs.items():
            builder.add(graph_name, np.asarray(inputs[name]))
        wanted = {self._by_name[n].index for n in watch if n in self._by_name} | set(self._graph.outputs)
        for index in self._graph.inputs:
            tensor = self._graph.tensors[index]
            if index in self.view.real and tensor.name in watch:
                builder.add(tensor.name, self._seen(tensor, feeds[index]))
        asked = sorted(t for t in wanted if t in self._computed and t not in feeds)
        for index, array in self._interpreter(feeds, preserve=True).run(feeds, asked):
            self._show(index, array, watch, builder)
        return builder.done()

    # -- pieces --------------------------------------------------------------------------------------------------------

    @cached_property
    def _cutter(self) -> Cutter:
        return Cutter(self.network.data)

    def _known_tensors(self, known: Collection[str], values: Arrays) -> dict[int, np.ndarray]:
        """Known values in the form of the file, by tensor; of an integer input both forms are known."""
        found: dict[int, np.ndarray] = {}
        ends = {given_name(self._graph.tensors[t], self.view): t for t in self._graph.inputs}
        for name in known:
            if name not in values:
                continue
            index = ends.get(name)
            if index is not None:
                found[index] = stored(
                    self._graph.tensors[index], self.view, np.asarray(values[name]), given=True
                )
            elif name in self._by_name and self._by_name[name].index in self._computed:
                tensor = self._by_name[name]
                found[tensor.index] = stored(tensor, self.view, np.asarray(values[name]))
        return found

    def _target(self, tensor: str) -> tuple[Tensor, bool]:
        """The tensor of the file behind a name, and whether it is shown as real numbers."""
        if tensor in self._by_name:
            return self._by_name[tensor], False
        return self._by_name[tensor.removesuffix("/real")], True

    def cut(self, tensor: str, known: Collection[str], values: Arrays) -> Part | None:
        target, _ = self._target(tensor)
        fed = self._known_tensors(set(known) - {tensor}, values)
        fed.pop(target.index, None)
        operators, read = between(self._graph, [target.index], fed)
        data, _ = self._cutter.cut(operators, read, [target.index])
        turned = self.view.seen_first(target.index)
        return Part(
            data,
            ".tflite",
            tuple(self._graph.operators[i].op for i in operators),
            {self._graph.tensors[t].name: fed[t] for t in read},
            target.name,
            last_to_first(4) if turned else None,
        )

    def _run_cut(
        self, fed: Mapping[int, np.ndarray], outputs: Collection[int], *, preserve: bool
    ) -> dict[int, np.ndarray]:
        """Run what makes these tensors from those given, in a child of its own: a crash there does no harm."""
        operators, read = between(self._graph, outputs, fed)
        data, place = self._cutter.cut(operators, read, list(outputs))
        child = Child(self._job)
        try:
            file = child.folder / "part.tflite"
            file.write_bytes(data)
            feeds = {place[t]: fed[t] for t in read}
            shapes = [(t, a.shape) for t, a in feeds.items()]
            loaded = child.load(file, self._load_settings(shapes, preserve))
            found = dict(loaded.run(feeds, [place[t] for t in outputs]))
        finally:
            child.close()
        back = {i: t for t, i in place.items()}
        return {back[i]: array for i, array in found.items()}

    def part(self, tensor: str, known: Collection[str], values: Arrays) -> np.ndarray:
        target, real = self._target(tensor)
        fed = self._known_tensors(set(known) - {tensor}, values)
        fed.pop(target.index, None)
        found = self._run_cut(fed, [target.index], preserve=False)
        if target.index not in found:
            raise EngineError(f"litert did not give {target.name}", stage="cut")
        array = self._seen(target, found[target.index])
        return self._real(target, array) if real else array

    def retrace(
        self, inputs: Arrays, patches: Arrays, watch: Collection[str], builder: TraceBuilder
    ) -> Trace:
        fed = self._feeds(inputs)
        for name, graph_name in self.inputs.items():
            builder.add(graph_name, np.asarray(inputs[name]))
        for name, value in patches.items():
            tensor, _ = self._target(name)
            fed[tensor.index] = stored(tensor, self.view, np.asarray(value))
            builder.add(name, np.asarray(value))
        wanted = {self._target(n)[0].index for n in (*watch, *self.output_tensors)} & self._computed
        wanted -= set(fed)
        if not wanted:
            return builder.done()
        for index, array in self._run_cut(fed, sorted(wanted), preserve=False).items():
            self._show(index, array, watch, builder)
        return builder.done()

    def _show(self, index: int, array: np.ndarray, watch: Collection[str], builder: TraceBuilder) -> None:
        """Add a computed tensor to the trace; an output of integers also in real numbers."""
        tensor = self._graph.tensors[index]
        value = self._seen(tensor, array)
        if tensor.name in watch or index not in self.view.real:
            builder.add(tensor.name, value)
        if index in self.view.real and index in self._graph.outputs:
            builder.add(f"{tensor.name}/real", self._real(tensor, value))

    def profile(self, inputs: Arrays, repeats: int = 10) -> Timed:
        """The runtime shows no times of operators: each is cut out and timed alone, on the values of a whole run."""
        from twinnet.engines._litert_profile import operator_times

        feeds = self._feeds(inputs)
        runs = WARM_UP + max(repeats, 1)
        whole, cpu = self._interpreter(feeds, preserve=False).time(feeds, runs)
        wanted = sorted(t for t in self._computed if t not in feeds)
        # By the plain kernels: a delegate keeps what is inside it to itself.
        shapes = [(t, a.shape) for t, a in feeds.items()]
        plain = {**self._load_settings(shapes, True), "kernels": "builtin", "delegate": None}
        assert self._file is not None
        seen = self._child.load(self._file, plain)
        values = {**feeds, **dict(seen.run(feeds, wanted))}
        seen.drop()
        with contextlib.closing(Child(self._job)) as child:
            steps = operator_times(
                self._graph, self._cutter, values, self._computed, child, self._load_settings, runs
            )
        more, more_cpu = self._interpreter(feeds, preserve=False).time(feeds, runs)
        times, spent = (*whole[WARM_UP:], *more[WARM_UP:]), (*cpu[WARM_UP:], *more_cpu[WARM_UP:])
        return Timed(steps, times, times, spent, alone=True)

    @property
    def size(self) -> int | None:
        return len(self.network.data)

    def close(self) -> None:
        self._loaded.clear()
        self._child.close()


def _modules(network: Network | None) -> frozenset[str]:
    """Paths of the modules of a PyTorch network."""
    named = network.module.named_modules() if isinstance(network, ModuleNetwork) else ()
    return frozenset(name for name, _ in named if name)
