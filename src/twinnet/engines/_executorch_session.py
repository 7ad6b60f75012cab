"""Sessions of ExecuTorch programs: converted here, or files that somebody else made."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twinnet.engines._executorch_home import Dumped, Home, executorch_version
from twinnet.engines._executorch_made import Lowering, Made, make, make_tapped, program_of, taps_of
from twinnet.engines._executorch_names import counted_names, integer_biases, quantised_names, same_names
from twinnet.engines._executorch_profile import layer_times
from twinnet.engines.base import LayerTime, Session
from twinnet.errors import EngineError, UsageError
from twinnet.executorch import DebugBuffer, Record, Shown, read_dump, read_record, shown_tensors, tensors_of
from twinnet.files import atomic_write
from twinnet.job import Arrays, Job
from twinnet.signature import Signature, TensorSpec, by_position
from twinnet.site import Site
from twinnet.trace import Trace, TraceBuilder

if TYPE_CHECKING:
    from twinnet.layers import Graph

__all__ = ["ConvertedSession", "FileSession"]

_OTHER_RESULT = 1e-4
"""A result that moves by this share of its size is not the one that ships."""


class _ProgramSession(Session):
    """A program in a worker. What its runtime logs is shown; a subclass says which program runs."""

    engine = "executorch"
    _method = "forward"

    def __init__(self, home: Home, job: Job) -> None:
        self.version = executorch_version()
        self._home, self._job = home, job

    @abstractmethod
    def _program(self, inputs: Arrays) -> tuple[Path, list[Any]]:
        """The program for inputs of these shapes, and its arguments."""

    @abstractmethod
    def _record(self, inputs: Arrays) -> Record | None:
        """The ETRecord of that program."""

    @property
    @abstractmethod
    def output_tensors(self) -> tuple[str, ...]: ...

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        pte, arguments = self._program(inputs)
        with self._job.step("run"):
            outputs, _ = self._home.run(pte, arguments, method=self._method)
        return self._named(outputs)

    def _named(self, outputs: Sequence[np.ndarray | None]) -> dict[str, np.ndarray]:
        """Outputs by name; those that are no tensors have none."""
        found = [o for o in outputs if o is not None]
        if len(found) != len(self.output_tensors):
            raise EngineError(
                f"the program gave {len(found)} outputs where {len(self.output_tensors)} were expected",
                stage="run the network",
            )
        return dict(zip(self.output_tensors, found, strict=True))

    def _logged(self, inputs: Arrays) -> tuple[dict[str, np.ndarray], tuple[Shown, ...], DebugBuffer]:
        """One run as its runtime logs it: outputs, and the tensors in the debug buffer."""
        pte, arguments = self._program(inputs)
        outputs, shown, buffer = self._logged_run(pte, arguments, self._record(inputs))
        return self._named(outputs), shown, buffer

    def _logged_run(
        self, pte: Path, arguments: list[Any], record: Record | None
    ) -> tuple[list[np.ndarray | None], tuple[Shown, ...], DebugBuffer]:
        with self._job.step("run"):
            outputs, dumped = self._home.run(pte, arguments, method=self._method, dump=True)
        assert dumped is not None
        shown = shown_tensors(read_dump(dumped.dump).executions[-1], record, self._method)
        self._keep(replace(dumped, pte=pte, record=None if record is None else record.path))
        return outputs, shown, DebugBuffer(dumped.buffer)

    def _keep(self, dumped: Dumped) -> None:
        """Remove the recording before the last one; arrays that are mapped from it stay valid."""
        before, self._last = getattr(self, "_last", None), dumped
        if before is not None:
            before.dump.unlink(missing_ok=True)
            before.buffer.unlink(missing_ok=True)

    def keep(self, folder: Path) -> None:
        """The last recording with its program and ETRecord, as ExecuTorch writes them; of the buffer the used part."""
        last = getattr(self, "_last", None)
        if last is None:
            return
        used = max(
            (t.end for run in read_dump(last.dump).runs for v in run.values for t in tensors_of(v)), default=0
        )
        atomic_write(folder / "etdump.etdp", last.dump.read_bytes())
        with last.buffer.open("rb") as file:
            atomic_write(folder / "debug_buffer.bin", file.read(used))
        for path in (last.pte, last.record):
            if path is not None:
                atomic_write(folder / f"program{path.suffix}", path.read_bytes())

    @cached_property
    def _first(self) -> tuple[Shown, ...]:
        """What is shown of a run on the first sample."""
        return self._logged(self._job.inputs)[1]

    @property
    def sites(self) -> tuple[Site, ...]:
        return tuple(s.site for s in self._first)

    def trace(self, inputs: Arrays, watch: Collection[str], builder: TraceBuilder) -> Trace:
        for name, placeholder in self.inputs.items():
            builder.add(placeholder, np.asarray(inputs[name]))
        inner = set(watch) - set(self.output_tensors)
        if not inner:
            outputs = self.run(inputs)
        else:
            outputs, shown, buffer = self._logged(inputs)
            for one in shown:
                if one.site.tensor in inner:
                    builder.add(one.site.tensor, buffer.array(one.tensor))
        for name, array in outputs.items():
            builder.add(name, array)
        return builder.done()

    def profile(self, inputs: Arrays, repeats: int = 10) -> tuple[LayerTime, ...]:
        pte, arguments = self._program(inputs)
        with self._job.step("run"):
            _, dumped = self._home.run(
                pte, arguments, method=self._method, dump=True, intermediates=False, repeats=max(repeats, 1)
            )
        assert dumped is not None
        return layer_times(
            read_dump(dumped.dump), self._record(inputs), self._method, {s.tensor for s in self.sites}
        )

    def close(self) -> None:
        self._home.close()


class ConvertedSession(_ProgramSession):
    """A network lowered by ExecuTorch; its tensors have the names of the network's own graph."""

    def __init__(self, network: Any, how: Lowering, home: Home, job: Job, *, taps: bool) -> None:
        super().__init__(home, job)
        self.signature = network.signature
        self._network, self._how, self._want_taps = network, how, taps
        self._all: dict[Any, Made] = {}
        self._records: dict[Path, Record] = {}
        self.precision = "int8" if how.quantize else _precision(network)
        self._names = by_position(job.inputs, [spec.name for spec in network.signature.inputs])
        self._made(job.inputs)
        self._tapped: tuple[str, ...] = ()
        if how.delegate != "none" and taps:
            self._tapped, self.notes = self._tried_taps()

    def _mine(self, inputs: Arrays) -> dict[str, np.ndarray]:
        return {self._names.get(name, name): np.asarray(array) for name, array in inputs.items()}

    def _made(self, inputs: Arrays) -> Made:
        mine = self._mine(inputs)
        key = tuple((name, array.shape, array.dtype.name) for name, array in mine.items())
        if key not in self._all:
            self._all[key] = make(self._network, mine, self._how, self._home, self._job)
        return self._all[key]

    def _program(self, inputs: Arrays) -> tuple[Path, list[Any]]:
        made = self._made(inputs)
        return made.pte, made.given(self._mine(inputs))

    def _record(self, inputs: Arrays) -> Record:
        path = self._made(inputs).record
        if path not in self._records:
            self._records[path] = read_record(path)
        return self._records[path]

    # -- names ---------------------------------------------------------------------------------------------------

    @cached_property
    def _graph(self) -> Graph:
        from twinnet.layers.read_fx import read_fx

        found = read_fx(self._made(self._job.inputs).program)
        if self._how.quantize and self._how.delegate != "none":
            return integer_biases(found)
        return found

    def graph(self) -> Graph:
        return self._graph

    @property
    def inputs(self) -> dict[str, str]:
        from twinnet.network import input_placeholders

        program = self._made(self._job.inputs).program
        names = [n for n, _ in self._made(self._job.inputs).arguments if n is not None]
        back = {mine: name for name, mine in self._names.items()}
        own = dict(zip(names, input_placeholders(program).values(), strict=True))
        return {back.get(name, name): value for name, value in own.items()}

    @cached_property
    def output_tensors(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        from twinnet.network import output_nodes

        return tuple(output_nodes(self._made(self._job.inputs).program).values())

    @cached_property
    def provenance(self) -> Mapping[str, str] | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Where the program was quantised: its values by name, those with a batch norm folded in by that."""
        if not self._how.quantize:
            return None

        ours = program_of(self._network, self._mine(self._job.inputs))
        return quantised_names(ours, self._made(self._job.inputs).program)

    # -- inside delegates ----------------------------------------------------------------------------------------

    def _tried_taps(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The values to show as further outputs, if the result stays what it is; else none, and why."""
        first = self._job.inputs
        plain = self.run(first)
        said: tuple[str, ...] = ()
        for taps in taps_of(self._made(first).program, self._how, self._record(first)):
            try:
                seen, _, _ = self._run_tapped(first, taps)
            except EngineError as error:
                said = said or (f"values inside the delegate are not all shown: {error.what}",)
                continue
            worst = max((_distance(plain[n], seen[n]) for n in plain), default=0.0)
            if worst == 0:
                return taps, said
            if worst <= _OTHER_RESULT:
                words = "values inside the delegate come from a program whose result differs"
                return taps, (*said, f"{words} by {worst:.1g} of its size")
            words = "showing all values inside the delegate changes the result"
            said = said or (f"{words} by {worst:.2g} of its size: not all are shown",)
        return (), said

    def _run_tapped(
        self, inputs: Arrays, taps: tuple[str, ...]
    ) -> tuple[dict[str, np.ndarray], tuple[Shown, ...], DebugBuffer | None]:
        """One run of the program with more outputs: these by name, and what its runtime logs outside delegates."""
        made = self._made(inputs)
        folder = make_tapped(made, taps, self._how, self._home, self._job)
        pte, record = folder / "program.pte", folder / "program.etrecord"
        shown: tuple[Shown, ...] = ()
        buffer: DebugBuffer | None = None
        arguments = made.given(self._mine(inputs))
        if record.exists():
            if record not in self._records:
                self._records[record] = read_record(record)
            outputs, shown, buffer = self._logged_run(pte, arguments, self._records[record])
        else:
            with self._job.step("run"):
                outputs, _ = self._home.run(pte, arguments)
        found = [o for o in outputs if o is not None]
        names = (*self.output_tensors, *taps)
        if len(found) != len(names):
            raise EngineError(
                "the program with more outputs gave another number of them", stage="run the network"
            )
        # An output that is also a tap comes twice.
        given = {
            **dict(zip(names, found, strict=True)),
            **dict(zip(self.output_tensors, found, strict=False)),
        }
        return given, tuple(s for s in shown if s.site.tensor not in given), buffer

    @cached_property
    def _tapped_sites(self) -> tuple[Site, ...]:
        _, shown, _ = self._run_tapped(self._job.inputs, self._tapped)
        outputs = set(self.output_tensors)
        given = {*self._tapped, *outputs}
        order = {name: number for number, layer in enumerate(self._graph) for name in layer.outputs}
        inside = [
            Site(
                name,
                layer.node or name,
                layer.op,
                layer.module,
                layer.call,
                index,
                layer.source,
                "output" if name in outputs else "inner",
            )
            for layer in self._graph
            for index, name in enumerate(layer.outputs)
            if name in given
        ]
        return tuple(sorted([*inside, *(s.site for s in shown)], key=lambda site: order.get(site.tensor, -1)))

    @property
    def sites(self) -> tuple[Site, ...]:
        return self._tapped_sites if self._tapped else super().sites

    def trace(self, inputs: Arrays, watch: Collection[str], builder: TraceBuilder) -> Trace:
        if not self._tapped or not set(watch) - set(self.output_tensors):
            return super().trace(inputs, watch, builder)
        for name, placeholder in self.inputs.items():
            builder.add(placeholder, np.asarray(inputs[name]))
        given, shown, buffer = self._run_tapped(inputs, self._tapped)
        for name, array in given.items():
            if name in watch or name in self.output_tensors:
                builder.add(name, array)
        for one in shown:
            if one.site.tensor in watch and buffer is not None:
                builder.add(one.site.tensor, buffer.array(one.tensor))
        return builder.done()


class FileSession(_ProgramSession):
    """A `.pte` file as it is. With its ETRecord its tensors have the names of the program it was exported from."""

    def __init__(
        self, file: Path, record: Record | None, method: str, network: Any, home: Home, job: Job
    ) -> None:
        super().__init__(home, job)
        if not file.is_file():
            raise UsageError(f"no such file: {file}")
        self._file, self._known, self._method, self._network = file.absolute(), record, method, network
        request = {"do": "describe", "pte": str(self._file), "method": method}
        said = home.ask(request, "load the network")
        self._parameters = said["inputs"]
        tensors = [i for i in said["inputs"] if i is not None]
        if len(tensors) != len(job.inputs):
            raise UsageError(
                f"{file} takes {len(tensors)} tensors, and the inputs hold {len(job.inputs)}: {', '.join(job.inputs)}"
            )
        names = _input_names(record, tensors)
        self._inputs = dict(zip(job.inputs, names, strict=True))
        self.signature = Signature(
            tuple(TensorSpec(n, shape=tuple(t["shape"])) for n, t in zip(job.inputs, tensors, strict=True))
        )
        self._count = sum(o is not None for o in said["outputs"])
        if record is None:
            self.notes = (
                "no ETRecord was given: tensors are paired by their order and values (etrecord=FILE)",
            )

    def _program(self, inputs: Arrays) -> tuple[Path, list[Any]]:
        values = iter(np.asarray(inputs[name]) for name in self._inputs)
        return self._file, [None if p is None else next(values) for p in self._parameters]

    def _record(self, inputs: Arrays) -> Record | None:
        return self._known

    @property
    def inputs(self) -> Mapping[str, str]:
        return self._inputs

    @cached_property
    def output_tensors(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        exported = None if self._known is None else self._known.exported
        if exported is not None and len(exported.outputs) == self._count:
            return exported.outputs
        return tuple(f"output.{i}" for i in range(self._count))

    @cached_property
    def provenance(self) -> Mapping[str, str] | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Values that the network's own export has too: by name and operator, or by their order without an ETRecord."""
        if not hasattr(self._network, "exported"):
            return None
        program = self._network.exported(self._job.inputs)
        if program is None:
            return None
        return counted_names(program, self.sites) if self._known is None else same_names(program, self._known)


def _input_names(record: Record | None, tensors: Sequence[Any]) -> list[str]:
    """The names of the inputs in the exported program, which lists them after its weights."""
    exported = None if record is None else record.exported
    if exported is not None and len(exported.inputs) >= len(tensors):
        return list(exported.inputs[len(exported.inputs) - len(tensors) :])
    return [f"input.{i}" for i in range(len(tensors))]


def _precision(network: Any) -> str:
    from twinnet.engines.torch import own_precision

    return own_precision(network)


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference, as a share of the first array's size; infinite where they cannot be compared."""
    if a.shape != b.shape:
        return float("inf")
    if np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
        return 0.0
    with np.errstate(all="ignore"):
        far = np.abs(a.astype(np.float64) - b.astype(np.float64))
        size = float(np.abs(a.astype(np.float64)).max(initial=0.0))
    worst = float(far.max(initial=0.0))
    return worst / size if np.isfinite(worst) and size > 0 else float("inf")
