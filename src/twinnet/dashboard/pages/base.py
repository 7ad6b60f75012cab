"""What all pages share: who may see them, values of the address, templates."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from starlette.responses import HTMLResponse, RedirectResponse, Response

from twinnet.dashboard import words
from twinnet.dashboard.access import cookie_name
from twinnet.dashboard.desk import Desk
from twinnet.dashboard.tokens import Bearer

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection
    from starlette.requests import Request

__all__ = ["Make", "allowed", "not_found", "not_now", "number", "rendered", "shown", "text", "who"]

_HERE = Path(__file__).parents[1]
Make = Callable[["Request", "Connection"], "dict[str, Any] | Response | None"]
"""Reads what a page shows; None if there is no such thing."""


def who(desk: Desk, request: Request) -> Bearer | None:
    """Who looks: a browser with our cookie, or a program with a token."""
    cookie = request.cookies.get(cookie_name(desk.settings), "")
    if cookie and (found := desk.tokens.visitor(cookie)):
        return found
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return desk.tokens.bearer(token.strip()) if kind.lower() == "bearer" else None


def allowed(desk: Desk, handler: Callable[[Request], Response]) -> Callable[[Request], Response]:
    """A handler for those who may read; others are asked for their token first."""

    def checked(request: Request) -> Response:
        if who(desk, request) is None:
            asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            return RedirectResponse(f"/enter?{urlencode({'next': asked})}", 303)
        return handler(request)

    return checked


def shown(desk: Desk, template: str, make: Make) -> Callable[[Request], Response]:
    """A page from what `make` reads."""

    def page(request: Request) -> Response:
        with desk.database.reading() as connection:
            made = make(request, connection)
        if made is None:
            return not_found(request)
        return made if isinstance(made, Response) else rendered(request, template, **made)

    return allowed(desk, page)


def rendered(request: Request, template: str, status: int = 200, **context: Any) -> Response:
    """A template with its context; every text in it is escaped."""
    page = environment().get_template(template).render(path=request.url.path, **context)
    return HTMLResponse(page, status)


def not_found(request: Request) -> Response:
    """The page for what is not there."""
    told = "There is nothing here: it was removed, or never uploaded."
    return rendered(request, "missing.html.j2", 404, title="Not found", told=told)


def not_now(request: Request) -> Response:
    """The page while the database does not answer."""
    told = "The database did not answer; the log of the server says why. Try again in a moment."
    return rendered(request, "missing.html.j2", 503, title="Not now", told=told)


def number(request: Request, name: str) -> int | None:
    """A whole number of the address; None if there is none, or it cannot be a row's number."""
    given = request.path_params.get(name, request.query_params.get(name, ""))
    shown = str(given)
    if not shown.isascii() or not shown.isdecimal() or len(shown) > 15:
        return None
    return int(shown)


def text(request: Request, name: str) -> str:
    """A text of the address, cut."""
    given = request.path_params.get(name, request.query_params.get(name, ""))
    return str(given).replace("\x00", "")[:300]


def address(path: str, **query: Any) -> str:
    """An address with the values that are not empty.

    >>> address("/trends", model="a b", engine="", session=3)
    '/trends?model=a+b&session=3'
    """
    given = {k: v for k, v in query.items() if v not in (None, "")}
    return f"{path}?{urlencode(given)}" if given else path


def ticked(text: str) -> Any:
    """Text with what stands in backticks as code.

    >>> str(ticked("pass `next` < as"))
    'pass <code>next</code> &lt; as'
    """
    from markupsafe import Markup

    pieces = text.split("`")
    coded = [Markup("<code>{}</code>").format(piece) if i % 2 else piece for i, piece in enumerate(pieces)]
    return Markup("").join(coded)


@cache
def environment() -> Any:
    """Templates, with those of the reports beside our own."""
    import jinja2

    from twinnet import __version__
    from twinnet.report import figures
    from twinnet.report.html import template_folder

    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader([_HERE / "templates", template_folder()]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        undefined=jinja2.StrictUndefined,
    )
    made.filters.update(
        figure=figures.figure,
        times=figures.times,
        clean=figures.clean,
        percent=figures.percent,
        grouped=figures.grouped,
        ratio=words.ratio,
        seconds=words.seconds,
        factor=words.factor,
        bytes=words.bytes_of,
        ago=words.ago,
        day=words.day,
        plainly=words.plainly,
        ticked=ticked,
        word=shlex.quote,
        segment=lambda part: quote(str(part), safe=""),
    )
    made.globals.update(address=address, version=__version__)
    return made
