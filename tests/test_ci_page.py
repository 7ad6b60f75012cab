"""docs/in-ci.md: what its jobs install, keep and post; their commands run with the page itself (test_docs.py)."""

from __future__ import annotations

import os
import shutil
import subprocess
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

import pytest

from tests.needs import absent
from tests.test_docs import ROOT, blocks, shell_commands

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")


@pytest.fixture(scope="module")
def jobs() -> dict[str, Any]:
    """The two pipelines, by the file that each is."""
    found = [b.text for b in blocks(ROOT / "docs" / "in-ci.md") if b.kind == "yaml"]
    return {text.split()[1]: yaml.safe_load(text) for text in found}


def test_the_pipelines_of_two_servers_are_there(jobs: dict[str, Any]) -> None:
    assert set(jobs) == {".github/workflows/twins.yml", ".gitlab-ci.yml"}
    for job in jobs.values():
        commands = [c for c in shell_commands(job) if c.startswith("twinnet check")]
        assert len(commands) == 1
        for option in ("--tolerance", "--baseline", "--strict", "--out runs/ci"):
            assert option in commands[0]


def test_github_keeps_caches_and_results_and_comments(jobs: dict[str, Any]) -> None:
    job = jobs[".github/workflows/twins.yml"]
    steps = job["jobs"]["check"]["steps"]
    used = {step["uses"].partition("@")[0]: step for step in steps if "uses" in step}
    assert used["actions/setup-python"]["with"]["cache"] == "pip"
    # Without it the cache of pip wants a requirements.txt or pyproject.toml, and fails where there is none.
    assert used["actions/setup-python"]["with"]["cache-dependency-path"] == ".github/workflows/twins.yml"
    assert used["actions/cache"]["with"]["path"] == "~/.cache/twinnet"
    assert used["actions/upload-artifact"]["with"]["path"] == "runs/ci"
    comment = next(step for step in steps if step.get("run", "").startswith("gh pr comment"))
    assert "runs/ci/summary.md" in comment["run"] and "pull_request" in comment["if"]
    assert job["permissions"]["pull-requests"] == "write"
    late = steps[next(i for i, s in enumerate(steps) if "twinnet check" in s.get("run", "")) + 1 :]
    assert all("always()" in step["if"] for step in late), "a failed check is reported as well"


def test_gitlab_reads_junit_and_posts_the_summary(jobs: dict[str, Any], tmp_path: Path) -> None:
    job = jobs[".gitlab-ci.yml"]["twins"]
    assert any("merge_request_event" in rule["if"] for rule in job["rules"]), (
        "else it has no request to post to"
    )
    assert (
        job["artifacts"]["reports"]["junit"] == "runs/ci/junit.xml" and job["artifacts"]["when"] == "always"
    )
    assert job["variables"]["TWINNET_CACHE"].startswith("$CI_PROJECT_DIR/.cache")
    if shutil.which("curl") is None:
        absent("curl is not installed")
    seen: list[tuple[str, str, str]] = []

    class Notes(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            seen.append((self.path, self.headers["PRIVATE-TOKEN"], parse_qs(body)["body"][0]))
            self.send_response(201)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    (tmp_path / "runs" / "ci").mkdir(parents=True)
    (tmp_path / "runs" / "ci" / "summary.md").write_text("### FAIL & why\n")
    server = HTTPServer(("127.0.0.1", 0), Notes)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        environment = {
            **{k: v for k, v in os.environ.items() if "proxy" not in k.lower()},
            "CI_MERGE_REQUEST_IID": "7",
            "CI_PROJECT_ID": "42",
            "CI_API_V4_URL": f"http://127.0.0.1:{server.server_port}/api/v4",
            "COMMENT_TOKEN": "secret",
        }
        (script,) = job["after_script"]
        done = subprocess.run(
            ["sh", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
    finally:
        server.shutdown()
        server.server_close()
    assert done.returncode == 0, done.stderr
    assert seen == [("/api/v4/projects/42/merge_requests/7/notes", "secret", "### FAIL & why\n")]
