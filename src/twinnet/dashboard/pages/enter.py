"""Signing in with a token, and out."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from twinnet.dashboard.access import cookie_name
from twinnet.dashboard.desk import Desk
from twinnet.dashboard.pages.base import rendered, text

if TYPE_CHECKING:
    from starlette.requests import Request

__all__ = ["routes"]

_FORM = 4096


def routes(desk: Desk) -> list[Route]:
    """The addresses of signing in and out."""

    def ask(request: Request) -> Response:
        ticket = text(request, "ticket")
        if ticket and (cookie := desk.tokens.admit(ticket)):
            return _welcome(desk, cookie, _safe(text(request, "next")))
        return rendered(
            request, "enter.html.j2", next=_safe(text(request, "next")), wrong=bool(ticket), used=bool(ticket)
        )

    async def enter(request: Request) -> Response:
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > _FORM:
                return Response("too long", 413)
        form = parse_qs(body.decode("utf-8", "replace"))
        token, wanted = form.get("token", [""])[0].strip(), _safe(form.get("next", ["/"])[0])
        cookie = await run_in_threadpool(desk.tokens.enter, token)
        if cookie is None:
            return rendered(request, "enter.html.j2", 403, next=wanted, wrong=True, used=False)
        return _welcome(desk, cookie, wanted)

    def leave(request: Request) -> Response:
        name = cookie_name(desk.settings)
        if cookie := request.cookies.get(name):
            desk.tokens.leave(cookie)
        response = RedirectResponse("/enter", 303)
        response.delete_cookie(name)
        return response

    return [
        Route("/enter", ask, methods=["GET"]),
        Route("/enter", enter, methods=["POST"]),
        Route("/leave", leave, methods=["POST"]),
    ]


def _welcome(desk: Desk, cookie: str, wanted: str) -> Response:
    response = RedirectResponse(wanted, 303)
    response.set_cookie(
        cookie_name(desk.settings),
        cookie,
        max_age=30 * 86400,
        httponly=True,
        samesite="strict",
        secure=desk.settings.scheme == "https",
    )
    return response


def _safe(wanted: str) -> str:
    """An address on this server; anything else is the first page.

    >>> [_safe(w) for w in ("/sessions/3?a=b", "//evil.example", "https://evil.example", "/\\\\evil", "")]
    ['/sessions/3?a=b', '/', '/', '/', '/']
    """
    bad = not wanted.startswith("/") or wanted.startswith("//") or "\\" in wanted or not wanted.isprintable()
    return "/" if bad else wanted
