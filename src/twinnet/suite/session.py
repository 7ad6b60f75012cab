"""One session: the outcomes of its cases as they come, and the files it leaves."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from twinnet.files import atomic_write
from twinnet.origin import new_session_id, origin
from twinnet.report.bundle import SCHEMA, write_bundle
from twinnet.suite.outcome import Outcome

__all__ = ["Listener", "Session", "read_session"]


class Listener(Protocol):
    """Is told of every case of a session as soon as it is finished."""

    def finished(self, outcome: Outcome) -> None:
        """A case has finished; its run folder, if it has one, is complete."""
        ...


class Session:
    """The outcomes of one session. `folder` is the report folder; the runs of its cases are in `runs` there."""

    def __init__(
        self, folder: Path, command: tuple[str, ...] = (), listeners: tuple[Listener, ...] = ()
    ) -> None:
        self.folder = folder
        self.command = command
        self.outcomes: dict[str, Outcome] = {}
        self.listeners = [*listeners]
        self.id = new_session_id()
        self._started = time.time()

    def finished(self, outcome: Outcome) -> None:
        """Take in a finished case and announce it. This is the only place where that happens."""
        if not self.outcomes:  # what an earlier session left is no longer true
            for name in ("session.json", "index.html", "junit.xml"):
                (self.folder / name).unlink(missing_ok=True)
        self.outcomes[outcome.name] = outcome
        for listener in self.listeners:
            listener.finished(outcome)

    def write(self, bundle: Path | None = None) -> list[Path]:
        """Write session.json, index.html, junit.xml and, if asked for, the bundle."""
        from twinnet.suite.junit import render_junit
        from twinnet.suite.page import render_page

        outcomes = list(self.outcomes.values())
        texts = {
            "index.html": render_page(outcomes, self.folder),
            "junit.xml": render_junit(outcomes),
            "session.json": json.dumps(self.to_json(), indent=1) + "\n",
        }
        written = [
            atomic_write(self.folder / name, text.encode("utf-8", "replace")) for name, text in texts.items()
        ]
        if bundle is not None:
            runs = {o.name: Path(o.folder) for o in outcomes if o.folder and Path(o.folder).is_dir()}
            written.append(write_bundle(bundle, self.to_json(), runs))
        return written

    def to_json(self) -> dict[str, Any]:
        """The content of session.json."""
        results = []
        for outcome in self.outcomes.values():
            run = f"runs/{outcome.name}" if outcome.folder else ""
            results.append({**outcome.to_json(), "run": run})
        return {**self.head(), "finished": time.time(), "results": results}

    def head(self) -> dict[str, Any]:
        """session.json without results: what is known before the first case."""
        from twinnet.environment import environment

        return {
            "schema": SCHEMA,
            "id": self.id,
            "made_by": "suite",
            **origin(),
            "started": self._started,
            "command": list(self.command),
            "environment": environment(),
        }


def read_session(folder: Path) -> tuple[Mapping[str, Any], list[Outcome]]:
    """session.json of a report folder, and the outcomes in it."""
    from twinnet.errors import UsageError
    from twinnet.files import read_json

    path = folder / "session.json" if folder.is_dir() else folder
    if not path.exists():
        raise UsageError(f"no session in {folder}", hint="`twinnet suite` writes one")
    data = read_json(path, "session")
    if not isinstance(data, dict) or not isinstance(data.get("results"), list):
        raise UsageError(f"{path} is not a session")
    if isinstance(data.get("schema"), int) and data["schema"] > SCHEMA:
        raise UsageError(f"{path} was written by a newer twinnet (schema {data['schema']})")
    return data, [Outcome.from_json(one, f"{path} is not a session") for one in data["results"]]
