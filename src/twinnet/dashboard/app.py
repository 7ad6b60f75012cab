"""The application: pages, API and static files behind one guard."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from twinnet.dashboard.access import Guard
from twinnet.dashboard.api import make_api, no_database
from twinnet.dashboard.database import Database
from twinnet.dashboard.desk import Desk
from twinnet.dashboard.pages import about, cases, compare, enter, models, sessions, trends
from twinnet.dashboard.pages.base import not_found, not_now
from twinnet.dashboard.settings import Settings
from twinnet.dashboard.store import Store
from twinnet.dashboard.tokens import Tokens

if TYPE_CHECKING:
    from starlette.requests import Request

__all__ = ["make_app"]

_STATIC = Path(__file__).parent / "static"
_MEDIA = {"look.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8"}


def make_app(database: Database, store: Store, settings: Settings, tokens: Tokens | None = None) -> Any:
    """The application of a database and a store."""
    from sqlalchemy.exc import SQLAlchemyError

    desk = Desk(database, store, tokens or Tokens(database), settings)
    api = make_api(desk)
    routes = [
        *enter.routes(desk),
        *sessions.routes(desk),
        *cases.routes(desk),
        *models.routes(desk),
        *trends.routes(desk),
        *compare.routes(desk),
        *about.routes(desk, api),
        Route("/static/{name:str}", _static),
        Mount("/api/v1", api),
    ]

    def missing(request: Request, error: Exception) -> Response:
        # A line break in a path: neither a route of the API nor its mount matches it.
        if request.url.path.startswith("/api/"):
            return JSONResponse({"detail": "there is no such address"}, 404)
        return not_found(request)

    def away(request: Request, error: Exception) -> Response:
        told = no_database(request, error)
        return told if request.url.path == "/health" else not_now(request)

    app = Starlette(routes=routes, exception_handlers={404: missing, SQLAlchemyError: away})
    return Guard(app, settings)


def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _MEDIA:
        return not_found(request)
    return Response(_asset(name), media_type=_MEDIA[name], headers={"cache-control": "max-age=300"})


@cache
def _asset(name: str) -> bytes:
    """A file of ours; the style begins with that of the reports, so that both look alike."""
    from twinnet.report.html import template_folder

    own = (_STATIC / name).read_bytes()
    return (template_folder() / "report.css").read_bytes() + own if name == "look.css" else own
