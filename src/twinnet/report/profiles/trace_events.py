"""trace.json: a timeline as trace events, which chrome://tracing and the Perfetto UI open."""

from __future__ import annotations

import json
from typing import Any

from twinnet.profile.timeline import Timeline

__all__ = ["render_events"]


def render_events(timeline: Timeline) -> str:
    """The text of trace.json; times are in microseconds."""
    numbers = {track: n for n, track in enumerate(timeline.tracks, start=1)}
    events: list[dict[str, Any]] = [_named("process_name", 0, timeline.title)]
    events += [_named("thread_name", number, track) for track, number in numbers.items()]
    for one in timeline.slices:
        events.append(
            {
                "ph": "X",
                "pid": 1,
                "tid": numbers[one.track],
                "name": one.name,
                "ts": one.start / 1e3,
                "dur": one.length / 1e3,
                "args": dict(one.details),
            }
        )
    for counter in timeline.counters:
        values = {"bytes": counter.value}
        events.append({"ph": "C", "pid": 1, "name": counter.track, "ts": counter.time / 1e3, "args": values})
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}, indent=None)


def _named(what: str, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": 1, "tid": thread, "name": what, "args": {"name": name}}
