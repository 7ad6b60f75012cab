"""What a recording says: blocks of events."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["FRAMEWORK", "WRAPPERS", "Event", "EventBlock", "Times"]

FRAMEWORK = ("Method::init", "Program::load_method", "Method::execute")
"""Events of the runtime itself, which belong to no operator."""
WRAPPERS = ("OPERATOR_CALL",)
"""Events around another event of the same instruction: tables leave them out."""


@dataclass(frozen=True, slots=True)
class Times:
    """The times of one event, one for each run, in the unit of its block.

    >>> Times((1.0, 2.0, 9.0)).p50
    2.0
    """

    raw: tuple[float, ...]

    def _percentile(self, share: float) -> float:
        return float(np.percentile(self.raw, share))

    p10 = property(lambda self: self._percentile(10))
    p50 = property(lambda self: self._percentile(50))
    p90 = property(lambda self: self._percentile(90))
    avg = property(lambda self: statistics.fmean(self.raw))
    min = property(lambda self: min(self.raw))
    max = property(lambda self: max(self.raw))


@dataclass(frozen=True)
class Event:
    """One operator, kernel inside a delegate, or step of the runtime.

    `op` is the operator that ran; `op_types`, `stack_traces` and `module_hierarchy` tell of all operators that share
    its debug handles, by their names. `debug_data` are its tensors in the first run, `later_data` those of the others.
    """

    name: str
    perf_data: Times | None = None
    op: str = ""
    op_types: tuple[str, ...] = ()
    delegate_debug_identifier: int | str | None = None
    debug_handles: int | tuple[int, ...] | None = None
    stack_traces: Mapping[str, str] = field(default_factory=dict)
    module_hierarchy: Mapping[str, Mapping[str, tuple[str, str]]] = field(default_factory=dict)
    is_delegated_op: bool = False
    delegate_backend_name: str = ""
    delegate_debug_metadatas: tuple[bytes, ...] = ()
    debug_data: tuple[Any, ...] = ()
    shapes: tuple[str, ...] = ()
    """Number format and shape of each of `debug_data`, known even where its values are not (None)."""
    later_data: tuple[tuple[Any, ...], ...] = ()
    start_time: tuple[int, ...] = ()
    instruction_id: int | None = None
    source: str = ""
    module: str = ""

    @property
    def delegate(self) -> str:
        """The delegate that ran it, or whose call it is; empty if there is none."""
        return self.delegate_backend_name

    def asdict(self) -> dict[str, Any]:
        """One row of a table."""
        times = self.perf_data
        figures = {
            n: getattr(times, n) if times else None for n in ("p10", "p50", "p90", "avg", "min", "max")
        }
        return {
            "event_name": self.name,
            "raw": list(times.raw) if times else None,
            **figures,
            "op": self.op,
            "op_types": list(self.op_types),
            "delegate_debug_identifier": self.delegate_debug_identifier,
            "debug_handles": self.debug_handles,
            "stack_traces": dict(self.stack_traces),
            "module_hierarchy": dict(self.module_hierarchy),
            "is_delegated_op": self.is_delegated_op,
            "delegate_backend_name": self.delegate_backend_name,
            "debug_data": list(self.debug_data),
            "start_time": list(self.start_time),
            "module": self.module,
            "source": self.source,
        }


@dataclass(frozen=True)
class EventBlock:
    """Events of equal runs: loading, or all executions that did the same. Times are in `unit`.

    `run_output` are the outputs of the first run, `later_outputs` those of the others.
    """

    name: str
    events: tuple[Event, ...]
    run_output: tuple[Any, ...] = ()
    later_outputs: tuple[tuple[Any, ...], ...] = ()
    bundled_input_index: int | None = None
    unit: str = "ms"

    @property
    def runs(self) -> int:
        """How many runs it stands for."""
        return 1 + len(self.later_outputs)

    def rows(self) -> Sequence[dict[str, Any]]:
        """Its events as rows of a table."""
        return [{"event_block_name": self.name, **event.asdict()} for event in self.events]

    def to_dataframe(self) -> Any:
        """Its events as a pandas DataFrame."""
        return frame(self.rows())


def frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    """A pandas DataFrame of these rows."""
    from twinnet.report.frames import pandas_module

    return pandas_module().DataFrame(list(rows))
