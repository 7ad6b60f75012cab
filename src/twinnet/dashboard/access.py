"""Around every request: allowed host names, the headers that keep pages safe, and one line of log."""

from __future__ import annotations

import logging
import time
from typing import Any

from twinnet.dashboard.settings import Settings
from twinnet.debugger.safety import Doorkeeper
from twinnet.debugger.settings import Settings as Address

__all__ = ["PAGE_POLICY", "Guard", "cookie_name"]

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"same-origin",  # with no-referrer, browsers hide where a form comes from
    b"cross-origin-resource-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
    b"x-frame-options": b"DENY",
    b"content-security-policy": PAGE_POLICY.encode(),
    b"cache-control": b"no-store",
}
_log = logging.getLogger("twinnet.dashboard")


def cookie_name(settings: Settings) -> str:
    """The cookie's name, with the port in it: browsers keep cookies by host, not by port."""
    return f"twinnet-dashboard-{settings.port}"


class Guard:
    """An ASGI application around another."""

    def __init__(self, app: Any, settings: Settings) -> None:
        self._app, self._settings = app, settings
        self._keeper = Doorkeeper(Address(host=settings.host))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Let a request through, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, told = time.perf_counter(), {"status": 0, "bytes": 0}

        async def answered(message: Any) -> None:
            if message["type"] == "http.response.start":
                told["status"] = message["status"]
                given = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *((name, value) for name, value in _HEADERS.items() if name not in given),
                ]
            elif message["type"] == "http.response.body":
                told["bytes"] += len(message.get("body", b""))
            await send(message)

        try:
            refused = self._refused(scope)
            if refused:
                await _refuse(answered, refused)
            else:
                await self._app(scope, receive, answered)
        finally:
            _log.info(
                "request",
                extra={
                    "method": scope["method"],
                    "path": scope["path"],
                    "ms": round((time.perf_counter() - began) * 1000, 1),
                    "client": (scope.get("client") or ("",))[0],
                    **told,
                },
            )

    def _refused(self, scope: Any) -> str:
        """Why a request is refused; empty if it is not."""
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1")
        name = host.rpartition(":")[0] if ":" in host and not host.endswith("]") else host
        if not self._keeper.host_allowed(host) and name.lower() not in self._settings.names:
            return "this name does not belong to the server; name it with --name"
        origin = headers.get(b"origin")
        if scope["method"] in ("GET", "HEAD", "OPTIONS") or origin is None:
            return ""
        # Only our own pages may send forms; programs send no Origin.
        ours = f"{self._settings.scheme}://{host.lower()}"
        return "" if origin.decode("latin-1").lower() == ours else "the request comes from another site"


async def _refuse(send: Any, why: str) -> None:
    body = f'{{"detail": "{why}"}}'.encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": body})
