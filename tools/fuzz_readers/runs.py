"""What runs leave, and what a dashboard gets of them."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

from tools.fuzz_readers.data import above
from tools.fuzz_readers.networks import make_onnx
from tools.fuzz_readers.reader import Reader, small_net

__all__ = ["RUNS"]


def _make_run(folder: Path) -> None:
    import torch

    import twinnet

    net, x = small_net()
    make_onnx(folder)
    with torch.no_grad():
        net[0].weight *= 1.1
    twinnet.check(net, x, folder / "net.onnx", out=folder / "run")


def _read_run(path: Path) -> None:
    from twinnet.report.json_file import load_result
    from twinnet.shrink.seed import load_seeds

    run = above(path, "run")
    load_result(run)
    load_seeds(run)


def _make_journal(folder: Path) -> None:
    from twinnet.engines import parse_spec
    from twinnet.ladder.journal import Journal
    from twinnet.result import Rung

    Journal(folder, "key").note(
        parse_spec("onnxruntime"), Rung("conv", "block", "Conv", 12, ("conv",), "PASS")
    )


def _read_journal(path: Path) -> None:
    from twinnet.ladder.journal import Journal

    Journal(path.parent, "key")


def _make_session(folder: Path) -> None:
    from twinnet.suite.outcome import Case, Outcome

    one = Outcome(Case("det", "iree", "default", "iree"), "FAIL", message="output differs").to_json()
    data = {"schema": 1, "started": "2026-01-01T00:00:00", "command": [], "results": [one]}
    (folder / "session.json").write_text(json.dumps(data))


def _read_session(path: Path) -> None:
    from twinnet.suite.session import read_session

    read_session(path)


def _make_profile(folder: Path) -> None:
    from twinnet.profile.target import Target
    from twinnet.profiling import profile_twin

    net, x = small_net()
    machine = Target("machine", 1e9, 1e9, 1e-6)
    profile_twin(net, x, out=folder / "profile", repeats=2, rounds=1, target=machine)


def _read_profile(path: Path) -> None:
    """All that is said of a profile, and its comparison with itself."""
    from twinnet.profile import compare_profiles, load_profile
    from twinnet.report.profiles import comparison_text, profile_text

    profile = load_profile(path.parent)
    profile_text(profile, "", 12)
    comparison_text(compare_profiles(profile, profile))


def _make_members(folder: Path) -> None:
    """A bundle, and the files in it."""
    from twinnet.report.bundle import run_session, write_bundle

    _make_run(folder)
    _make_profile(folder / "run")
    session, runs = run_session(folder / "run")
    session["id"] = "fuzz"
    write_bundle(folder / "bundle.zip", session, runs)
    with zipfile.ZipFile(folder / "bundle.zip") as archive:
        archive.extractall(folder / "members")
    for large in (folder / "members").rglob("*"):
        if large.suffix not in (".json", "") and large.is_file():
            large.unlink()


def _take_in(path: Path) -> None:
    """A bundle that is sent to a dashboard; if it is taken, every page that shows it."""
    from twinnet.errors import UsageError

    send = _dashboard(path.parent, os.getpid())
    status, body = send("POST", "/api/v1/bundles", path.read_bytes())
    if status >= 400:
        assert status < 500, (status, body)
        raise UsageError(body.decode())
    told = json.loads(body)
    number = told["url"].rpartition("/")[2]
    runs = json.loads(send("GET", f"/api/v1/sessions/{number}/runs")[1])["items"]
    pages = ["/", f"/sessions/{number}", f"/sessions/{number}/cases", "/models", "/trends"]
    for run in runs:
        pages += [f"/cases/{run['id']}", f"/api/v1/runs/{run['id']}/layers", f"/cases/{run['id']}/pictures"]
    for page in pages:
        status, body = send("GET", page)
        assert status < 500, (page, status, body)
    send("DELETE", f"/api/v1/sessions/{number}")


def _take_in_members(path: Path) -> None:
    home = above(path, "members")
    bundle = home.parent / "damaged.zip"
    with zipfile.ZipFile(bundle, "w") as archive:
        for file in home.rglob("*"):
            if file.is_file():
                archive.write(file, file.relative_to(home).as_posix())
    _take_in(bundle)


@cache
def _dashboard(folder: Path, pid: int) -> Any:
    """A dashboard without a socket: asked for a path, it answers with status and body."""
    import asyncio

    import httpx

    from twinnet.dashboard.app import make_app
    from twinnet.dashboard.database import open_database
    from twinnet.dashboard.settings import Settings
    from twinnet.dashboard.store import open_store
    from twinnet.dashboard.tokens import Tokens

    home = folder / f"dashboard-{pid}"
    home.mkdir()
    database = open_database(f"sqlite:///{home / 'runs.db'}")
    tokens = Tokens(database)
    headers = {"Authorization": f"Bearer {tokens.add('fuzz', 'admin')}", "Content-Type": "application/zip"}
    app = make_app(database, open_store(str(home / "files")), Settings(), tokens)

    async def asked(method: str, path: str, data: bytes) -> tuple[int, bytes]:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
            answer = await client.request(method, path, content=data, headers=headers)
            return answer.status_code, answer.content

    return lambda method, path, data=b"": asyncio.run(asked(method, path, data))


def _make_packed(folder: Path) -> None:
    from twinnet.suite.shipping import pack_run

    _make_run(folder)
    (folder / "packed.zip").write_bytes(pack_run(folder / "run"))


def _read_packed(path: Path) -> None:
    from twinnet.suite.shipping import unpack_run

    try:
        unpack_run(path.read_bytes(), path.parent / "unpacked")
    finally:
        shutil.rmtree(path.parent / "unpacked", ignore_errors=True)


RUNS: dict[str, Reader] = {
    "run folder": Reader(_make_run, _read_run, "run/**/*"),
    "climb": Reader(_make_journal, _read_journal, "rungs.json"),
    "session": Reader(_make_session, _read_session, "session.json"),
    "profile": Reader(_make_profile, _read_profile, "profile/profile.json"),
    "bundle": Reader(_make_members, _take_in, "bundle.zip"),
    "bundle members": Reader(_make_members, _take_in_members, "members/**/*"),
    "packed run": Reader(_make_packed, _read_packed, "packed.zip"),
}
