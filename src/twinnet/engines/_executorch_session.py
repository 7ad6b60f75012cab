"""A program of ExecuTorch in a worker, each tensor as its runtime logs it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from twinnet.engines._executorch_home import Dumped, Home
from twinnet.engines._executorch_profile import step_times
from twinnet.engines.base import Session
from twinnet.engines.timing import WARM_UP, Timed
from twinnet.errors import EngineError
from twinnet.executorch import DebugBuffer, Record, Shown, read_dump, shown_tensors, tensors_of
from twinnet.files import atomic_write
from twinnet.job import Arrays
from twinnet.site import Site
from twinnet.trace import Trace, TraceBuilder

__all__ = ["ProgramSession"]


class ProgramSession(Session):
    """A program in a worker. What its runtime logs is shown; a subclass says which program runs."""

    engine = "executorch"
    _method = "forward"

    def __init__(self, home: Home) -> None:
        self.version = home.version
        self._home, self._job = home, home.job
        self._last: Dumped | None = None

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
        before, self._last = self._last, dumped
        if before is not None:
            before.dump.unlink(missing_ok=True)
            before.buffer.unlink(missing_ok=True)

    def keep(self, folder: Path) -> None:
        """The last recording with its program and ETRecord, as ExecuTorch writes them; of the buffer the used part."""
        last = self._last
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

    def profile(self, inputs: Arrays, repeats: int = 10) -> Timed:
        pte, arguments = self._program(inputs)
        with self._job.step("run"):
            times, dumped = self._home.time(
                pte, arguments, method=self._method, warm_up=WARM_UP, repeats=max(repeats, 1)
            )
        runs = read_dump(dumped.dump).executions[WARM_UP:]
        steps = step_times(runs, self._record(inputs), self._method, {s.tensor for s in self.sites})
        return Timed(
            steps,
            tuple(times["whole"]),
            tuple(times["bare"]),
            tuple(times["bare_cpu"]),
            looked_cpu=tuple(times["whole_cpu"]),
        )

    @property
    def size(self) -> int | None:
        return self._program(self._job.inputs)[0].stat().st_size

    def close(self) -> None:
        self._home.close()
