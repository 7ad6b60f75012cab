"""A twin measured: rows are the user's layers, shares add up, the dearest layer is on top."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.profile.nets import steps
from twinnet.checking.case import Case, read_network
from twinnet.checking.options import Limits, Options
from twinnet.checking.profiled import pace_of, target_of
from twinnet.engines import parse_spec
from twinnet.engines.timing import LayerTime, Span, Timed
from twinnet.errors import UsageError
from twinnet.profile import Measured, compare_profiles, load_profile
from twinnet.profile.measure import _gap, _limit
from twinnet.profile.noise import low
from twinnet.profile.pace import Pacemaker
from twinnet.profile.target import Target
from twinnet.profiling import Plan, profile_with
from twinnet.report.profiles import comparison_text, profile_text, write_profile
from twinnet.report.profiles.csv_file import COLUMNS, render_csv
from twinnet.report.profiles.page import render_profile

MACHINE = Target("test", 50e9, 10e9, 1e-6)


def measured(twin: str, wide: dict[int, int] | None = None, repeats: int = 8) -> list[Measured]:
    net, image = steps(wide)
    options = Options(limits=Limits(threads=1))
    return profile_with(options, net, image, twin, Plan(repeats, 2, MACHINE))


@pytest.fixture(scope="module")
def onnx() -> Measured:
    return measured("onnxruntime", {3: 160})[0]


@pytest.fixture(scope="module")
def torch_() -> Measured:
    return measured("torch", {3: 160})[0]


@pytest.mark.parametrize("engine", ["onnx", "torch_"])
def test_a_layer_ten_times_dearer_is_the_top_row(engine: str, request: pytest.FixtureRequest) -> None:
    profile = request.getfixturevalue(engine).profile
    # Other work on the machine lengthens runs now and then: the least disturbed ones are compared.
    top = max(profile.rows, key=lambda row: low(row.seconds))
    assert top.module == "blocks.3.0" and "conv2d" in top.network_ops
    assert top.source.startswith("nets.py:") or "nets.py:" in top.source
    assert top.flops == 2 * 48 * 48 * 160 * 16 * 9 + 48 * 48 * 160 + (
        48 * 48 * 160 if "relu" in top.network_ops else 0
    )


def test_fused_steps_list_all_their_operators(onnx: Measured) -> None:
    convs = [row for row in onnx.profile.rows if "relu" in row.network_ops]
    assert convs and all("conv2d" in row.network_ops for row in convs)


@pytest.mark.parametrize("engine", ["onnx", "torch_"])
def test_figures_hold_together(engine: str, request: pytest.FixtureRequest) -> None:
    profile = request.getfixturevalue(engine).profile
    assert sum(row.share for row in profile.rows) + max(profile.gap, 0.0) == pytest.approx(1)
    between = profile.total * profile.gap / (1 - profile.gap) if profile.gap > 0 else 0.0
    assert profile.between == pytest.approx(between) and profile.timer >= 0
    assert profile.joined >= 0.95
    assert all(row.p10 <= row.p50 <= row.p90 for row in profile.rows)
    assert len(profile.runs) == len(profile.bare_runs) == profile.repeats == 8
    assert all(len(row.seconds) == 8 for row in profile.rows)
    assert profile.memory and profile.size and profile.memory > profile.size / 2


def test_the_file_says_the_same(onnx: Measured, tmp_path: Path) -> None:
    write_profile(onnx, tmp_path / "profile")
    assert load_profile(tmp_path) == onnx.profile
    assert load_profile(tmp_path / "profile") == onnx.profile
    (tmp_path / "profile" / "profile.json").write_text('{"schema": 99}')
    with pytest.raises(UsageError, match="not a profile of version 1"):
        load_profile(tmp_path)
    for wrong in ("NaN", "Infinity", "-1.0"):
        text = onnx.profile.to_json().replace('"bare_runs": [', f'"bare_runs": [ {wrong},')
        (tmp_path / "profile" / "profile.json").write_text(text)
        with pytest.raises(UsageError, match="negative, or no number"):
            load_profile(tmp_path)
    text = onnx.profile.to_json().replace('"joined": ', '"joined": 1e999, "was": ')
    (tmp_path / "profile" / "profile.json").write_text(text)
    with pytest.raises(UsageError, match="a share is no number"):
        load_profile(tmp_path)
    with pytest.raises(UsageError, match="no profile in"):
        load_profile(tmp_path / "elsewhere")


def test_csv_has_a_line_for_each_step(onnx: Measured) -> None:
    adds_up = replace(onnx.profile, gap=0.2)
    *lines, between = csv.DictReader(io.StringIO(render_csv(adds_up)))
    assert between["name"] == "between the steps" and float(between["share"]) == 0.2
    assert float(between["p50"]) == pytest.approx(onnx.profile.total / 4)
    assert len(lines) == len(onnx.profile.rows) and tuple(lines[0]) == COLUMNS
    assert [float(line["p50"]) for line in lines] == pytest.approx([r.p50 for r in onnx.profile.rows])


def test_the_columns_are_documented() -> None:
    from tests.test_docs import first_cells, section
    from twinnet.profile.model import Profile

    assert first_cells(section("profile.md", "profile.csv")) >= set(COLUMNS)
    fields = set(Profile.__dataclass_fields__) - {"rows"}
    assert first_cells(section("profile.md", "profile.json")) == fields


def test_the_screen_names_three_places_and_their_limits(onnx: Measured) -> None:
    text = profile_text(onnx.profile, "out")
    assert onnx.profile.dearest(1)[0].label in text.split("\n1. ")[1].split("\n")[0]
    assert "\n3. " in text and "compute" in text and "timers   cost" in text
    assert text.splitlines()[-1] == "next     twinnet profile compare out OTHER"


def test_trace_events_and_perfetto_say_the_same(onnx: Measured, tmp_path: Path) -> None:
    pb = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    write_profile(onnx, tmp_path)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    slices = [e for e in events if e["ph"] == "X"]
    trace = pb.Trace()
    trace.ParseFromString((tmp_path / "trace.pftrace").read_bytes())
    begins = [p for p in trace.packet if p.track_event.type == pb.TrackEvent.TYPE_SLICE_BEGIN]
    ends = [p for p in trace.packet if p.track_event.type == pb.TrackEvent.TYPE_SLICE_END]
    assert len(begins) == len(ends) == len(slices) == len(onnx.timeline.slices)
    assert [p.track_event.name for p in begins] == [e["name"] for e in slices]
    for begin, end in zip(begins, ends):
        assert begin.track_event.track_uuid == end.track_event.track_uuid and begin.timestamp <= end.timestamp
    tracks = {
        p.track_descriptor.uuid: p.track_descriptor for p in trace.packet if p.HasField("track_descriptor")
    }
    names = {d.thread.thread_name or d.name for d in tracks.values()}
    assert {"thread 0", "modules, level 1", "modules, level 2", "memory in use"} <= names
    notes = {n.name: n.string_value or n.int_value for p in begins for n in p.track_event.debug_annotations}
    assert {"shape", "source", "network_ops", "flops"} <= set(notes)
    counted = [p for p in trace.packet if p.track_event.type == pb.TrackEvent.TYPE_COUNTER]
    assert counted and all(p.track_event.counter_value > 0 for p in counted)


def test_memory_is_told_by_shapes_where_the_engine_says_nothing(torch_: Measured) -> None:
    counters = torch_.timeline.counters
    assert {c.track for c in counters} == {"values alive, by shapes"}
    assert torch_.profile.memory and torch_.profile.size
    most = max(c.value for c in counters)
    assert 0 < most <= torch_.profile.memory and most == torch_.profile.memory - torch_.profile.size


def test_slices_of_a_track_do_not_overlap(onnx: Measured) -> None:
    for track in onnx.timeline.tracks:
        ends = 0
        for one in sorted((s for s in onnx.timeline.slices if s.track == track), key=lambda s: s.start):
            assert one.start >= ends - 1000, (track, one.name)  # its timer counts microseconds
            ends = one.start + one.length


def test_engines_are_compared_layer_by_layer_although_they_fuse_differently() -> None:
    first, second = (one.profile for one in measured("torch,onnxruntime"))
    made = compare_profiles(first, second)
    assert made.in_turns and made.pace == 1.0
    assert {c.module for c in made.changes} >= {f"blocks.{i}.0" for i in range(6)}
    assert not [c for c in made.changes if c.verdict in ("new", "gone") and c.share > 0.05]
    assert "measured in turns" in comparison_text(made, 1.5)


def test_the_pace_is_that_of_the_machine_that_ran_the_twin(onnx: Measured) -> None:
    pace = onnx.profile.pace
    assert pace is not None and pace.threads == 1 and not pace.together
    assert len(pace.products) == len(pace.copies) >= 8 * 3 and min(*pace.products, *pace.copies) > 0
    several = Pacemaker(2)
    several()
    assert several.pace.threads == 2 and several.pace.together
    assert pace_of(on_a_board(), several) is None


def on_a_board() -> Case:
    net, image = steps()
    options = Options(samples=1)
    return Case.of(
        *read_network(net, image, options, []), parse_spec("litert@ssh://board"), options, given=net
    )


def test_a_board_is_not_measured_by_this_machine(onnx: Measured) -> None:
    case = on_a_board()
    assert target_of(case) is None and target_of(case, MACHINE) is MACHINE
    assert _limit(10**9, 10**6, 1e-3, None) == ("", None)
    rows = tuple(replace(row, limit="", efficiency=None) for row in onnx.profile.rows)
    there = replace(onnx.profile, target=None, rows=rows)
    text, page = profile_text(there), render_profile(there)
    assert "machine  a board; its limits are not known: state them with --target FILE.toml" in text
    assert "bound" not in text and "Roofline" not in page and "Flame graph" in page


def test_long_steps_on_a_busy_machine_add_up_to_the_whole() -> None:
    """Steps that each waited for their turn do not take more than the run they are part of."""
    slices = tuple(Span(run, 1.0 + run / 10) for run in range(4))
    steps = tuple(LayerTime(name, "Conv", slices, (name,)) for name in "abcd")
    whole = tuple(4.1 + run * 0.4 for run in range(4))
    busy = Timed(steps, whole, whole, (1.4,) * 4, looked_cpu=(1.4,) * 4)
    assert _gap(busy) == pytest.approx(0.02, abs=0.02)
