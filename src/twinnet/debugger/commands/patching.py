"""`patch`, `swap`, `repair`, `rerun`, `reset`: replace tensors in one side and run it again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from twinnet.debugger.answer import Answer
from twinnet.debugger.commands.registry import command
from twinnet.debugger.expected import expected
from twinnet.debugger.figures import number, table
from twinnet.debugger.stopped import Stopped, differences
from twinnet.errors import UsageError

__all__ = ["patch", "repair", "rerun", "reset", "swap"]


@command(changes=True)
def patch(stopped: Stopped, site: str, tensor: Any, side: str = "twin") -> Answer:
    """Replace a tensor of one side (by one in the network's form, or a number for all elements); then call rerun()."""
    row = stopped.row(site)
    _check_side(stopped, side)
    ours, theirs = stopped.both(row)
    held = theirs if side == "twin" else ours
    if hasattr(tensor, "detach"):
        tensor = tensor.detach().cpu().numpy()
    array = np.asarray(tensor)
    if array.ndim == 0:
        array = np.full(held.shape, array)
    if array.shape != held.shape:
        raise UsageError(f"{row.site.tensor} has shape {list(held.shape)}, not {list(array.shape)}")
    if array.dtype.kind not in "biufc":
        raise UsageError(f"the tensor must hold numbers, not {array.dtype}")
    stopped.patches[side, row.site.tensor] = array.astype(held.dtype)
    return Answer(
        f"{row.site.tensor}: the {side} will hold this tensor after rerun()",
        {"side": side, "site": row.site.tensor, "patches": len(stopped.patches)},
    )


@command(changes=True)
def swap(stopped: Stopped, site: str, side: str = "twin") -> Answer:
    """Replace a tensor of the twin by the network's, or with side="network" the other way round."""
    row = stopped.row(site)
    ours, theirs = stopped.same_shape(row)
    return patch(stopped, row.site.tensor, ours if side == "twin" else theirs, side)


@command(changes=True)
def repair(stopped: Stopped, site: str) -> Answer:
    """Replace a tensor of the twin by the result of the network's segment on the twin's inputs."""
    row = stopped.row(site)
    _check_side(stopped, "twin")
    right = expected(stopped, row)
    return patch(stopped, row.site.tensor, right)


@command(changes=True)
def rerun(stopped: Stopped) -> Answer:
    """Run both sides again with all patches, and compare them."""
    held, seen = stopped.held, stopped.seen
    if held is None or seen is None:
        raise UsageError("these traces come without a network: they cannot be run again")
    if stopped.first is None:
        stopped.first = replace(stopped)
    start = stopped.first
    traces: dict[str, Any] = {"network": start.trace, "twin": start.twin_trace}
    for side in traces:
        given = {}
        for (where, name), array in stopped.patches.items():
            if where == side:
                pair = stopped.pairs[name]
                named = name if side == "network" else pair.twin_site.tensor
                given[named] = array if side == "network" else pair.transform.to_twin(array)
        if given:
            traces[side] = held.retrace(side, seen.sample, given)
    if stopped.patches:
        rows = differences(start.rows, stopped.pairs, traces["network"], traces["twin"])
    else:
        rows = start.rows
    before = {row.site.tensor: row for row in stopped.rows}
    stopped.replaced(replace(start, trace=traces["network"], twin_trace=traces["twin"], rows=rows))
    cells = []
    for row in stopped.outputs:
        was, now = before[row.site.tensor].difference, row.difference
        figures = (was.max_abs, was.mean_abs, now.max_abs, now.mean_abs)
        cells.append([row.site.tensor, *map(number, figures)])
    what = [f"{name} ({side})" for side, name in stopped.patches]
    unit = f" in {stopped.unit}" if stopped.unit else ""
    lines = [f"patched  {', '.join(what)}" if what else "nothing patched"]
    lines += table([f"output{unit}", "max before", "mean before", "max now", "mean now"], cells)
    agree = all(not row.difference.differing for row in stopped.outputs)
    if agree:
        lines.append("the outputs are equal")
    data = {
        "patched": [{"side": side, "site": name} for side, name in stopped.patches],
        "outputs": [
            {
                "site": row.site.tensor,
                "max_before": before[row.site.tensor].difference.max_abs,
                "max": row.difference.max_abs,
                "mean_before": before[row.site.tensor].difference.mean_abs,
                "mean": row.difference.mean_abs,
                "differing": row.difference.differing,
            }
            for row in stopped.outputs
        ],
    }
    return Answer("\n".join(lines), data)


@command(changes=True)
def reset(stopped: Stopped) -> Answer:
    """Drop all patches and restore both sides."""
    stopped.patches.clear()
    if stopped.first is not None:
        stopped.replaced(stopped.first)
        stopped.first = None
    return Answer("all patches dropped", {"patches": 0})


def _check_side(stopped: Stopped, side: str) -> None:
    if side not in ("network", "twin"):
        raise UsageError(f"unknown side {side!r}", hint='side="twin" or side="network"')
    if stopped.held is None:
        raise UsageError("these traces come without a network: it cannot be patched")
