"""The suite on a Ray cluster: the same report, from workers that may be lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.needs import absent
from tests.suite.project import write_net
from twinnet.errors import EngineError, UsageError
from twinnet.suite.config import read_config
from twinnet.suite.shipping import Store, pack_run, put_project, take_project, unpack_run

TWINNET = [sys.executable, "-c", "from twinnet.cli.main import main; main()"]


def _project(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for seed, name in enumerate(("one", "two", "three")):
        write_net(folder, name, seed)
    (folder / "pyproject.toml").write_text('[tool.twinnet]\nengines = ["onnxruntime", "onnx-reference"]\n')
    return folder


def _told(folder: Path) -> dict[str, Any]:
    data = json.loads((folder / "runs" / "suite" / "session.json").read_text())
    return {r["name"]: (r["verdict"], r["same_as"], tuple(r["covers"])) for r in data["results"]}


# -- files -------------------------------------------------------------------------------------------------------------


def test_a_project_is_shipped_by_content_and_arrives_whole(tmp_path: Path) -> None:
    config = read_config(_project(tmp_path / "project"))
    store = Store(f"file://{tmp_path / 'store'}")
    listed = put_project(config, store)
    before = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "store" / "files").iterdir()}
    assert len(before) == 4
    assert put_project(config, store) == listed
    assert {p.name: p.stat().st_mtime_ns for p in (tmp_path / "store" / "files").iterdir()} == before
    taken = take_project(listed, store)
    for path in (config.root / "models").iterdir():
        assert (taken / "models" / path.name).read_bytes() == path.read_bytes()
    for file in (tmp_path / "store" / "files").iterdir():
        file.write_bytes(b"other")
    other = json.dumps([[f"again/{inside}", name, digest] for inside, name, digest in json.loads(listed)])
    with pytest.raises(EngineError, match="arrived damaged"):
        take_project(other, store)
    with pytest.raises(EngineError, match="leads out of the project"):
        take_project(json.dumps([["../x", "a", "b"]]), store)
    outside = tmp_path / "outside"
    write_net_to(outside)
    with pytest.raises(UsageError, match="is not in the project"):
        put_project(read_config(config.root, models=[str(outside / "models")]), store)


def write_net_to(folder: Path) -> None:
    folder.mkdir()
    write_net(folder)


def test_a_run_from_a_cluster_stays_in_its_folder(tmp_path: Path) -> None:
    import io
    import zipfile

    (tmp_path / "run" / "inner").mkdir(parents=True)
    (tmp_path / "run" / "inner" / "a.txt").write_text("1")
    unpack_run(pack_run(tmp_path / "run"), tmp_path / "back")
    assert (tmp_path / "back" / "inner" / "a.txt").read_text() == "1"
    for name in ("../x", "/x", "a/../../x"):
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w") as archive:
            archive.writestr(name, "1")
        with pytest.raises(EngineError, match="holds a file"):
            unpack_run(made.getvalue(), tmp_path / "back")
    with pytest.raises(EngineError, match="damaged"):
        unpack_run(b"no zip", tmp_path / "back")


# -- a cluster ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes on this machine, each with one processor."""
    try:
        from ray.cluster_utils import Cluster
    except ImportError:
        absent("ray is not installed")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.add_node(num_cpus=1)
    yield made
    made.shutdown()


def _workers() -> list[int]:
    """Processes that run a task of the suite now."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if b"ray::run_task" in (place / "cmdline").read_bytes():
                found.append(int(place.name))
        except OSError:
            continue
    return found


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_cluster_gives_the_same_report_though_a_worker_is_killed(cluster: Any, tmp_path: Path) -> None:
    here, there = _project(tmp_path / "here"), _project(tmp_path / "there")
    local = subprocess.run([*TWINNET, "suite", "-q"], cwd=here, capture_output=True, text=True)
    killed: list[int] = []

    def kill() -> None:
        until = time.monotonic() + 300
        while time.monotonic() < until and not killed:
            for pid in _workers()[:1]:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
            time.sleep(0.02)

    thread = threading.Thread(target=kill)
    thread.start()
    around = {**os.environ, "TWINNET_CACHE": str(tmp_path / "cache")}
    line = [*TWINNET, "suite", "-q", "--on", f"ray://{cluster.address}"]
    done = subprocess.run(line, cwd=there, capture_output=True, text=True, env=around)
    thread.join()
    assert killed, "no worker was seen"
    assert (done.returncode, local.returncode) == (0, 0), done.stdout + done.stderr
    assert _told(there) == _told(here) and len(_told(here)) >= 24
    for name, (verdict, *_) in _told(there).items():
        run = there / "runs" / "suite" / "runs" / name
        assert (run / "result.json").exists() == (verdict in ("PASS", "FAIL"))
    assert not list((tmp_path / "cache" / "cluster" / "runs").rglob("*.zip")), "the store is cleared"
