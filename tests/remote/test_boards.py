"""Twins on a board: a real sshd on loopback, reached as a board is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import twinnet
from tests.boards import SshBoard, start_board
from tests.needs import need_engine
from tests.onnx_edit import make_model, node_of, save, set_attribute
from twinnet.errors import EngineError, UsageError
from twinnet.programs.place import Script
from twinnet.programs.start import Task
from twinnet.remote.board import Board, board_at
from twinnet.remote.lease import Lease
from twinnet.remote.ssh import CONFIG
from twinnet.result import Result
from twinnet.scratch import scratch_folder

TWINNET = [sys.executable, "-c", "from twinnet.cli.main import main; main()"]
X = np.random.default_rng(1).standard_normal((1, 3, 12, 10)).astype(np.float32)


@pytest.fixture(autouse=True)
def _engine() -> None:
    need_engine("onnxruntime")


def _check(*given: object, **options: object) -> Result:
    found = twinnet.check(*given, **options)  # type: ignore[arg-type]
    assert isinstance(found, Result)
    return found


def _left(board: SshBoard) -> list[Path]:
    """What a run left on the board beside the store, the lock and the script."""
    until = time.monotonic() + 5
    while (found := _seen(board)) and time.monotonic() < until:
        time.sleep(0.05)  # a shell that lost its connection ends a moment later
    return found


def _seen(board: SshBoard) -> list[Path]:
    return [*(board.home / "runs").iterdir(), *board.home.glob("serve-*"), *(board.home / "store").glob(".*")]


# -- results -----------------------------------------------------------------------------------------------------------


def test_a_recording_from_the_board_is_the_one_from_here(board: SshBoard, net: Path, tmp_path: Path) -> None:
    here = twinnet.record(str(net), X, out=tmp_path / "here", reference="onnxruntime")
    copied = board_at(board.address()).copied
    there = twinnet.record(str(net), X, out=tmp_path / "there", reference="onnxruntime", on=board.address())
    assert copied.files >= 3, "the network, its tapped form and the runner were copied"
    assert [s.tensor for s in there.sites] == [s.tensor for s in here.sites] and len(here.sites) == 3
    assert there.side.version == here.side.version and there.side.spec.startswith("onnxruntime@ssh://board")
    compared = twinnet.compare(tmp_path / "here", tmp_path / "there", network=str(net))
    assert isinstance(compared, Result) and compared.verdict == "PASS"
    for site in here.sites:
        np.testing.assert_array_equal(here.trace(0)[site.tensor], there.trace(0)[site.tensor])
    assert _left(board) == []

    before = (copied.files, copied.bytes)
    twinnet.record(str(net), X, out=tmp_path / "again", reference="onnxruntime", on=board.address())
    assert (copied.files, copied.bytes) == before, "a second run copies nothing"


def test_a_fault_on_the_board_is_placed_and_named(
    board: SshBoard, net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = onnx.load(str(net))
    set_attribute(node_of(broken, "Conv"), "pads", [0, 0, 2, 2])
    save(broken, tmp_path / "broken.onnx")
    twin = f"onnxruntime:{tmp_path / 'broken.onnx'}"
    here = _check(str(net), X, twin)
    there = _check(str(net), X, f"{twin}@{board.address()}", out=tmp_path / "run")
    for result in (here, there):
        assert result.verdict == "FAIL" and len(result.findings) == 1
        assert result.findings[0].cause is not None and result.findings[0].cause.kind == "padding"
    assert there.findings[0].site == here.findings[0].site
    assert "on board)" in " ".join(repr(there).split()) and "python=" not in repr(there)
    assert _left(board) == []


def test_the_command_line_takes_a_place(board: SshBoard, net: Path, tmp_path: Path) -> None:
    line = [*TWINNET, "check", str(net), "--on", board.address(), "--samples", "1", "-q"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "PASS\n"), done.stderr
    assert [p.name for p in (tmp_path / "runs").iterdir()] == ["net-onnxruntime-board"]
    listed = subprocess.run(
        [*TWINNET, "engines", "--on", board.address()],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert listed.returncode == 0, listed.stderr
    rows = dict(line.split(maxsplit=1) for line in listed.stdout.splitlines() if line.count(" ") > 1)
    assert rows["onnxruntime"].split()[:2] == ["onnxruntime", need_engine("onnxruntime")]
    assert rows["command"].startswith("its programs") and rows["lut"].startswith("numpy ")


@pytest.mark.parametrize(
    ("engine", "options", "shown"),
    [
        ("litert", "", 14),
        ("openvino", "", 3),
        pytest.param("iree", "?cpu=generic", 4, marks=pytest.mark.slow),
    ],
    ids=["litert", "openvino", "iree"],
)
def test_an_engine_shows_on_a_board_what_it_shows_here(
    board: SshBoard, net: Path, tmp_path: Path, engine: str, options: str, shown: int
) -> None:
    need_engine(engine)
    if engine == "litert":
        from tests.tflite_nets import small_tflite

        net = tmp_path / "net.tflite"
        net.write_bytes(small_tflite().data)
    spec = engine + options
    ours = twinnet.record(str(net), out=tmp_path / "here", reference=spec, samples=1)
    theirs = twinnet.record(str(net), out=tmp_path / "there", reference=spec, samples=1, on=board.address())
    assert theirs.side.version == ours.side.version
    assert [s.tensor for s in theirs.sites] == [s.tensor for s in ours.sites]
    seen = [s.tensor for s in ours.sites if s.tensor in ours.trace(0)]
    assert len(seen) >= shown
    for tensor in seen:
        np.testing.assert_array_equal(ours.trace(0)[tensor], theirs.trace(0)[tensor])
    assert _left(board) == []


@pytest.mark.slow
def test_a_program_of_executorch_is_lowered_here_and_runs_on_a_board(board: SshBoard, tmp_path: Path) -> None:
    need_engine("executorch")
    from tests.executorch.nets import small

    net, image = small()
    ours = twinnet.record(net, image, out=tmp_path / "here", reference="executorch")
    theirs = twinnet.record(net, image, out=tmp_path / "there", reference="executorch", on=board.address())
    assert theirs.side.version == ours.side.version
    seen = [s.tensor for s in ours.sites if s.tensor in ours.trace(0)]
    assert len(seen) >= 8 and [s.tensor for s in theirs.sites] == [s.tensor for s in ours.sites]
    for tensor in seen:
        np.testing.assert_array_equal(ours.trace(0)[tensor], theirs.trace(0)[tensor])
    assert _left(board) == []


def test_a_board_with_nothing_but_busybox(net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its shell, tar, ls and the rest are small; files, results, stopping and clearing work all the same."""
    small = start_board(tmp_path / "small", busybox=True)
    monkeypatch.setenv(CONFIG, str(small.config))
    try:
        twinnet.record(str(net), X, out=tmp_path / "here", reference="onnxruntime")
        twinnet.record(str(net), X, out=tmp_path / "there", reference="onnxruntime", on=small.address())
        compared = twinnet.compare(tmp_path / "here", tmp_path / "there", network=str(net))
        assert isinstance(compared, Result) and compared.verdict == "PASS"
        with Board(board_at(small.address(store=1)).address).kept() as place:
            for name in ("a", "b"):
                (tmp_path / name).write_bytes(os.urandom(700_000))
            place.give([tmp_path / "a", tmp_path / "b"])
            room = place.room("test")
            pid = tmp_path / "pid"
            with pytest.raises(EngineError, match="within the time limit") as raised:
                words = ["sh", "-c", f"echo $$ >{pid}; sleep 60; echo late"]
                room.start(words, Task("sh", "sleep", 2.0))
            assert raised.value.accident == "time"
            assert _ended(int(pid.read_text()))
            room.close()
        assert _left(small) == []
        assert sum(file.stat().st_size for file in (small.home / "store").iterdir()) <= 1_000_000
    finally:
        small.stop()


def _ended(pid: int) -> bool:
    until = time.monotonic() + 5
    while Path(f"/proc/{pid}").exists() and time.monotonic() < until:
        time.sleep(0.05)
    return not Path(f"/proc/{pid}").exists()


def test_tables_on_a_board_give_the_integers_of_here(board: SshBoard, tmp_path: Path) -> None:
    """Numpy alone there; every site is seen, and a wrong entry is placed."""
    import torch

    from twinnet.lut import export
    from twinnet.lut.file import save as save_tables
    from twinnet.restore.nets import srlut

    torch.manual_seed(0)
    net = export(srlut.build("S", scale=2, width=4))
    file = save_tables(net, tmp_path / "net.lut.safetensors")
    image = np.random.default_rng(0).integers(0, 256, (1, 1, 9, 11)).astype(np.float32) / 255
    result = _check(str(file), image, "lut", on=board.address())
    assert result.verdict == "PASS", result.error
    assert result.coverage.paired == result.coverage.sites > 4
    assert all(pair.difference is not None and pair.difference.max_abs == 0 for pair in result.pairs)
    assert _left(board) == []


_PROGRAM = """
import sys
from pathlib import Path
import numpy, onnxruntime
model, given, out = sys.argv[1:]
net = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
feeds = {i.name: numpy.load(Path(given, f"{n}.npy")) for n, i in enumerate(net.get_inputs())}
for n, value in enumerate(net.run(None, feeds)):
    numpy.save(Path(out, f"{n}.npy"), value)
"""


def _command(tmp_path: Path, arguments: str, **more: str) -> Path:
    (tmp_path / "own program.py").write_text(_PROGRAM)
    lines = ['name = "vendor"', "[run]", f"run = [{arguments}]", *(f"{k} = {v}" for k, v in more.items())]
    (tmp_path / "vendor.toml").write_text("\n".join([*lines, "[environment]", 'ODD = "a\'b $HOME `x` \\"c"']))
    return tmp_path / "vendor.toml"


def test_a_users_own_program_runs_on_the_board(board: SshBoard, net: Path, tmp_path: Path) -> None:
    """Its file goes with the description; inner tensors are seen because they are outputs of the model that it gets."""
    file = _command(tmp_path, '"{python}", "{here}/own program.py", "{model}", "{inputs}", "{outputs}"')
    with file.open("a") as text:
        text.write('\n[intermediates]\nhow = "outputs"\n')
    result = _check(str(net), X, f"command:{file}", on=board.address())
    assert result.verdict == "PASS", result
    assert result.coverage.paired == 4
    assert _left(board) == []


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def test_an_unknown_host_key_is_refused(
    board: SshBoard, net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text(board.config.read_text().replace("known_hosts", "nobody_known"))
    monkeypatch.setenv(CONFIG, str(tmp_path / "config"))
    result = _check(str(net), X, "onnxruntime", on=board.address(wait=1))
    assert (result.verdict, result.stage, result.exit_code) == ("ERROR", "connect", 3)
    assert "host key is not known" in result.error
    assert f"ssh -F {tmp_path}/config" in result.error, "the command that mends it finds the same board"
    assert not (board.folder / "nobody_known").exists(), "nothing was accepted"


def test_what_a_board_lacks_is_said_with_the_command_that_installs_it(board: SshBoard) -> None:
    board_there = Board(board_at(board.address()).address)
    with board_there.kept(), pytest.raises(EngineError) as raised:
        board_there.versions(("numpy", "no-such-runtime"))
    assert "lacks no-such-runtime" in str(raised.value)
    assert "ssh board python3 -m pip install no-such-runtime" in str(raised.value)
    bare = board.address(python="/nowhere/python3")
    with board_at(bare).kept(), pytest.raises(EngineError, match="has no /nowhere/python3"):
        board_at(bare).versions(("numpy",))


def test_an_engine_without_a_runner_says_so(board: SshBoard, net: Path) -> None:
    with pytest.raises(UsageError, match="torch has no runner for boards") as raised:
        _check(str(net), X, "torch", on=board.address())
    assert "onnxruntime" in str(raised.value)
    with pytest.raises(UsageError, match="only a twin that an engine runs"):
        _check(str(net), X, lambda x: x, on=board.address())


_SLOW = """
import json, os, sys, time
answers = os.fdopen(os.dup(1), "w")
loaded = []
for line in sys.stdin:
    asked = json.loads(line)
    if asked["do"] == "load":
        loaded.append(asked["session"])
    elif asked["do"] == "die":
        print("these are my last words", file=sys.stderr)
        os._exit(3)
    else:
        with open(asked["file"], "a") as file:
            file.write("x")
        time.sleep(asked["seconds"])
    answers.write(json.dumps({"loaded": loaded}) + "\\n")
    answers.flush()
"""


def _when(path: Path, size: int, call: object) -> threading.Thread:
    """Call something when a file has reached a size."""

    def wait() -> None:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            if path.exists() and path.stat().st_size >= size:
                call()  # type: ignore[operator]
                return
            time.sleep(0.01)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_a_lost_connection_is_tried_once_more(board: SshBoard, tmp_path: Path) -> None:
    """The worker starts again and has loaded what it had; a second loss is an error."""
    (tmp_path / "slow.py").write_text(_SLOW)
    place = Board(board_at(board.address()).address)
    room = place.room("test")
    try:
        worker = room.worker(Script(tmp_path / "slow.py", "slow", ()))
        worker.ask({"do": "load", "session": 7}, "load")
        mark = tmp_path / "mark"
        cut = _when(mark, 1, board.cut)
        answer = worker.ask({"do": "wait", "file": str(mark), "seconds": 1.0}, "wait")
        cut.join()
        assert answer == {"loaded": [7]} and mark.read_text() == "xx"

        cuts = [_when(mark, 3, board.cut), _when(mark, 4, board.cut)]
        with pytest.raises(EngineError) as raised:
            worker.ask({"do": "wait", "file": str(mark), "seconds": 1.0}, "wait")
        for thread in cuts:
            thread.join()
        assert (
            raised.value.stage == "run"
            and "connection" in raised.value.what
            and "was lost" in raised.value.what
        )

        with pytest.raises(EngineError, match="exit code 3; these are my last words"):
            worker.ask({"do": "die"}, "answer")
    finally:
        room.close()
    assert _left(board) == []


def test_a_board_that_goes_away_is_an_error(
    request: pytest.FixtureRequest, tmp_path: Path, net: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.boards import start_board

    lonely = start_board(tmp_path / "b")
    request.addfinalizer(lonely.stop)
    monkeypatch.setenv(CONFIG, str(lonely.config))
    mark = tmp_path / "mark"
    program = f"from pathlib import Path\nPath({str(mark)!r}).write_text('x')\nimport time\ntime.sleep(30)\n"
    file = _command(tmp_path, '"{python}", "{here}/own program.py"')
    (tmp_path / "own program.py").write_text(program)
    gone = _when(mark, 1, lonely.stop)
    result = _check(str(net), X, f"command:{file}", on=lonely.address())
    gone.join()
    assert (result.verdict, result.exit_code) == ("ERROR", 3)
    assert result.stage in ("connect", "run")
    assert "was lost" in result.error or "cannot connect" in result.error


def test_a_program_that_takes_too_long_is_stopped_there(board: SshBoard, tmp_path: Path) -> None:
    room = Board(board_at(board.address()).address).room("test")
    try:
        pid = tmp_path / "pid"
        code = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
        with pytest.raises(EngineError, match="within the time limit"):
            room.start([sys.executable, "-c", code], Task("python", "sleep", 2.0))
        assert _ended(int(pid.read_text()))
        with pytest.raises(EngineError, match="it died of SIGSEGV"):
            room.start(["sh", "-c", "kill -SEGV $$"], Task("sh", "live"))
        with pytest.raises(EngineError, match="no-such-program"):
            room.start(["no-such-program"], Task("no-such-program", "run"))
    finally:
        room.close()
    assert _left(board) == []


def test_names_from_outside_stay_names(board: SshBoard, tmp_path: Path) -> None:
    """Arguments, variables and file names reach the program as they are, and nothing else happens."""
    evil = [
        "; touch pwned",
        "$(touch pwned)",
        "`touch pwned`",
        "a'b\"c\\d",
        "--",
        "",
        "ü ✓",
        "x\ny",
        "*",
        "-rf",
    ]
    room = Board(board_at(board.address()).address).room("te st")
    try:
        part = room.folder / "in"
        part.mkdir()
        (part / "a; touch pwned $(x) 'q'.txt").write_text("1")
        (part / "-rf").write_text("2")
        room.push(part)
        code = "import json, os, sys; print(json.dumps([sys.argv[1:], os.environ['ODD'], sorted(os.listdir('.'))]))"
        done = room.start(
            [sys.executable, "-c", code, *evil],
            Task("python", "say"),
            folder=part,
            environment={"ODD": evil[3]},
        )
        assert json.loads(done.out) == [evil, evil[3], ["-rf", "a; touch pwned $(x) 'q'.txt"]]
        (part / "a\nb").write_text("3")
        with pytest.raises(EngineError, match="cannot be called"):
            room.push(part)
    finally:
        room.close()
    assert not list(board.home.rglob("pwned"))


def test_a_network_with_odd_names_runs_on_a_board(board: SshBoard, tmp_path: Path) -> None:
    odd = "a b;$(touch pwned)'\"/../x"
    nodes = [helper.make_node("Relu", [odd], ["r`x`"]), helper.make_node("Neg", ["r`x`"], ["y\ny"])]
    save(make_model(nodes, {odd: (1, 3)}, ["y\ny"]), tmp_path / "net.onnx")
    result = _check(str(tmp_path / "net.onnx"), None, "onnxruntime?opt=off", on=board.address(), samples=1)
    assert result.verdict == "PASS"


def test_what_a_board_sends_cannot_leave_its_folder(tmp_path: Path) -> None:
    import io
    import tarfile

    board = Board(board_at("ssh://nowhere").address)
    for name in ("room/../../x", "/etc/x", "other/x"):
        packed = tmp_path / "files.tar"
        with tarfile.open(packed, "w") as tar:
            info = tarfile.TarInfo(name)
            info.size = 1
            tar.addfile(info, io.BytesIO(b"1"))
        with pytest.raises(EngineError, match="other than a copy of room"):
            board._unpack(packed, "room", tmp_path / "target")
    with tarfile.open(tmp_path / "files.tar", "w") as tar:
        link = tarfile.TarInfo("room/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    board._unpack(tmp_path / "files.tar", "room", tmp_path / "target")
    assert not (tmp_path / "target" / "link").exists()


# -- the lease ---------------------------------------------------------------------------------------------------------


def _lease(place: Board, **options: int) -> Lease:
    return Lease(place.call, place.name, report=place.report, **{"seconds": 60, "wait": 0, **options})


def test_a_board_in_use_is_waited_for_and_says_by_whom(board: SshBoard) -> None:
    said: list[str] = []
    # Another user's process that was killed: it renews no longer.
    dead = Board(board_at(board.address()).address)
    dead.enter()
    assert dead._lease is not None
    dead._lease.stop()
    (board.home / "runs" / dead.run / "left behind").write_text("x")
    waiting = Board(board_at(board.address(wait=0)).address)
    with pytest.raises(
        EngineError, match=r"is in use by .*@.* \(process \d+\), whose lease ends in \d+ s"
    ) as raised:
        waiting.enter()
    assert raised.value.stage == "connect" and "?wait=SECONDS" in str(raised.value)
    later = Board(board_at(board.address(wait=30)).address, lambda step, _: said.append(step))
    later.call("renew", "0", "nobody", "1")  # connects
    ours = board.home / "lock" / f"lease.{dead._lease.number}"
    ours.write_text(f"{int(time.time()) + 2} {dead._lease.owner}\n")
    with later.kept():
        assert ours.with_suffix(f".{dead._lease.number + 1}").exists()
        assert any("waiting for ssh://board" in step and "in use by" in step for step in said)
        assert [p.name for p in (board.home / "runs").iterdir()] == [later.run], (
            "the rest of the dead one is gone"
        )
    # It wakes up: its lease is not the newest any more, and it must not release that of somebody else.
    with waiting.kept():
        dead.leave()
        lease = waiting._lease
        assert lease is not None
        newest = max((board.home / "lock").glob("lease.*"), key=lambda p: int(p.suffix[1:]))
        assert newest.read_text().split()[1] == lease.owner and int(newest.read_text().split()[0]) > 0


def test_a_lease_is_renewed_while_it_is_needed(board: SshBoard) -> None:
    with Board(board_at(board.address(lease=2)).address).kept() as ours:
        until = time.monotonic() + 2.6
        while time.monotonic() < until:
            time.sleep(0.5)
            ours.check()
        other = Board(board_at(board.address(wait=0)).address)
        with pytest.raises(EngineError, match="is in use"):
            other.enter()
    with other.kept():
        pass


def test_of_many_who_want_the_board_one_gets_it(board: SshBoard) -> None:
    """Twenty at once, against a lease that is over: exactly one takes it."""
    script = next(board.home.glob("board-*.sh"), None)
    if script is None:
        with Board(board_at(board.address()).address).kept():
            script = next(board.home.glob("board-*.sh"))
    with scratch_folder("lock") as lock:
        for left in (0, 5):
            (lock / "lease.1").write_text(f"{int(time.time()) - 10} somebody")
            words = ["sh", str(script), str(board.home), str(lock), "take"]
            started = [
                subprocess.Popen([*words, f"me-{left}-{n}", "60"], stdout=subprocess.PIPE, text=True)
                for n in range(20)
            ]
            said = [child.communicate()[0].split()[0] for child in started]
            assert sorted(said) == ["held"] * 19 + ["taken"]
            for file in lock.glob("lease.*"):
                file.unlink()
        # The clock of a board without a battery: a lease from years ahead does not hold for years.
        (lock / "lease.4").write_text(f"{int(time.time()) + 10**7} somebody")
        taken = subprocess.run([*words, "me", "60"], capture_output=True, text=True)
        assert taken.stdout.split()[:2] == ["taken", "5"]


def test_the_store_of_a_board_does_not_grow_without_end(board: SshBoard, tmp_path: Path) -> None:
    for n in range(3):
        with Board(board_at(board.address(store=1)).address).kept() as place:
            (tmp_path / "large.bin").write_bytes(os.urandom(700_000))
            place.give([tmp_path / "large.bin"])
            then = time.time() + n
            os.utime(board.home / "store" / place.give([tmp_path / "large.bin"])[0], (then, then))
    kept = sum(file.stat().st_size for file in (board.home / "store").iterdir())
    assert 700_000 <= kept <= 1_000_000
