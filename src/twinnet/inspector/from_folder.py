"""Event blocks of twinnet's own folders: a recording of any engine, and the run of a check."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from twinnet.errors import UsageError
from twinnet.inspector.events import Event, EventBlock
from twinnet.recording import Recording, load_recording
from twinnet.result import Result, ResultSet
from twinnet.site import Site
from twinnet.store import TensorFile

__all__ = ["recorded_blocks", "run_blocks"]


def recorded_blocks(folder: Path) -> tuple[EventBlock, ...]:
    """A block for each sample of a recording, an event for each site."""
    recording = load_recording(folder)
    return tuple(_sample(recording, index) for index in range(len(recording.samples)))


def _sample(recording: Recording, index: int) -> EventBlock:
    trace = recording.trace(index)
    events = tuple(
        _event(site, (np.asarray(trace[site.tensor]),) if site.tensor in trace else ())
        for site in recording.sites
    )
    outputs = tuple(np.asarray(trace[name]) for name in recording.outputs if name in trace)
    return EventBlock(f"sample {index}", events, outputs)


def _event(site: Site, data: tuple[np.ndarray, ...]) -> Event:
    node = site.node or site.tensor
    return Event(
        site.tensor,
        op=site.op,
        op_types=(site.op,) if site.op else (),
        stack_traces={node: site.source} if site.source else {},
        module_hierarchy={node: {site.module: (site.module, "")}} if site.module else {},
        debug_data=data,
        source=site.source,
        module=site.module,
    )


def run_blocks(folder: Path) -> tuple[tuple[EventBlock, ...], tuple[str, ...]]:
    """A block for each side of a check, an event for each pair; and what the folder does not hold."""
    result = Result.load(folder)
    if isinstance(result, ResultSet):
        names = ", ".join(r.folder or r.twin.spec for r in result)
        raise UsageError(f"{folder} holds several runs", hint=f"name one of them: {names}")
    blocks = []
    missing: list[str] = []
    for side, file in (("network", "network.safetensors"), ("twin", "twin.safetensors")):
        path = folder / "traces" / file
        kept = TensorFile(path) if path.exists() else None
        events, absent = [], 0
        for pair in result.pairs:
            name = pair.site.tensor
            here = kept is not None and name in kept
            absent += not here
            data = (np.asarray(kept[name]),) if kept is not None and here else ()
            events.append(_event(pair.site if side == "network" else pair.twin_site, data))
        if absent:
            missing.append(
                f"tensors of {absent} of {len(events)} sites of the {side} (check with --keep all keeps them)"
            )
        outputs = tuple(
            d for p, e in zip(result.pairs, events) if p.site.role == "output" for d in e.debug_data
        )
        blocks.append(EventBlock(side, tuple(events), outputs))
    return tuple(blocks), tuple(missing)
