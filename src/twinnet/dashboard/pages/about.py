"""The API in words, made from its own OpenAPI document; and whether the server is well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from twinnet.dashboard.desk import Desk
from twinnet.dashboard.pages.base import allowed, rendered

if TYPE_CHECKING:
    from starlette.requests import Request

__all__ = ["routes"]


def routes(desk: Desk, api: Any) -> list[Route]:
    """The addresses of both."""

    def about(request: Request) -> Response:
        document = api.openapi()
        calls = [
            {"method": method.upper(), "path": path, **told}
            for path, methods in document["paths"].items()
            for method, told in methods.items()
        ]
        return rendered(request, "api.html.j2", calls=calls, about=document["info"])

    def health(request: Request) -> Response:
        from twinnet import __version__

        with desk.database.reading() as connection:
            connection.exec_driver_sql("SELECT 1")
        return JSONResponse({"status": "ok", "version": __version__})

    return [Route("/api", allowed(desk, about)), Route("/health", health)]
