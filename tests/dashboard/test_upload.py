"""Suites and checks on their way to a dashboard; a server that is away; folders and bundles later."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from tests.dashboard.bundles import bundle, case
from tests.dashboard.places import Running
from tests.needs import need_engine
from tests.suite.project import write_net


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one small model and a suite of one engine, whole models and layers."""
    need_engine("onnxruntime")
    folder = tmp_path_factory.mktemp("project")
    write_net(folder)
    (folder / "pyproject.toml").write_text('[tool.twinnet]\nengines = ["onnxruntime"]\n')
    return folder


def suite(folder: Path, url: str, token: str) -> subprocess.CompletedProcess[str]:
    """`twinnet suite` against a server."""
    code = "import sys; from twinnet.cli.main import main; main()"
    environment = {**os.environ, "TWINNET_SERVER": url, "TWINNET_TOKEN": token, "TWINNET_BRANCH": "topic"}
    environment |= {"TWINNET_COMMIT": "abc123", "TWINNET_WHO": "tests"}
    return subprocess.run(
        [sys.executable, "-c", code, "suite"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_a_suite_is_uploaded_while_it_runs_and_later_again(dashboard: Running, project: Path) -> None:
    done = suite(project, dashboard.url, dashboard.token)
    assert done.returncode == 0, done.stdout + done.stderr
    links = [
        line.strip()
        for line in done.stdout.splitlines()
        if line.strip().startswith(f"{dashboard.url}/cases/")
    ]
    told = json.loads((project / "runs" / "suite" / "session.json").read_text())
    assert len(links) == len(told["results"]) > 3
    assert f"{dashboard.url}/s/{told['id']}" in done.stdout
    for link in links[:2]:
        dashboard.page(link.removeprefix(dashboard.url))
    found = next(s for s in dashboard.json("/sessions?branch=topic")["items"] if s["key"] == told["id"])
    assert (found["total"], found["who"], found["commit"]) == (len(links), "tests", "abc123")
    assert found["finished"] is not None
    from twinnet.upload.folders import send_later

    assert send_later(dashboard.server, project / "runs" / "suite").endswith(told["id"])
    assert dashboard.json(f"/sessions/{found['id']}")["total"] == len(links)


def test_a_server_that_is_away_stops_nothing(project: Path) -> None:
    done = suite(project, "http://127.0.0.1:9", "x")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "not uploaded" in done.stdout and "twinnet upload runs/suite" in done.stdout
    assert (project / "runs" / "suite" / "session.json").exists()


def test_a_check_its_folder_and_its_bundle_are_one_session(
    dashboard: Running, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from twinnet import check
    from twinnet.report.bundle import bundle_results
    from twinnet.upload.folders import send_later

    folder = project / f"run-{uuid.uuid4().hex[:6]}"
    monkeypatch.setenv("TWINNET_SERVER", dashboard.url)
    monkeypatch.setenv("TWINNET_TOKEN", dashboard.token)
    result = check(str(project / "models" / "net.onnx"), None, "onnxruntime", out=folder)
    said = capsys.readouterr().err
    assert said.startswith(f"uploaded {dashboard.url}/s/")
    before = len(dashboard.json("/sessions?made_by=check")["items"])
    assert send_later(dashboard.server, folder) == said.split()[1]
    send_later(dashboard.server, bundle_results(project / "run.zip", result))
    assert len(dashboard.json("/sessions?made_by=check")["items"]) == before
    [run] = dashboard.json("/runs?model=net&limit=200&layer=")["items"][:1]
    assert run["ratio"] is not None and dashboard.json(f"/runs/{run['id']}/layers")["items"]
    # The downloaded folder is a run folder again.
    import io
    import zipfile

    from twinnet.result import Result

    status, body, _ = dashboard.ask(f"/cases/{run['id']}/run.zip")
    assert status == 200
    zipfile.ZipFile(io.BytesIO(body)).extractall(project / "back")
    assert Result.load(project / "back" / run["name"]).verdict == "PASS"


def test_a_profile_beside_a_check_gives_its_layers_their_times(dashboard: Running, project: Path) -> None:
    from twinnet import check
    from twinnet.profiling import profile_twin
    from twinnet.upload.folders import send_later, send_run

    net = str(project / "models" / "net.onnx")
    folder = project / f"timed-{uuid.uuid4().hex[:6]}"
    profile_twin(net, None, "onnxruntime", out=folder / "profile", repeats=3)
    alone = send_run(dashboard.server, folder, profile=True)
    assert send_later(dashboard.server, folder / "profile") == alone, "the same profile is the same session"
    check(net, None, "onnxruntime", out=folder)
    profile_twin(net, None, "onnxruntime", out=folder / "profile", repeats=3)
    send_run(dashboard.server, folder, profile=True)
    found = [s for s in dashboard.json("/sessions?made_by=profile&limit=200")["items"] if s["total"] == 1]
    both = dashboard.json(f"/sessions/{found[0]['id']}/runs")["items"][0]
    assert both["time"] > 0 and both["ratio"] is not None
    layers = dashboard.json(f"/runs/{both['id']}/layers")["items"]
    assert any(row["time"] and row["ratio"] is not None for row in layers), layers
    page = dashboard.page(f"/cases/{both['id']}")
    assert "flame graph" in page and "Chrome trace" in page


def test_wrong_servers_and_tokens_are_said(
    dashboard: Running, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from twinnet import check
    from twinnet.cli._screen import upload_run

    folder = project / "refused"
    if not folder.exists():
        check(str(project / "models" / "net.onnx"), None, "onnxruntime", out=folder)
    for url, token, words in (
        (dashboard.url, "tw_wrong", "TWINNET_TOKEN"),
        (dashboard.url, "tw_wrong", "this token is not known here"),
        (dashboard.url, "", "a token is needed"),
        ("http://127.0.0.1:9", "", "does not answer"),
        ("ftp://x", "", "not the address"),
    ):
        monkeypatch.setenv("TWINNET_SERVER", url)
        monkeypatch.setenv("TWINNET_TOKEN", token)
        upload_run(folder, silent=False)
        said = capsys.readouterr().err
        assert "not uploaded" in said and words in said and "twinnet upload" in said


def test_the_terminal_reads_the_same(
    dashboard: Running, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from typer.testing import CliRunner

    from twinnet.cli.main import app

    monkeypatch.setenv("TWINNET_SERVER", dashboard.url)
    monkeypatch.setenv("TWINNET_TOKEN", dashboard.token)
    long = case("b" * 250, "FAIL", figures={"ratio": 76_000.0})
    dashboard.post(bundle("terminal", [case("a"), long], branch="terminal", started=time.time() - 7300))
    listed = CliRunner().invoke(app, ["sessions", "--branch", "terminal"])
    assert listed.exit_code == 0 and "terminal" in listed.output and "FAIL" in listed.output
    assert "2 h ago" in listed.output
    [line] = CliRunner().invoke(app, ["runs", "--model", "b" * 250]).output.splitlines()
    assert "76 000 x" in line and "full_model-onnxruntime-default" in line and len(line) < 200
    runs = CliRunner().invoke(app, ["runs", "--json", "-n", "2"])
    assert len(json.loads(runs.output)["items"]) == 2
    monkeypatch.delenv("TWINNET_SERVER")
    assert "TWINNET_SERVER" in str(CliRunner().invoke(app, ["sessions"]).exception)
