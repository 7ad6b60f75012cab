"""Stop at a check, or at two sets of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from twinnet.checking.case import Case, modes_kept, read_network, read_twins
from twinnet.checking.options import Options
from twinnet.checking.run import run_case
from twinnet.debugger.held import Held
from twinnet.debugger.stopped import Stopped
from twinnet.errors import UsageError, undoing
from twinnet.judge.metrics import compare, why_not
from twinnet.pairing import Pair
from twinnet.result import Difference, PairResult
from twinnet.site import Site

__all__ = ["stop_at_check", "stop_at_traces", "stop_with"]


def stop_at_check(
    network: Any,
    inputs: Any = None,
    twin: Any = "onnxruntime",
    *,
    folder: Path = Path("runs") / "debugger",
    options: Options | None = None,
) -> Stopped:
    """Run a check and stop before its tensors are freed.

    >>> import torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    >>> stopped = stop_at_check(net, torch.ones(1, 4), "torch?dtype=float64")
    >>> [row.site.tensor for row in stopped.rows]
    ['linear', 'relu']
    >>> stopped.close()
    """
    options = options or Options()
    with modes_kept(network):
        twins = read_twins(twin, inputs)
        if len(twins) != 1:
            raise UsageError("the debugger takes one twin at a time", hint="name a single --twin")
        loaded, feed = read_network(network, inputs, options, twins)
        case = replace(Case.of(loaded, feed, twins[0], options, given=network), watch_all=True)
        held = Held(case)
        with undoing(held.release):
            result = run_case(held.case, held.sides, [held]).result
    assert held.kept is not None and held.plan is not None
    seen, judged = held.kept
    meaning = held.plan.net.meaning
    return Stopped(
        trace=seen.trace,
        twin_trace=seen.twin_trace,
        rows=judged,
        pairs={pair.site.tensor: pair for pair in held.plan.pairing.pairs},
        inputs=seen.sample,
        unit="" if meaning is None else meaning.unit,
        result=result,
        held=held,
        seen=seen,
        folder=folder,
    )


def stop_at_traces(
    trace: Mapping[str, Any], twin_trace: Mapping[str, Any], *, unit: str = "", folder: Path | None = None
) -> Stopped:
    """Compare two sets of tensors by the names they share, in the order of the first.

    Nested mappings are flattened: keys are joined by dots.

    >>> stopped = stop_at_traces({"conv": np.zeros(3)}, {"conv": np.ones(3), "other": np.ones(3)})
    >>> stopped.rows[0].difference.max_abs
    1.0
    """
    ours, theirs = _flat(trace), _flat(twin_trace)
    rows: list[PairResult] = []
    pairs: dict[str, Pair] = {}
    for name, array in ours.items():
        if name not in theirs:
            continue
        pair = pairs[name] = Pair(Site(name, name), Site(name, name), "stated")
        other = theirs[name]
        reason = why_not(array, other)
        difference = Difference() if reason else compare(array, other)
        status = "fail" if reason else "not judged"
        rows.append(
            PairResult(pair.site, pair.twin_site, status, "stated", reason=reason, difference=difference)
        )
    if not rows:
        raise UsageError(
            "the two traces have no name in common",
            hint=f"one has {', '.join(list(ours)[:3])}, the other {', '.join(list(theirs)[:3])}",
        )
    stopped = Stopped(ours, theirs, tuple(rows), pairs, unit=unit)
    if folder is not None:
        stopped.folder = folder
    return stopped


def stop_with(names: Mapping[str, Any], folder: Path) -> Stopped:
    """Stop at what the names allow: a check of `network` and `twin`, a comparison of two traces, or nothing.

    >>> stop_with({"x": 3}, Path("runs")).rows
    ()
    """
    if names.get("network") is not None and names.get("twin") is not None:
        return stop_at_check(names["network"], names.get("inputs"), names["twin"], folder=folder)
    for ours, theirs, unit in (("trace", "twin_trace", ""), ("model_dbg", "lut_dbg", "pixels")):
        if names.get(ours) is not None and names.get(theirs) is not None:
            return stop_at_traces(names[ours], names[theirs], unit=unit, folder=folder)
    return Stopped(folder=folder)


def _flat(tensors: Mapping[str, Any], prefix: str = "") -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    for key, value in tensors.items():
        name = f"{prefix}{str(key).lstrip('.')}"
        if isinstance(value, Mapping):
            found.update(_flat(value, f"{name}."))
            continue
        if hasattr(value, "detach"):
            value = value.detach().cpu().numpy()
        found[name] = np.asarray(value)
    return found
