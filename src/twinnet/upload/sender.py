"""Sends the cases of a session as they finish. A server that is away never stops a session."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from twinnet.report.bundle import write_bundle
from twinnet.scratch import scratch_folder
from twinnet.upload.client import Away, Refused, Server

__all__ = ["Sender"]

_PATIENCE = 2
"""Failures in a row after which the rest is left for later."""
_BATCH_BYTES, _BATCH = 64 << 20, 50


class Sender:
    """One session on its way to a server. `session` is its session.json without results."""

    def __init__(self, server: Server, session: Mapping[str, Any]) -> None:
        self._server, self._session = server, dict(session)
        self.sent = 0
        self.missed = 0
        self.reason = ""
        self._failures = 0

    @property
    def given_up(self) -> bool:
        """Whether nothing is sent any more."""
        return self._failures >= _PATIENCE

    @property
    def session_url(self) -> str:
        """The page of the session."""
        return f"{self._server.url}/s/{self._session['id']}"

    def send(self, case: Mapping[str, Any], folder: Path | None) -> str:
        """Send a case with its run folder; returns the address of its page, or nothing if it could not be sent."""
        answer = self._post([(case, folder)])
        if answer is None:
            self.missed += 1
            return ""
        self.sent += 1
        return f"{self._server.url}{answer['cases'][0]['url']}" if answer.get("cases") else ""

    def send_all(self, cases: Iterable[tuple[Mapping[str, Any], Path | None]]) -> None:
        """Send many cases, some at a time; the first that is refused or finds no server ends it with the error."""
        batch: list[tuple[Mapping[str, Any], Path | None]] = []
        size = 0
        for case, folder in cases:
            batch.append((case, folder))
            size += _size(folder)
            if len(batch) >= _BATCH or size >= _BATCH_BYTES:
                self._deliver(batch)
                batch, size = [], 0
        self._deliver(batch, self._session.get("finished"))

    def finish(self) -> None:
        """Tell the server that the session has ended."""
        if not self.given_up:
            self._post([], time.time())

    def _post(self, cases: list[Any], finished: float | None = None) -> dict[str, Any] | None:
        """Send without ever raising; what went wrong is kept as the reason."""
        if self.given_up:
            return None
        try:
            answer = self._deliver(cases, finished)
        except Away as error:
            self._failures, self.reason = self._failures + 1, error.what
            return None
        except Refused as error:
            self._failures, self.reason = _PATIENCE, str(error).replace("\n ", ";")
            return None
        self._failures = 0
        return answer

    def _deliver(self, cases: list[Any], finished: float | None = None) -> dict[str, Any]:
        told, runs = [], {}
        for case, folder in cases:
            there = folder is not None and folder.is_dir()
            told.append({**case, "run": f"runs/{case['name']}" if there else ""})
            if there:
                runs[case["name"]] = folder
        session = {**self._session, "results": told, "finished": finished}
        with scratch_folder("dashboard") as place:
            return self._server.post_bundle(write_bundle(place / "bundle.zip", session, runs))


def _size(folder: Path | None) -> int:
    if folder is None or not folder.is_dir():
        return 0
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
