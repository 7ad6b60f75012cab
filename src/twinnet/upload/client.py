"""The dashboard's API, over the standard library."""

from __future__ import annotations

import http.client
import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from twinnet.errors import EngineError, UsageError
from twinnet.files import parse_json

__all__ = ["Away", "Refused", "Server", "server"]

_CONNECT, _SEND = 20.0, 600.0


class Away(EngineError):
    """The server does not answer, or not now."""


class Refused(UsageError):
    """The server answers that it will not: a wrong token, a bundle it does not take."""


@dataclass(frozen=True, slots=True)
class Server:
    """A dashboard, and the token to show it."""

    url: str
    token: str = ""

    def post_bundle(self, path: Path) -> dict[str, Any]:
        """Send a bundle, and return the answer of the server."""
        with path.open("rb") as file:
            request = urllib.request.Request(f"{self.url}/api/v1/bundles", file, method="POST")
            request.add_header("Content-Type", "application/zip")
            request.add_header("Content-Length", str(path.stat().st_size))
            return self._answer(request, _SEND)

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        """Read from the API."""
        given = {k: v for k, v in query.items() if v not in (None, "")}
        address = f"{self.url}/api/v1/{path}"
        return self._answer(
            urllib.request.Request(f"{address}?{urlencode(given)}" if given else address), _CONNECT
        )

    def _answer(self, request: urllib.request.Request, patience: float) -> dict[str, Any]:
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        # What runs on this machine is not behind a proxy, whatever the environment says.
        local = urlsplit(self.url).hostname in ("localhost", "127.0.0.1", "::1")
        handlers: list[Any] = [_NoRedirect()]
        if local:
            handlers.append(urllib.request.ProxyHandler({}))
        try:
            with urllib.request.build_opener(*handlers).open(request, timeout=patience) as response:
                found = parse_json(response.read())
        except urllib.error.HTTPError as error:
            with error:
                raise self._problem(error.code, error.read(4096)) from None
        except (OSError, http.client.HTTPException) as error:
            said = getattr(error, "reason", error)
            words = getattr(said, "strerror", None) or str(said) or type(said).__name__
            if isinstance(said, (BrokenPipeError, ConnectionResetError)):
                words += " (it may take no bundles of this size: `twinnet serve --max-upload`)"
            raise Away(f"{self.url} does not answer: {words}", stage="upload") from None
        except ValueError:
            raise Away(f"{self.url} is not a twinnet dashboard", stage="upload") from None
        if not isinstance(found, dict):
            raise Away(f"{self.url} is not a twinnet dashboard", stage="upload")
        return found

    def _problem(self, code: int, body: bytes) -> Away | Refused:
        try:
            said = str(parse_json(body)["detail"])
        except (ValueError, KeyError, TypeError):
            said = http.client.responses.get(code, "")
        if code >= 500 or code == 429:
            return Away(f"{self.url}: {code} {said}", stage="upload")
        hint = "set TWINNET_TOKEN to a token of `twinnet serve token`" if code in (401, 403) else None
        return Refused(f"{self.url}: {said}", hint=hint)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A token is for the server that was named, not for another."""

    def redirect_request(self, *args: Any, **more: Any) -> None:
        return None


def server(url: str | None = None) -> Server | None:
    """The server of TWINNET_SERVER and TWINNET_TOKEN, or None if there is none.

    >>> server("http://localhost:8080/").url
    'http://localhost:8080'
    """
    given = (url or os.environ.get("TWINNET_SERVER", "")).strip().rstrip("/")
    if not given:
        return None
    parts = urlsplit(given)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise UsageError(
            f"{given} is not the address of a dashboard", hint="TWINNET_SERVER=http://localhost:8080"
        )
    return Server(given, os.environ.get("TWINNET_TOKEN", "").strip())
