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
from twinnet.dashboard.tokens import Bearer, Scope, TokenExists
from twinnet.errors import TwinnetError, UsageError

__all__ = ["make_api", "no_database"]

_log = logging.getLogger("twinnet.dashboard")
_NO_NUL = r"^[^\x00]*$"
Id = Annotated[int, Path(ge=1, le=1 << 53)]
Text = Annotated[str, Query(max_length=300, pattern=_NO_NUL)]
Limit = Annotated[int, Query(ge=1, le=200, description="How many at most.")]
Before = Annotated[
    int | None, Query(ge=1, le=1 << 53, description="`next` of the page before; without it, the first page.")
]
Credentials = Annotated[
    HTTPAuthorizationCredentials | None,
    Depends(HTTPBearer(auto_error=False, description="A token of `twinnet serve token`.")),
]
_ID = Query(ge=1, le=1 << 53)
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    code: {"model": s.Problem, "description": text}
    for code, text in {
        400: "The request cannot be read.",
        401: "No token, or one that is not known.",
        403: "The token does not allow this.",
        404: "There is no such thing.",
        422: "A value is not valid; `detail` says which.",
        503: "The database did not answer.",
    }.items()
}


def make_api(desk: Desk) -> fastapi.FastAPI:
    """The application that answers under /api/v1."""
    from twinnet import __version__

    api = fastapi.FastAPI(
        title="twinnet dashboard",
        version=__version__,
        description="Sessions, runs, layers and files of suites, checks and profiles. Send a token as "
        "`Authorization: Bearer TOKEN`. Lists come in pages: pass `next` of one answer as `before` of the next.",
        docs_url=None,  # these pages would load scripts from elsewhere
        redoc_url=None,
        responses=_PROBLEMS,
    )
    _problems(api)
    read, upload, admin = (_allowed(desk, scope) for scope in ("read", "upload", "admin"))
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
            raise HTTPException(401, "a token is needed", {"WWW-Authenticate": "Bearer"})
        if not found.may(scope):
            raise HTTPException(403, f"the token {found.name} does not have the scope {scope}")
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
    """The answer of every address while the database does not answer."""
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
            200: {"model": s.Uploaded, "description": "Everything was there already."},
            201: {"model": s.Uploaded, "description": "Stored, whole and on the disk."},
            413: {"model": s.Problem, "description": "The bundle is too large."},
            415: {"model": s.Problem, "description": "The body is not application/zip."},
        },
        dependencies=[Depends(upload)],
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
    @api.get("/sessions", dependencies=[Depends(read)])
    def list_sessions(
        q: Text = "",
        branch: Text = "",
        engine: Text = "",
        who: Text = "",
        made_by: Text = "",
        bad: bool = False,
        limit: Limit = 50,
        before: Before = None,
    ) -> s.Sessions:
        """Sessions, the newest first."""
        wanted = sessions.Filter(q, branch, engine, who, made_by, bad)
        with desk.database.reading() as connection:
            found = sessions.sessions(connection, wanted, limit, before)
        items = [s.SessionOut.of(row) for row in found]
        return s.Sessions(items=items, next=found[-1].id if len(found) == limit else None)

    @api.get("/sessions/{session_id}", dependencies=[Depends(read)])
    def get_session(session_id: Id) -> s.SessionWhole:
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

    @api.patch("/sessions/{session_id}", dependencies=[Depends(admin)])
    def pin_session(session_id: Id, change: s.Pin) -> s.SessionOut:
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

    @api.delete("/sessions/{session_id}", status_code=204, dependencies=[Depends(admin)])
    def delete_session(session_id: Id) -> None:
        """Remove a session with all its runs; its files go with the next clean-up."""
        if not remove_session(desk.database, session_id):
            raise _missing("session")

    @api.get("/sessions/{session_id}/runs", dependencies=[Depends(read)])
    def list_session_runs(session_id: Id, limit: Limit = 100, before: Before = None) -> s.Runs:
        """The runs of a session."""
        with desk.database.reading() as connection:
            if sessions.find_session(connection, session_id) is None:
                raise _missing("session")
            found = runs.runs(connection, runs.RunFilter(session_id), limit, before)
        return s.Runs.of(found, limit)


def _runs(api: fastapi.FastAPI, desk: Desk, read: Any) -> None:
    @api.get("/runs", dependencies=[Depends(read)])
    def list_runs(
        model: Text = "",
        engine: Text = "",
        layer: Annotated[str | None, Query(max_length=300, pattern=_NO_NUL)] = None,
        verdict: Annotated[str, Query(pattern=r"^(|PASS|FAIL|ERROR|SKIP)$")] = "",
        session: Annotated[int | None, _ID] = None,
        limit: Limit = 100,
        before: Before = None,
    ) -> s.Runs:
        """Runs of all sessions, the last stored first. An empty `layer` means whole models only."""
        wanted = runs.RunFilter(session, model, engine, layer, verdict)
        with desk.database.reading() as connection:
            found = runs.runs(connection, wanted, limit, before)
        return s.Runs.of(found, limit)

    @api.get("/runs/{run_id}", dependencies=[Depends(read)])
    def get_run(run_id: Id) -> s.RunWhole:
        """One run with its answer: the verdict in words, findings, causes, the command to reproduce it."""
        with desk.database.reading() as connection:
            found = runs.find_run(connection, run_id)
            if found is None:
                raise _missing("run")
            answer = runs.answer_of(connection, run_id)
        return s.RunWhole(**s.RunOut.of(found).model_dump(), answer=answer)

    @api.get("/runs/{run_id}/layers", dependencies=[Depends(read)])
    def list_layers(
        run_id: Id, limit: Limit = 200, after: Annotated[int, Query(ge=-1, le=1 << 30)] = -1
    ) -> s.Layers:
        """The layers of a run along the network; pass `next` as `after`."""
        with desk.database.reading() as connection:
            if runs.find_run(connection, run_id) is None:
                raise _missing("run")
            found = runs.layers_of(connection, run_id, limit, after)
        items = [s.LayerOut.of(row) for row in found]
        return s.Layers(items=items, next=found[-1].position if len(found) == limit else None)

    @api.get("/runs/{run_id}/files", dependencies=[Depends(read)])
    def list_files(run_id: Id, limit: Limit = 200, after: Text = "") -> s.Files:
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
        dependencies=[Depends(read)],
        response_class=Response,
        responses={200: {"description": "The file.", **binary}},
    )
    def get_file(run_id: Id, path: Annotated[str, Path(max_length=500, pattern=_NO_NUL)]) -> Response:
        """One file of a run."""
        found = file_response(desk, run_id, path, download=True)
        if found is None:
            raise _missing("file")
        return found


def _comparisons(api: fastapi.FastAPI, desk: Desk, read: Any) -> None:
    @api.get("/models", dependencies=[Depends(read)])
    def list_models(q: Text = "", limit: Limit = 100, after: Text = "") -> s.Models:
        """Names of models in alphabetical order; pass `next` as `after`."""
        with desk.database.reading() as connection:
            found = models.models(connection, limit, after, q)
        return s.Models(items=found, next=found[-1] if len(found) == limit else None)

    @api.get("/trends", dependencies=[Depends(read)])
    def list_trends(
        model: Annotated[str, Query(min_length=1, max_length=300, pattern=_NO_NUL)],
        engine: Text = "",
        layer: Text = "",
        branch: Text = "",
        limit: Limit = 200,
    ) -> s.Trends:
        """Accuracy and time of a model or one of its layer cases over sessions, and where they left their band."""
        found = []
        with desk.database.reading() as connection:
            for series in trends.series_of(connection, model, engine, layer)[:20]:
                values = trends.points(connection, series.id, branch=branch, limit=limit)
                found.append(s.TrendOut.of(series, values))
        return s.Trends(items=found)

    @api.get("/compare", dependencies=[Depends(read)])
    def compare_sessions(
        session: Annotated[int, _ID],
        baseline: Annotated[int | None, _ID] = None,
        limit: Limit = 100,
        offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
    ) -> s.Comparison:
        """What changed between two sessions, the worst first; the automatic baseline if none is given."""
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
        page = found.rows[offset : offset + limit]
        items = [s.ChangeOut.of(row) for row in page]
        return s.Comparison(
            session=one.id,
            baseline=other.id,
            counts={str(kind): number for kind, number in found.counts.items()},
            items=items,
            next=offset + limit if len(found.rows) > offset + limit else None,
        )


def _tokens(api: fastapi.FastAPI, desk: Desk, admin: Any) -> None:
    @api.get("/tokens", dependencies=[Depends(admin)])
    def list_tokens(limit: Limit = 100, after: Annotated[int, Query(ge=0, le=1 << 53)] = 0) -> s.TokensOut:
        """Tokens: names, scopes, when they were last used; pass `next` as `after`."""
        found = [s.TokenOut.model_validate(row) for row in desk.tokens.listed(after, limit)]
        return s.TokensOut(items=found, next=found[-1].id if len(found) == limit else None)

    @api.post(
        "/tokens",
        status_code=201,
        dependencies=[Depends(admin)],
        responses={409: {"model": s.Problem, "description": "There is already a token of this name."}},
    )
    def make_token(wanted: s.NewToken) -> s.MadeToken:
        """Make a token; the answer is the only place where it is seen."""
        return s.MadeToken(
            name=wanted.name, scope=wanted.scope, token=desk.tokens.add(wanted.name, wanted.scope)
        )

    @api.delete("/tokens/{name}", status_code=204, dependencies=[Depends(admin)])
    def revoke_token(name: Annotated[str, Path(max_length=100, pattern=_NO_NUL)]) -> None:
        """Revoke a token, and sign out every browser that came in with it."""
        if not desk.tokens.revoke(name):
            raise _missing("token")
