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
            {"method": method.upper(), "path": path, "sends": _body(told), "answers": _codes(told), **told}
            for path, methods in document["paths"].items()
            for method, told in methods.items()
        ]
        groups = [
            (tag["name"], tag["description"], [call for call in calls if tag["name"] in call["tags"]])
            for tag in document["tags"]
        ]
        return rendered(request, "api.html.j2", groups=groups, about=document["info"])

    def health(request: Request) -> Response:
        from twinnet import __version__

        with desk.database.reading() as connection:
            connection.exec_driver_sql("SELECT 1")
        return JSONResponse({"status": "ok", "version": __version__})

    return [Route("/api", allowed(desk, about)), Route("/health", health)]


def _body(told: dict[str, Any]) -> str:
    """What a call sends."""
    content = told.get("requestBody", {}).get("content", {})
    for kind, form in content.items():
        name = form["schema"].get("$ref", "").rpartition("/")[2]
        return f"{kind}, {name}" if name else kind
    return ""


def _codes(told: dict[str, Any]) -> str:
    """What it answers if all is well."""
    found = []
    for code, answer in told["responses"].items():
        for form in answer.get("content", {"": {"schema": {}}}).values():
            name = form["schema"].get("$ref", "").rpartition("/")[2]
            if code.startswith("2"):
                found.append(f"{code} {name}".strip())
    return ", ".join(found)
