"""A session that is sent to a dashboard while it runs."""

from __future__ import annotations

from pathlib import Path

from twinnet.suite.outcome import Outcome
from twinnet.suite.session import Session
from twinnet.upload.client import Server, server
from twinnet.upload.sender import Sender

__all__ = ["Uploading", "uploading"]


class Uploading:
    """A listener of a session. `links` has the page of each case that is there; nothing here ever stops a test."""

    def __init__(self, to: Server, session: Session) -> None:
        self._to, self._session = to, session
        self._sender: Sender | None = None
        self.links: dict[str, str] = {}

    def finished(self, outcome: Outcome) -> None:
        """Send a case that has finished."""
        if self._sender is None:
            self._sender = Sender(self._to, self._session.head())
        folder = Path(outcome.folder) if outcome.folder else None
        link = self._sender.send(outcome.to_json(), folder)
        if link:
            self.links[outcome.name] = link

    def end(self) -> list[str]:
        """End the session on the server; returns what to say about it."""
        if self._sender is None:
            return []
        self._sender.finish()
        lines = (
            [f"uploaded {self._sender.sent} cases   {self._sender.session_url}"] if self._sender.sent else []
        )
        if self._sender.missed:
            lines.append(f"not uploaded: {self._sender.missed} cases   {self._sender.reason}")
            lines.append(f"send them later with   twinnet upload {self._session.folder}")
        return lines


def uploading(session: Session) -> Uploading | None:
    """Let a session be sent as it runs, if TWINNET_SERVER names a dashboard."""
    to = server()
    if to is None:
        return None
    made = Uploading(to, session)
    session.listeners.append(made)
    return made
