"""Values inside delegates, which log nothing: a second program has them as further outputs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from twinnet.engines._executorch_home import Home
from twinnet.engines._executorch_made import Lowering, Made, make_tapped, taps_of
from twinnet.engines._executorch_parts import LoweredPart, lower_part
from twinnet.engines._executorch_session import ProgramSession
from twinnet.engines.base import Part
from twinnet.errors import EngineError
from twinnet.executorch import DebugBuffer, Record, Shown, read_record
from twinnet.job import Arrays
from twinnet.site import Site
from twinnet.trace import Trace, TraceBuilder

if TYPE_CHECKING:
    from twinnet.layers import Graph

__all__ = ["TappedSession"]

_OTHER_RESULT = 1e-4
"""A result that moves by this share of its size is not the one that ships."""


class TappedSession(ProgramSession):
    """A program that shows values inside its delegates where that does not change its result."""

    _tapped: tuple[str, ...] = ()
    _how: Lowering

    def __init__(self, home: Home) -> None:
        super().__init__(home)
        self._records: dict[Path, Record] = {}

    @abstractmethod
    def _made(self, inputs: Arrays) -> Made:
        """The program for inputs of these shapes."""

    def _known_record(self, inputs: Arrays) -> Record:
        return self._read(self._made(inputs).record)

    def _read(self, path: Path) -> Record:
        if path not in self._records:
            self._records[path] = read_record(path)
        return self._records[path]

    @property
    @abstractmethod
    def _layers(self) -> Graph:
        """The layers of the program that was lowered."""

    def _tried_taps(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The values to show as further outputs, if the result stays what it is; else none, and why."""
        first = self._job.inputs
        plain = self.run(first)
        said: tuple[str, ...] = ()
        for taps in taps_of(self._made(first).program, self._how, self._known_record(first)):
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
        folder = make_tapped(made, taps, self._how, self._home)
        pte, record = folder / "program.pte", folder / "program.etrecord"
        shown: tuple[Shown, ...] = ()
        buffer: DebugBuffer | None = None
        _, arguments = self._program(inputs)
        if record.exists():
            outputs, shown, buffer = self._logged_run(pte, arguments, self._read(record))
        else:
            with self._job.step("run"):
                outputs, _ = self._home.run(pte, arguments)
        found = [o for o in outputs if o is not None]
        names = (*self.output_tensors, *taps)
        if len(found) != len(names):
            raise EngineError(
                "the program with added outputs returned a different number of them", stage="run the network"
            )
        # An output that is also a tap comes twice.
        given = {
            **dict(zip(names, found, strict=True)),
            **dict(zip(self.output_tensors, found, strict=False)),
        }
        return given, tuple(s for s in shown if s.site.tensor not in given), buffer

    # -- pieces --------------------------------------------------------------------------------------------------

    def _lowered_part(self, tensor: str, known: Collection[str], values: Arrays) -> LoweredPart:
        program = self._made(self._job.inputs).program
        return lower_part(program, tensor, set(known) - {tensor}, values, self._how, self._home)

    def part(self, tensor: str, known: Collection[str], values: Arrays) -> np.ndarray:
        part = self._lowered_part(tensor, known, values)
        with self._job.step("run"):
            outputs, _ = self._home.run(part.pte, list(part.feeds.values()))
        if len(outputs) != 1 or outputs[0] is None:
            raise EngineError(f"executorch did not give {tensor}", stage="cut")
        return outputs[0]

    def cut(self, tensor: str, known: Collection[str], values: Arrays) -> Part | None:
        part = self._lowered_part(tensor, known, values)
        return Part(part.pte.read_bytes(), ".pte", part.operators, part.feeds, "result")

    @cached_property
    def _tapped_sites(self) -> tuple[Site, ...]:
        _, shown, _ = self._run_tapped(self._job.inputs, self._tapped)
        outputs = set(self.output_tensors)
        given = {*self._tapped, *outputs}
        order = {name: number for number, layer in enumerate(self._layers) for name in layer.outputs}
        inside = [
            layer.site(index, role="output" if name in outputs else "inner")
            for layer in self._layers
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
