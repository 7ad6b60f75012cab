"""The Inspector: recordings of others and our own, whole and with parts missing, and damaged ones."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import twinnet
from tests.executorch.nets import FAULTS, small
from twinnet.errors import TwinnetError, UsageError
from twinnet.inspector import Event, Inspector
from twinnet.result import Result


def _opened(folder: Path) -> Inspector:
    return Inspector(
        etdump_path=folder / "a.etdp", debug_buffer_path=folder / "a.bin", etrecord=folder / "a.etrecord"
    )


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def _by_name(table: Any) -> dict[str, Any]:
    # ExecuTorch writes a line after the names of its own operators.
    return {name.rstrip("_"): value for name, value in table.items()}


def _close(ours: float, theirs: float) -> bool:
    return math.isclose(ours, theirs, rel_tol=1e-6, abs_tol=1e-8)


def _agree(ours: Event, theirs: dict[str, Any]) -> None:
    assert ours.name == theirs["name"]
    times = ours.perf_data
    assert (times is None) == (theirs["raw"] is None)
    if times is not None:
        assert all(_close(a, b) for a, b in zip(times.raw, theirs["raw"], strict=True))
        for name in ("p10", "p50", "p90", "avg", "min", "max"):
            assert _close(getattr(times, name), theirs[name]), name
    handles = [ours.debug_handles] if isinstance(ours.debug_handles, int) else ours.debug_handles
    if theirs["op_types"]:
        assert list(handles or ()) == theirs["handles"]
    assert set(ours.op_types) == set(theirs["op_types"])
    assert ours.delegate_debug_identifier == theirs["identifier"]
    assert ours.is_delegated_op == theirs["delegated"] and ours.delegate_backend_name == theirs["backend"]
    assert list(ours.start_time) == theirs["start"]
    assert dict(ours.stack_traces) == _by_name(theirs["stack_traces"])
    modules = {n: [list(place) for place in m.values()] for n, m in ours.module_hierarchy.items()}
    assert modules == _by_name(theirs["modules"])
    assert [_plain(d) for d in ours.debug_data] == theirs["data"]


@pytest.mark.parametrize("delegate", ["none", "xnnpack"])
def test_everything_that_executorch_says_is_there(examples: Path, delegate: str) -> None:
    found = _opened(examples / delegate)
    said = json.loads((examples / delegate / "said.json").read_text())
    assert [b.name for b in found.event_blocks] == [b["name"] for b in said]
    for ours, theirs in zip(found.event_blocks, said, strict=True):
        assert [_plain(t) for t in ours.run_output] == theirs["output"]
        assert len(ours.events) == len(theirs["events"])
        for one, other in zip(ours.events, theirs["events"], strict=True):
            _agree(one, other)
    assert not found.missing


def test_operators_modules_and_lines(examples: Path) -> None:
    found = _opened(examples / "none")
    deep = next(e for e in found.events if e.module == "deep" and e.name.startswith("native_call_"))
    assert deep.op == "aten.convolution.default" and deep.source.startswith("executorch/nets.py:")
    assert found.find_total_for_module("deep") == pytest.approx(deep.perf_data.avg if deep.perf_data else 0)
    # Two operators that come from one are told apart.
    assert [e.op for e in found.events if e.module == "act" and e.name.startswith("native")] == [
        "aten.sigmoid.default",
        "aten.mul.Tensor",
    ]


def test_what_is_missing_is_said(examples: Path) -> None:
    folder = examples / "none"
    bare = Inspector(etdump_path=folder / "a.etdp")
    assert [m.partition(":")[0] for m in bare.missing] == ["debug buffer", "ETRecord"]
    first = bare.event_blocks[1].events[0]
    assert first.debug_data == (None,) and first.shapes == ("float32 1x8x10x10",) and not first.op
    assert "missing  ETRecord" in bare.table(200) and "(no values)" in bare.table(200)
    partly = Inspector(etdump_path=folder / "a.etdp", etrecord=folder / "a.etrecord")
    assert len(partly.missing) == 1 and partly.event_blocks[1].events[0].op
    # Another time scale only moves the point.
    slow = Inspector(etdump_path=folder / "a.etdp", target_time_scale="us").event_blocks[1].events[0]
    assert (
        slow.perf_data and first.perf_data and slow.perf_data.p50 == pytest.approx(1e3 * first.perf_data.p50)
    )


def test_a_folder_is_enough(examples: Path, tmp_path: Path) -> None:
    found = Inspector(examples / "none")
    assert not found.missing and len(found.event_blocks) == 2
    frame = found.to_dataframe()
    assert len(frame) == len(found.events) and {"event_name", "p50", "op", "debug_data"} <= set(frame.columns)
    page = found.to_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == page
    assert "convolution.out" in page and "http" not in page.replace("http-equiv", "")
    assert "<script" not in page and "<html" not in found._repr_html_()
    done = subprocess.run(
        [sys.executable, "-m", "twinnet.cli.main", "inspect-run", str(examples / "none")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and "aten.convolution.default" in done.stdout, done.stderr
    # Nothing is cut in a pipe; in a terminal it is, and one sees that.
    tensors = [line for line in done.stdout.splitlines() if "float32 " in line]
    assert tensors and all(" to " in line and "..." not in line for line in tensors)
    assert all(len(line) <= 70 for line in found.table(70).splitlines()) and "..." in found.table(70)


def test_names_from_a_recording_are_escaped() -> None:
    from twinnet.inspector.events import EventBlock
    from twinnet.inspector.page import as_page

    page = as_page(Path("<b>"), (EventBlock("<script>alert(1)</script>", (Event("<img>"),)),), ("<i>",))
    assert "<script>" not in page and "<img>" not in page and "<b>" not in page and "<i>" not in page


@pytest.mark.parametrize("events", [(), (Event(""),)])
def test_a_run_without_events_says_so(events: tuple[Event, ...]) -> None:
    from twinnet.inspector.events import EventBlock
    from twinnet.inspector.table import as_text

    text = as_text(Path("a.etdp"), (EventBlock("Execute", events),), (), 80)
    assert text.splitlines() == ["recording  a.etdp", "", "Execute", "  no events"]


# -- our own recordings, and a device as the twin -----------------------------------------------------------------


@pytest.fixture(scope="module")
def device(examples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A faulty program as it was recorded elsewhere: eps of the layer norm."""
    folder = tmp_path_factory.mktemp("device") / "recording"
    net, image = small()
    program = next(f for f in FAULTS if f.name == "eps").made()
    spec = f"executorch?etrecord={program.record}:{program.pte}"
    twinnet.record((net, (image,)), image, out=folder, reference=spec, limits=twinnet.Limits(threads=1))
    return folder


def test_our_own_recording_holds_the_etdump(device: Path) -> None:
    found = Inspector(device)
    assert not found.missing and [b.name for b in found.event_blocks] == ["Default", "Execute"]
    assert len({e.module for e in found.events}) > 8


def test_a_recording_of_a_device_is_a_twin(device: Path, tmp_path: Path) -> None:
    net, image = small()
    home = device / "0000"
    files = f"etdump={home}/etdump.etdp&buffer={home}/debug_buffer.bin"
    named = f"executorch:{home}/program.pte?{files}&etrecord={home}/program.etrecord"
    for spec in (named, f"executorch?{files}:{home}/program.pte"):
        found = twinnet.check(net, image, spec, out=tmp_path / "run")
        assert isinstance(found, Result) and found.verdict == "FAIL"
        (finding,) = found.findings
        assert finding.place.module == "mix" and finding.cause is not None and finding.cause.kind == "eps"
    # From a file that came off a device: layer, cause, and a repro.
    assert twinnet.repro(tmp_path / "run") is not None
    both = Inspector(tmp_path / "run")
    assert [b.name for b in both.event_blocks] == ["network", "twin"] and both.missing


def test_a_device_with_too_few_executions(device: Path) -> None:
    net, image = small()
    home = device / "0000"
    spec = f"executorch?etdump={home}/etdump.etdp&buffer={home}/debug_buffer.bin:{home}/program.pte"
    with pytest.raises(UsageError, match=r"2 samples, but .* fewer executions: 1"):
        twinnet.check(net, [image, image + 1], spec)
    with pytest.raises(UsageError, match="debug buffer"):
        twinnet.check(net, image, f"executorch?etdump={home}/etdump.etdp:{home}/program.pte")


def test_a_recording_without_its_program(device: Path) -> None:
    """Its ETRecord tells what ran; with neither, steps could be taken for faults."""
    net, image = small()
    home = device / "0000"
    files = f"executorch?etdump={home}/etdump.etdp&buffer={home}/debug_buffer.bin"
    found = twinnet.check(net, image, f"{files}&etrecord={home}/program.etrecord")
    assert isinstance(found, Result) and [f.place.module for f in found.findings] == ["mix"]
    with pytest.raises(UsageError, match=r"does not tell what ran[\s\S]*executorch:FILE.pte\?etdump="):
        twinnet.check(net, image, files)
    with pytest.raises(UsageError, match="quantize=static has no effect on a recording"):
        twinnet.check(net, image, f"{files}&etrecord={home}/program.etrecord&quantize=static")


def test_a_recording_of_another_engine(tmp_path: Path) -> None:
    net, image = small()
    twinnet.record((net, (image,)), image, out=tmp_path / "recording")
    found = Inspector(tmp_path / "recording")
    assert found.missing and {e.module for e in found.events} >= {"stem", "head"}
    assert all(e.debug_data for e in found.events)


# -- damaged -------------------------------------------------------------------------------------------------------


def test_damaged_files_are_refused_or_read(examples: Path, tmp_path: Path) -> None:
    folder, rng = examples / "none", random.Random(0)
    good = {name: (folder / name).read_bytes() for name in ("a.etdp", "a.etrecord", "a.bin")}
    outcomes = set()
    for number in range(120):
        name = ("a.etdp", "a.etrecord")[number % 2]
        data = bytearray(good[name])
        if number % 3:
            for _ in range(rng.randint(1, 8)):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        else:
            del data[rng.randrange(len(data)) :]
        for other, content in good.items():
            (tmp_path / other).write_bytes(bytes(data) if other == name else content)
        try:
            _opened(tmp_path).table(120)
            outcomes.add("read")
        except TwinnetError as error:
            assert error.exit_code == 2, error
            outcomes.add("refused")
    assert outcomes == {"read", "refused"}


def test_what_is_refused(tmp_path: Path) -> None:
    for make in (
        lambda: Inspector(),
        lambda: Inspector(tmp_path, etdump_path="a"),
        lambda: Inspector(tmp_path),
        lambda: Inspector(tmp_path / "absent"),
        lambda: Inspector(etdump_path=tmp_path / "absent"),
        lambda: Inspector(etdump_path=__file__),
        lambda: Inspector(etdump_path="a", buffer_path="b", debug_buffer_path="c"),
    ):
        with pytest.raises(UsageError):
            make()
