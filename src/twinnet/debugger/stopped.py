"""The state of both sides while the program is stopped: tensors, pairs, patches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twinnet.errors import UsageError
from twinnet.judge.metrics import compare, why_not
from twinnet.pairing import Pair
from twinnet.report.show import find_pair
from twinnet.result import Difference, PairResult, Result

if TYPE_CHECKING:
    from twinnet.debugger.held import Held
    from twinnet.engines.meaning import Meaning
    from twinnet.judge.sample import Seen

__all__ = ["Side", "Stopped", "differences"]

Side = str
"""`network` or `twin`."""


def differences(
    rows: tuple[PairResult, ...], pairs: Mapping[str, Pair], trace: Mapping[str, Any], twin: Mapping[str, Any]
) -> tuple[PairResult, ...]:
    """The rows with the plain differences of new traces; earlier judgements are dropped."""
    found = []
    for row in rows:
        pair = pairs[row.site.tensor]
        ours = np.asarray(trace[pair.site.tensor])
        theirs = pair.transform.to_network(np.asarray(twin[pair.twin_site.tensor]))
        reason = why_not(ours, theirs)
        found.append(
            replace(
                row,
                status="fail" if reason else "not judged",
                reason=reason,
                born=None,
                floor=None,
                ratio=None,
                difference=Difference() if reason else compare(ours, theirs),
            )
        )
    return tuple(found)


@dataclass
class Stopped:
    """The state that commands read and change. `rows` are the judged pairs, in the network's order."""

    trace: Mapping[str, np.ndarray] = field(default_factory=dict)
    twin_trace: Mapping[str, np.ndarray] = field(default_factory=dict)
    rows: tuple[PairResult, ...] = ()
    pairs: Mapping[str, Pair] = field(default_factory=dict)
    inputs: Mapping[str, np.ndarray] = field(default_factory=dict)
    unit: str = ""
    result: Result | None = None
    held: Held | None = None
    seen: Seen | None = None
    folder: Path = Path("runs") / "debugger"
    patches: dict[tuple[Side, str], np.ndarray] = field(default_factory=dict)
    """Replacement tensors for the next rerun, by side and network name."""
    first: Stopped | None = None
    """The state before the first rerun; None before it."""

    @cached_property
    def by_tensor(self) -> dict[str, PairResult]:
        """Rows by the network's tensor name."""
        return {row.site.tensor: row for row in self.rows}

    @property
    def meaning(self) -> Meaning | None:
        """The network's own meaning; None if its layers define it."""
        return None if self.held is None else self.held.sessions["network"].meaning

    @property
    def now(self) -> Seen | None:
        """The sample with the tensors as they are now, patches included."""
        if self.seen is None:
            return None
        return replace(self.seen, trace=self.trace, twin_trace=self.twin_trace)  # type: ignore[arg-type]

    def row(self, asked: str) -> PairResult:
        """Find a pair by name, with or without a leading dot, or by pattern."""
        if not isinstance(asked, str):
            raise UsageError(f"a site name must be a string, not {type(asked).__name__}")
        if not self.rows:
            raise UsageError(
                "nothing to compare: no network and no twin were given",
                hint="set_trace(network=..., twin=..., inputs=...), or trace=... and twin_trace=...",
            )
        exact = self.by_tensor.get(asked) or self.by_tensor.get(asked.removeprefix("."))
        return exact if exact is not None else find_pair(self.rows, asked)

    def both(self, row: PairResult) -> tuple[np.ndarray, np.ndarray]:
        """The tensors of a pair: the network's, and the twin's in the network's form."""
        pair = self.pairs[row.site.tensor]
        twin = np.asarray(self.twin_trace[pair.twin_site.tensor])
        return np.asarray(self.trace[row.site.tensor]), pair.transform.to_network(twin)

    def same_shape(self, row: PairResult) -> tuple[np.ndarray, np.ndarray]:
        """The tensors of a pair; raises UsageError if their shapes differ."""
        ours, theirs = self.both(row)
        if ours.shape != theirs.shape:
            raise UsageError(
                f"{row.site.tensor}: the twin has shape {theirs.shape}, the network {ours.shape}",
                hint="show(site) describes both",
            )
        return ours, theirs

    @property
    def outputs(self) -> list[PairResult]:
        """The pairs of the network's outputs; the last pair if none is marked."""
        found = [row for row in self.rows if row.site.role == "output"]
        return found or list(self.rows[-1:])

    def replaced(self, new: Stopped) -> None:
        """Take over the traces and rows of `new`; patches and the first state are kept."""
        self.trace, self.twin_trace, self.rows = new.trace, new.twin_trace, new.rows
        self.__dict__.pop("by_tensor", None)

    def close(self) -> None:
        """Release both sides."""
        if self.held is not None:
            self.held.release()
