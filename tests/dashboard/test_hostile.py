"""Bundles that mean no good: each is refused with a reason, and nothing of it stays."""

from __future__ import annotations

import html
import io
import json
import os
import re
import resource
import stat
import uuid
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.bundles import bundle, case, session, zipped
from tests.dashboard.places import Running, running
from twinnet.dashboard.archive import Limits
from twinnet.dashboard.settings import Settings

LIMITS = Limits(body=2 << 20, unpacked=8 << 20, member=4 << 20, text=1 << 20, members=200, ratio=300)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Path]]:
    """A dashboard with small limits, and its folder."""
    folder = tmp_path_factory.mktemp("small")
    with running(f"sqlite:///{folder}/a.db", folder / "files", Settings(port=0, limits=LIMITS)) as found:
        yield found, folder


def with_member(name: str, data: bytes = b"x") -> bytes:
    """A good bundle with one more member."""
    made = io.BytesIO(bundle(uuid.uuid4().hex, [case("good")]))
    with zipfile.ZipFile(made, "a") as archive:
        archive.writestr(name, data)
    return made.getvalue()


def linked(kind: int) -> bytes:
    made = io.BytesIO(bundle(uuid.uuid4().hex, [case("good")]))
    with zipfile.ZipFile(made, "a") as archive:
        info = zipfile.ZipInfo("runs/good_full_model-onnxruntime-default/link")
        info.external_attr = (kind | 0o777) << 16
        archive.writestr(info, "/etc/passwd")
    return made.getvalue()


def told(**more: Any) -> bytes:
    """A bundle of session.json only."""
    return zipped({"session.json": json.dumps({**session("k", []), **more})})


def renamed(old: bytes, new: bytes) -> bytes:
    """A name changed in the bytes, which zipfile itself would not write."""
    return with_member(old.decode()).replace(old, new)


GOOD = "runs/good_full_model-onnxruntime-default"
HOSTILE: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "no zip": lambda: b"PK\x03\x04 not really",
    "truncated": lambda: bundle("a", [case("good")])[:-30],
    "absolute": lambda: with_member("/etc/passwd"),
    "up": lambda: with_member(f"{GOOD}/../../../evil"),
    "up at the end": lambda: with_member(f"{GOOD}/.."),
    "drive": lambda: with_member("C:/evil"),
    "backslashes": lambda: with_member("runs\\..\\..\\evil"),
    "control": lambda: with_member(f"{GOOD}/a\nb"),
    "nul": lambda: renamed(f"{GOOD}/aXb".encode(), f"{GOOD}/a\0b".encode()),
    "empty part": lambda: with_member(f"{GOOD}//a"),
    "elsewhere": lambda: with_member("other/file"),
    "no case": lambda: with_member("runs/stranger/file"),
    "long name": lambda: with_member(f"{GOOD}/" + "a" * 600),
    "symlink": lambda: linked(stat.S_IFLNK),
    "device": lambda: linked(stat.S_IFCHR),
    "fifo": lambda: linked(stat.S_IFIFO),
    "twice": lambda: with_member(f"{GOOD}/NOTE.txt"),
    "bomb": lambda: bundle("a", [case("good")], {"zeros": bytes(3 << 20)}),
    "too large": lambda: bundle("a", [case("good")], {"big": __import__("os").urandom(3 << 20)}),
    "too many": lambda: bundle("a", [case("good")], {f"f{i}": b"" for i in range(300)}),
    "no session": lambda: zipped({"runs/a/b": b""}),
    "session is a list": lambda: zipped({"session.json": "[]"}),
    "session is no json": lambda: zipped({"session.json": "{"}),
    "session is deep": lambda: zipped({"session.json": '{"results": [], "schema": 1, "a": ' + "[" * 100_000}),
    "newer": lambda: told(schema=99),
    "schema true": lambda: told(schema=True),
    "no results": lambda: told(results=None),
    "case is text": lambda: told(results=["x"]),
    "no name": lambda: told(results=[{"verdict": "PASS"}]),
    "no verdict": lambda: told(results=[{"name": "a", "verdict": "GREAT"}]),
    "same name twice": lambda: told(results=[{"name": "a", "verdict": "PASS"}] * 2),
    "folder outside": lambda: told(results=[{"name": "a", "verdict": "PASS", "run": "../../etc"}]),
    "id with markup": lambda: told(id="<script>alert(1)</script>"),
    "result is no result": lambda: bundle("a", [case("good")], {"result.json": b'{"verdict": "PASS"}'}),
    "result is newer": lambda: bundle(
        "a", [case("good")], {"result.json": b'{"verdict": "PASS", "schema": 99}'}
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bundles_are_refused(small: tuple[Running, Path], name: str) -> None:
    dashboard, folder = small
    before = dashboard.json("/sessions?limit=200")
    status, answer = dashboard.post(HOSTILE[name]())
    assert status in (413, 422), (status, answer)
    assert answer["detail"]
    assert dashboard.json("/sessions?limit=200") == before
    assert not list((folder / "files" / "incoming").iterdir())
    assert not Path("/evil").exists() and not (folder.parent / "evil").exists()


def test_a_damaged_member_is_refused(small: tuple[Running, Path]) -> None:
    good = bytearray(bundle("a", [case("good")], {"data": b"abcdefgh" * 20}))
    at = good.index(b"data", 30) + 10
    good[at] ^= 0xFF
    assert small[0].post(bytes(good))[0] == 422


def test_texts_are_escaped_on_every_page(small: tuple[Running, Path]) -> None:
    dashboard, _ = small
    evil = "<script>alert('x')</script>\"'><img src=x onerror=alert(1)>"
    bad = case(
        "model", "FAIL", message=evil, name=evil[:60].replace("/", "_"), run="", expected="no", step=evil[:30]
    )  # fmt: skip
    bad["case"].update(model=evil, engine=evil[:100], layer=evil, spec=evil)
    good = case("model", run="")
    good["case"].update(model=evil, engine=evil[:100], layer="", spec=evil)
    for key in ("e1", "e2"):
        status, told_back = dashboard.post(
            bundle(key, [bad, good], branch=evil, commit=evil, who=evil, command=[evil], environment={evil: evil})
        )  # fmt: skip
        assert status == 201
    number, run = told_back["session"], told_back["cases"][0]["id"]
    from urllib.parse import quote

    for path in (
        "/",
        f"/?q={quote(evil)}",
        f"/sessions/{number}",
        f"/sessions/{number}/cases?model={quote(evil)}",
        f"/cases/{run}",
        "/models",
        f"/models/{quote(evil, safe='')}",
        f"/trends?model={quote(evil)}",
        f"/compare?a={number}",
        f"/enter?next={quote(evil)}",
    ):
        status, body, headers = dashboard.ask(path)
        assert status == 200, path
        assert b"<script>alert" not in body and b"<img src=x" not in body, path
        assert "'unsafe-inline'" not in headers["content-security-policy"]


def test_a_report_runs_in_a_sandbox(small: tuple[Running, Path]) -> None:
    dashboard, _ = small
    page = b"<script>fetch('/')</script>"
    files = {"report.html": page, "a.svg": b"<svg/>", "b.js": b"1"}
    told_back = dashboard.post(bundle("sandbox", [case("page")], files))[1]
    run = told_back["cases"][0]["id"]
    for name, kind in (
        ("report.html", "text/html"),
        ("a.svg", "application/octet-stream"),
        ("b.js", "application/octet-stream"),
    ):
        status, _, headers = dashboard.ask(f"/cases/{run}/files/{name}")
        assert status == 200
        assert headers["content-type"].startswith(kind)
        assert "sandbox" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
    assert "connect-src" not in dashboard.ask(f"/cases/{run}/files/report.html")[2]["content-security-policy"]


def test_sources_named_in_a_result_are_not_read(small: tuple[Running, Path], tmp_path: Path) -> None:
    """A result may name any file as the source of a layer; the server must not show its lines."""
    from dataclasses import replace

    from tests.dashboard.bundles import result_json
    from tests.report import examples

    secret = tmp_path / "secret.py"
    secret.write_text("password = 'sesame'\n" * 5)
    failing = examples.failing()
    finding = failing.findings[0]
    cause = replace(finding.cause, layer=None) if finding.cause else None
    named = replace(finding, site=replace(finding.site, source=f"{secret}:2"), cause=cause)
    data = result_json(replace(failing, findings=(named,)))
    told_back = dashboard_post(small[0], data)
    assert "sesame" not in small[0].page(f"/cases/{told_back}")


def test_commands_to_paste_are_ours(small: tuple[Running, Path]) -> None:
    """Names of cases and commands in results are anyone's; what the page offers to copy runs nothing else."""
    import shlex
    from dataclasses import replace

    from tests.dashboard.bundles import result_json
    from tests.report import examples

    dashboard, _ = small
    name = "../../a'; touch /tmp/evil; $(touch /tmp/evil) `touch /tmp/evil`"
    bad = {**case("net", "FAIL"), "name": name, "run": "runs/here"}
    data = result_json(replace(examples.failing(), command="touch /tmp/evil", folder=name))
    status, told_back = dashboard.post(bundle("paste", [bad], {"result.json": data, "seeds/a": b"1"}))
    assert status == 201
    run = told_back["cases"][0]["id"]
    page = html.unescape(dashboard.page(f"/cases/{run}"))
    commands = re.findall(r"<code id=[^>]*>(.*?)</code>", page, re.S)
    assert len(commands) == 2  # the repro, and the case again
    for command in commands:
        for part in command.split(" && "):
            words = shlex.split(part)
            assert words[0] in ("twinnet", "unzip") and "touch" not in words, part
    body = dashboard.ask(f"/cases/{run}/run.zip")[1]
    names = zipfile.ZipFile(io.BytesIO(body)).namelist()
    assert names and not any(part in ("..", "") for name in names for part in name.split("/"))


def dashboard_post(dashboard: Running, data: bytes) -> int:
    return dashboard.post(bundle(uuid.uuid4().hex, [case("named", "FAIL")], {"result.json": data}))[1][
        "cases"
    ][0]["id"]


def test_a_full_disk_is_said_and_nothing_stays(small: tuple[Running, Path]) -> None:
    """A file that may not grow stands for the disk; the limit is for this process, which is the server's."""
    dashboard, folder = small
    sent = bundle(uuid.uuid4().hex, [case("full")], {"noise.bin": os.urandom(900_000)})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, before[1]))
    try:
        status, answer = dashboard.post(sent)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (status, answer["detail"]) == (507, "the server cannot store this: File too large")
    assert list((folder / "files" / "incoming").iterdir()) == []
    assert dashboard.post(sent)[0] == 201
