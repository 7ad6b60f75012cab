"""What can be sent later: bundles, report folders of suites, run folders of checks and profiles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twinnet.errors import UsageError
from twinnet.files import read_json
from twinnet.origin import origin
from twinnet.report.bundle import profile_session, run_session
from twinnet.upload.client import Server
from twinnet.upload.sender import Sender

__all__ = ["send_later", "send_run"]


def send_later(server: Server, path: Path) -> str:
    """Send a bundle or a folder; returns the address of the session's page."""
    if path.is_file():
        answer = server.post_bundle(path)
        return f"{server.url}{answer.get('url', '')}"
    if (path / "session.json").is_file():
        return _send_session(server, path)
    return send_run(server, path)


def send_run(server: Server, folder: Path, *, profile: bool = False) -> str:
    """Send the run folder of a check or a profile; the same folder is the same session, however often it is sent."""
    session, runs = profile_session(folder.resolve()) if profile else run_session(folder)
    results: list[dict[str, Any]] = session.pop("results")
    sender = Sender(server, {**origin(folder), **session})
    sender.send_all((case, runs.get(case["name"])) for case in results)
    return sender.session_url


def _send_session(server: Server, folder: Path) -> str:
    data = read_json(folder / "session.json", "session")
    if not isinstance(data, dict) or not isinstance(data.get("results"), list):
        raise UsageError(f"{folder / 'session.json'} is not a session")
    results = [case for case in data.pop("results") if isinstance(case, dict) and "name" in case]
    if not data.get("id"):
        raise UsageError(
            f"{folder / 'session.json'} has no id",
            hint="run the suite again, or write a --bundle and upload that",
        )
    sender = Sender(server, data)
    sender.send_all((case, _folder(folder, case)) for case in results)
    return sender.session_url


def _folder(report: Path, case: dict[str, Any]) -> Path | None:
    """The run folder of a case: inside the report folder, wherever that is by now."""
    name = str(case["name"])
    inside = report / "runs" / name
    return inside if "/" not in name and inside.is_dir() else None
