"""The API under /api/v1, documented by its OpenAPI file: the same data as the pages, for programs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Annotated, Any

import fastapi
from fastapi import Depends, HTTPException, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from sqlalchemy.exc import SQLAlchemyError

from twinnet.dashboard import schema as s
from twinnet.dashboard.archive import BadBundle
from twinnet.dashboard.desk import Desk
from twinnet.dashboard.files import file_response
from twinnet.dashboard.queries import changes, models, runs, sessions, trends
from twinnet.dashboard.receive import TooMuch, drained, receive_bundle
from twinnet.dashboard.retention import remove_session
from twinnet.dashboard.tokens import SCOPES, Bearer, Scope, TokenExists
from twinnet.errors import TwinnetError, UsageError

__all__ = ["make_api", "no_database"]

_log = logging.getLogger("twinnet.dashboard")
_NO_NUL = r"^[^\x00]*$"
SessionId = Annotated[int, Path(ge=1, le=1 << 53, description="The number of a session.")]
RunId = Annotated[int, Path(ge=1, le=1 << 53, description="The number of a run.")]


def _text(description: str, **more: Any) -> Any:
    return Query(max_length=300, pattern=_NO_NUL, description=description, **more)


def _number(description: str) -> Any:
    return Query(ge=1, le=1 << 53, description=description)


Model = Annotated[str, _text("Name of a model.")]
Engine = Annotated[str, _text("Name of an engine with its options, as `openvino-default`.")]
Branch = Annotated[str, _text("Name of a branch.")]
AfterText = Annotated[str, _text("`next` of the page before.")]
Offset = Annotated[int, Query(ge=0, le=10_000_000, description="`next` of the page before.")]
Limit = Annotated[int, Query(ge=1, le=200, description="How many at most.")]
Before = Annotated[
    int | None, Query(ge=1, le=1 << 53, description="`next` of the page before; without it, the first page.")
]
Credentials = Annotated[
    HTTPAuthorizationCredentials | None,
    Depends(HTTPBearer(auto_error=False, description="A token of `twinnet serve token`.")),
]
_SERIES = 20
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    code: {"model": s.Problem, "description": text}
    for code, text in {
        400: "The request cannot be read.",
        401: "No token, or one that is not known.",
        403: "The token does not allow this.",
        404: "It does not exist.",
        422: "A value is not valid; `detail` says which.",
        503: "The database did not answer.",
    }.items()
}


_SCOPES = [
    {"name": "read", "description": "For any token."},
    {"name": "upload", "description": "For tokens with the scope upload or admin."},
    {"name": "admin", "description": "For tokens with the scope admin."},
]


def make_api(desk: Desk) -> fastapi.FastAPI:
    """The application that answers under /api/v1."""
    from twinnet import __version__

    api = fastapi.FastAPI(
        title="twinnet dashboard",
        version=__version__,
        description="Sessions, runs, layers and files of suites, checks and profiles. Send a token as "
        "`Authorization: Bearer TOKEN`. Lists are paginated: pass `next` of one answer as `before` of the next.",
        openapi_tags=_SCOPES,
        docs_url=None,  # these pages would load scripts from elsewhere
        redoc_url=None,
        responses=_PROBLEMS,
    )
    _problems(api)
    read, upload, admin = (
        {"dependencies": [Depends(_allowed(desk, scope))], "tags": [scope]} for scope in SCOPES
    )
    _bundles(api, desk, upload)
    _sessions(api, desk, read, admin)
    _runs(api, desk, read)
    _comparisons(api, desk, read)
    _tokens(api, desk, admin)
    return api


def _allowed(desk: Desk, scope: Scope) -> Callable[..., Bearer]:
    """A dependency: the bearer of a token with this scope. Cookies do not count here, so no other site can use them."""

    def check(given: Credentials) -> Bearer:
        found = None if given is None else desk.tokens.bearer(given.credentials)
        if found is None:
            told = "a token is needed" if given is None else "this token is not known here, or was revoked"
            raise HTTPException(401, told, {"WWW-Authenticate": "Bearer"})
        if not found.may(scope):
            raise HTTPException(
                403, f"the token {found.name} has the scope {found.scope}; this needs {scope}"
            )
        return found

    return check


def _problems(api: fastapi.FastAPI) -> None:
    @api.exception_handler(HTTPException)
    async def _(request: Request, error: HTTPException) -> Response:
        if request.method == "POST" and request.url.path.endswith("/bundles"):
            await drained(request)  # a client that is still sending would hear nothing of it
        return JSONResponse({"detail": error.detail}, error.status_code, error.headers)

    @api.exception_handler(RequestValidationError)
    def _(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        return JSONResponse({"detail": f"{place}: {first['msg']}"[:400]}, 422)

    @api.exception_handler(TooMuch)
    def _(request: Request, error: TooMuch) -> Response:
        return JSONResponse({"detail": error.what}, 413)

    @api.exception_handler(BadBundle)
    def _(request: Request, error: BadBundle) -> Response:
        return JSONResponse({"detail": f"the bundle is refused: {error.what}"}, 422)

    @api.exception_handler(TokenExists)
    def _(request: Request, error: TokenExists) -> Response:
        return JSONResponse({"detail": error.what}, 409)

    @api.exception_handler(UsageError)
    def _(request: Request, error: UsageError) -> Response:
        return JSONResponse({"detail": error.what}, 422)

    @api.exception_handler(TwinnetError)
    def _(request: Request, error: TwinnetError) -> Response:
        return JSONResponse({"detail": error.what}, 503)

    @api.exception_handler(OSError)
    async def _(request: Request, error: OSError) -> Response:
        """The disk is full, or may not be written: nothing of the bundle stays, and it can be sent again."""
        _log.error("storage", extra={"error": str(error)[:500]})
        await drained(request)
        return JSONResponse({"detail": f"the server cannot store this: {error.strerror or error}"}, 507)

    api.add_exception_handler(SQLAlchemyError, no_database)


def no_database(request: Request, error: Exception) -> Response:
    """The answer to programs while the database does not answer."""
    _log.error("database", extra={"error": str(error)[:500]})
    return JSONResponse({"detail": "the database did not answer; try again"}, 503)


def _missing(what: str) -> HTTPException:
    return HTTPException(404, f"there is no such {what}")


def _bundles(api: fastapi.FastAPI, desk: Desk, upload: Any) -> None:
    body = {"application/zip": {"schema": {"type": "string", "format": "binary"}}}

    @api.post(
        "/bundles",
        status_code=201,
        response_model=s.Uploaded,
        responses={
            200: {"model": s.Uploaded, "description": "Everything had been uploaded before."},
            201: {"model": s.Uploaded, "description": "Stored completely, on the disk."},
            413: {"model": s.Problem, "description": "The bundle is too large."},
            415: {"model": s.Problem, "description": "The body is not application/zip."},
        },
        **upload,
        openapi_extra={"requestBody": {"required": True, "content": body}},
    )
    async def upload_bundle(request: Request, response: Response) -> s.Uploaded:
        """Store a bundle: a session, or some of its cases while it runs. Storing it twice changes nothing."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in ("application/zip", "application/octet-stream"):
            raise HTTPException(415, "send the bundle as application/zip")
        taken = await receive_bundle(request, desk)
        if taken.runs and not any(run.new for run in taken.runs):
            response.status_code = 200
        cases = [
            s.UploadedCase(name=run.name, id=run.run_id, url=f"/cases/{run.run_id}", new=run.new)
            for run in taken.runs
        ]
        return s.Uploaded(
            session=taken.session_id, key=taken.key, url=f"/sessions/{taken.session_id}", cases=cases
        )


def _sessions(api: fastapi.FastAPI, desk: Desk, read: Any, admin: Any) -> None:
    @api.get("/sessions", **read)
    def list_sessions(
        q: Annotated[str, _text("Words of branch, commit, who, engines or title; all must occur.")] = "",
        branch: Branch = "",
        engine: Annotated[str, _text("Part of the name of an engine.")] = "",
        who: Annotated[str, _text("Who ran it.")] = "",
        made_by: Annotated[str, _text("`suite`, `check` or `profile`.")] = "",
        bad: Annotated[bool, Query(description="Only those with unexpected failures.")] = False,
        limit: Limit = 50,
        before: Before = None,
    ) -> s.Sessions:
        """Sessions, the newest first."""
        wanted = sessions.Filter(q, branch, engine, who, made_by, bad)
        with desk.database.reading() as connection:
            found = sessions.sessions(connection, wanted, limit, before)
        items = [s.SessionOut.of(row) for row in found]
        return s.Sessions(items=items, next=found[-1].id if len(found) == limit else None)

    @api.get("/sessions/{session_id}", **read)
    def get_session(session_id: SessionId) -> s.SessionWhole:
        """One session, with its command and environment, and the session it is compared with."""
        with desk.database.reading() as connection:
            found = sessions.find_session(connection, session_id)
            if found is None:
                raise _missing("session")
            base = sessions.baseline_of(connection, found)
            more = sessions.summary(connection, session_id)
        return s.SessionWhole(
            **s.SessionOut.of(found).model_dump(), baseline=None if base is None else base.id, **more
        )

    @api.patch("/sessions/{session_id}", **admin)
    def pin_session(session_id: SessionId, change: s.Pin) -> s.SessionOut:
        """Pin a session, so that retention leaves it alone, or unpin it."""
        import sqlalchemy as sa

        from twinnet.dashboard.models import Session

        with desk.database.writing() as connection:
            connection.execute(
                sa.update(Session).where(Session.id == session_id).values(pinned=change.pinned)
            )
            found = sessions.find_session(connection, session_id)
        if found is None:
            raise _missing("session")
        return s.SessionOut.of(found)

    @api.delete("/sessions/{session_id}", status_code=204, **admin)
    def delete_session(session_id: SessionId) -> None:
        """Remove a session with all its runs; its files go with the next clean-up."""
        if not remove_session(desk.database, session_id):
            raise _missing("session")

    @api.get("/sessions/{session_id}/runs", **read)
    def list_session_runs(session_id: SessionId, limit: Limit = 100, before: Before = None) -> s.Runs:
        """The runs of a session, the last stored first."""
        with desk.database.reading() as connection:
            if sessions.find_session(connection, session_id) is None:
                raise _missing("session")
            found = runs.runs(connection, runs.RunFilter(session_id), limit, before)
        return s.Runs.of(found, limit)


def _runs(api: fastapi.FastAPI, desk: Desk, read: Any) -> None:
    @api.get("/runs", **read)
    def list_runs(
        model: Model = "",
        engine: Engine = "",
        layer: Annotated[str | None, _text("Name of a layer case; empty means whole models only.")] = None,
        verdict: Annotated[
            str, Query(pattern=r"^(|PASS|FAIL|ERROR|SKIP)$", description="`PASS`, `FAIL`, `ERROR` or `SKIP`.")
        ] = "",
        session: Annotated[int | None, _number("The number of a session.")] = None,
        limit: Limit = 100,
        before: Before = None,
    ) -> s.Runs:
        """Runs of all sessions, the last stored first."""
        wanted = runs.RunFilter(session, model, engine, layer, verdict)
        with desk.database.reading() as connection:
            found = runs.runs(connection, wanted, limit, before)
        return s.Runs.of(found, limit)

    @api.get("/runs/{run_id}", **read)
    def get_run(run_id: RunId) -> s.RunWhole:
        """One run with its answer: the verdict in words, findings, causes, the command to reproduce it."""
        with desk.database.reading() as connection:
            found = runs.find_run(connection, run_id)
            if found is None:
                raise _missing("run")
            answer = runs.answer_of(connection, run_id)
        return s.RunWhole(**s.RunOut.of(found).model_dump(), answer=answer)

    @api.get("/runs/{run_id}/layers", **read)
    def list_layers(
        run_id: RunId,
        limit: Limit = 200,
        after: Annotated[int, Query(ge=-1, le=1 << 30, description="`next` of the page before.")] = -1,
    ) -> s.Layers:
        """The layers of a run along the network; pass `next` as `after`."""
        with desk.database.reading() as connection:
            if runs.find_run(connection, run_id) is None:
                raise _missing("run")
            found = runs.layers_of(connection, run_id, limit, after)
        items = [s.LayerOut.of(row) for row in found]
        return s.Layers(items=items, next=found[-1].position if len(found) == limit else None)

    @api.get("/runs/{run_id}/files", **read)
    def list_files(run_id: RunId, limit: Limit = 200, after: AfterText = "") -> s.Files:
        """The files of a run; pass `next` as `after`."""
        with desk.database.reading() as connection:
            if runs.find_run(connection, run_id) is None:
                raise _missing("run")
            found = runs.files_of(connection, run_id, limit, after)
        items = [s.FileOut(path=f.path, size=f.size, sha256=f.digest) for f in found]
        return s.Files(items=items, next=found[-1].path if len(found) == limit else None)

    binary = {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}

    @api.get(
        "/runs/{run_id}/files/{path:path}",
        **read,
        response_class=Response,
        responses={200: {"description": "The file.", **binary}},
    )
    def get_file(
        run_id: RunId,
        path: Annotated[
            str, Path(max_length=500, pattern=_NO_NUL, description="As the list of files has it.")
        ],
    ) -> Response:
        """One file of a run."""
        found = file_response(desk, run_id, path, download=True)
        if found is None:
            raise _missing("file")
        return found


def _comparisons(api: fastapi.FastAPI, desk: Desk, read: Any) -> None:
    @api.get("/models", **read)
    def list_models(
        q: Annotated[str, _text("Part of a name.")] = "", limit: Limit = 100, after: AfterText = ""
    ) -> s.Models:
        """Names of models in alphabetical order; pass `next` as `after`."""
        with desk.database.reading() as connection:
            found = models.models(connection, limit, after, q)
        return s.Models(items=found, next=found[-1] if len(found) == limit else None)

    @api.get("/trends", **read)
    def list_trends(
        model: Annotated[str, _text("Name of a model.", min_length=1)],
        engine: Engine = "",
        layer: Annotated[str, _text("Name of a layer case; empty means the whole model.")] = "",
        branch: Branch = "",
        limit: Annotated[int, Query(ge=1, le=200, description="How many sessions of each at most.")] = 200,
        before: Annotated[int | None, _number("`next` of one of the items: sessions before those.")] = None,
        offset: Offset = 0,
    ) -> s.Trends:
        """Accuracy and time of a model or one of its layer cases over sessions, and where they left their band.

        There is an item for each engine, twenty to a page: pass `next` as `offset`.
        """
        found = []
        with desk.database.reading() as connection:
            series = trends.series_of(connection, model, engine, layer)
            for one in series[offset : offset + _SERIES]:
                values = trends.points(connection, one.id, branch=branch, limit=limit, before=before)
                found.append(s.TrendOut.of(one, values, limit))
        more = offset + _SERIES
        return s.Trends(items=found, next=more if len(series) > more else None)

    @api.get("/compare", **read)
    def compare_sessions(
        session: Annotated[int, _number("The number of a session.")],
        baseline: Annotated[int | None, _number("The session to compare with; found if not given.")] = None,
        limit: Limit = 100,
        offset: Offset = 0,
    ) -> s.Comparison:
        """What changed between two sessions, the worst first; pass `next` as `offset`."""
        with desk.database.reading() as connection:
            one = sessions.find_session(connection, session)
            if one is None:
                raise _missing("session")
            other = (
                sessions.baseline_of(connection, one)
                if baseline is None
                else sessions.find_session(connection, baseline)
            )
            if other is None:
                raise _missing("baseline")
            found = changes.between_sessions(connection, one.id, other.id)
            page = changes.placed(connection, found.rows[offset : offset + limit])
        items = [s.ChangeOut.of(row) for row in page]
        return s.Comparison(
            session=one.id,
            baseline=other.id,
            counts={str(kind): number for kind, number in found.counts.items()},
            items=items,
            next=offset + limit if len(found.rows) > offset + limit else None,
        )


def _tokens(api: fastapi.FastAPI, desk: Desk, admin: Any) -> None:
    @api.get("/tokens", **admin)
    def list_tokens(
        limit: Limit = 100,
        after: Annotated[int, Query(ge=0, le=1 << 53, description="`next` of the page before.")] = 0,
    ) -> s.TokensOut:
        """Tokens: names, scopes, when they were last used; pass `next` as `after`."""
        found = [s.TokenOut.model_validate(row) for row in desk.tokens.listed(after, limit)]
        return s.TokensOut(items=found, next=found[-1].id if len(found) == limit else None)

    @api.post(
        "/tokens",
        status_code=201,
        **admin,
        responses={409: {"model": s.Problem, "description": "There is already a token of this name."}},
    )
    def make_token(wanted: s.NewToken) -> s.MadeToken:
        """Make a token; the answer is the only place where it is seen."""
        return s.MadeToken(
            name=wanted.name, scope=wanted.scope, token=desk.tokens.add(wanted.name, wanted.scope)
        )

    @api.delete("/tokens/{name}", status_code=204, **admin)
    def revoke_token(
        name: Annotated[str, Path(max_length=100, pattern=_NO_NUL, description="Name of a token.")],
    ) -> None:
        """Revoke a token, and sign out every browser that used it."""
        if not desk.tokens.revoke(name):
            raise _missing("token")
