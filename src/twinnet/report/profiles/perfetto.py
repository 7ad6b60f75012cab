"""trace.pftrace: a timeline as a Perfetto trace. It needs the extra `perfetto`; nothing is loaded from elsewhere."""

from __future__ import annotations

from typing import Any

from twinnet.extras import optional_packages
from twinnet.profile.timeline import Slice, Timeline

__all__ = ["perfetto_bytes"]

_SEQUENCE = 1
_PROCESS, _FIRST_TRACK = 1, 10


def perfetto_bytes(timeline: Timeline) -> bytes:
    """The trace: a track for each thread and each level of modules, and one for each counter."""
    with optional_packages():
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb
        from perfetto.trace_builder.proto_builder import TraceProtoBuilder
    builder: Any = TraceProtoBuilder()
    packet = builder.add_packet()
    packet.track_descriptor.uuid = _PROCESS
    packet.track_descriptor.process.pid = 1
    packet.track_descriptor.process.process_name = timeline.title
    tracks: dict[str, int] = {}
    for name in (*timeline.tracks, *dict.fromkeys(c.track for c in timeline.counters)):
        tracks[name] = _FIRST_TRACK + len(tracks)
        packet = builder.add_packet()
        described = packet.track_descriptor
        described.uuid, described.parent_uuid = tracks[name], _PROCESS
        if name in timeline.tracks:
            described.thread.pid, described.thread.tid = 1, tracks[name]
            described.thread.thread_name = name
        else:
            described.name = name
            described.counter.unit = pb.CounterDescriptor.UNIT_SIZE_BYTES
    for one in timeline.slices:
        _begin(builder, pb, tracks[one.track], one)
        packet = _event(builder, one.start + one.length, tracks[one.track])
        packet.track_event.type = pb.TrackEvent.TYPE_SLICE_END
    for counter in timeline.counters:
        packet = _event(builder, counter.time, tracks[counter.track])
        packet.track_event.type = pb.TrackEvent.TYPE_COUNTER
        packet.track_event.counter_value = counter.value
    return builder.serialize()


def _event(builder: Any, time: int, track: int) -> Any:
    packet = builder.add_packet()
    packet.timestamp = time
    packet.trusted_packet_sequence_id = _SEQUENCE
    packet.track_event.track_uuid = track
    return packet


def _begin(builder: Any, pb: Any, track: int, one: Slice) -> None:
    packet = _event(builder, one.start, track)
    packet.track_event.type = pb.TrackEvent.TYPE_SLICE_BEGIN
    packet.track_event.name = one.name
    for key, value in one.details.items():
        note = packet.track_event.debug_annotations.add()
        note.name = key
        if isinstance(value, int):
            note.int_value = value
        else:
            note.string_value = str(value)
