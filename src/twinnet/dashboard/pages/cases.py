"""The page of one case, its files, and the pictures of its tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.responses import Response
from starlette.routing import Route

from twinnet.dashboard import charts, words
from twinnet.dashboard.desk import Desk
from twinnet.dashboard.files import file_response, folder_response, read_file
from twinnet.dashboard.pages.base import allowed, not_found, number, rendered, shown, text
from twinnet.dashboard.queries import runs as r
from twinnet.dashboard.queries import sessions as s
from twinnet.dashboard.queries import trends as t
from twinnet.dashboard.summary import profile_of
from twinnet.engines.spec import file_name
from twinnet.errors import TwinnetError
from twinnet.scratch import scratch_folder

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection
    from starlette.requests import Request

__all__ = ["routes"]

_PROFILE, _TENSORS, _LOG = 16 << 20, 256 << 20, 1 << 20
_PICTURES = 6
_TRACES = ("traces/network.safetensors", "traces/twin.safetensors")
_LOGS = ("error.txt", "log.txt")
_TIMES = "profile/profile.json"


def routes(desk: Desk) -> list[Route]:
    """The addresses of a case."""

    def case(request: Request, connection: Connection) -> dict[str, Any] | None:
        return _case(desk, request, connection)

    def file(request: Request) -> Response:
        wanted = str(request.path_params["path"])
        found = file_response(
            desk, number(request, "run") or 0, wanted, download=text(request, "download") == "1"
        )
        return found or not_found(request)

    def folder(request: Request) -> Response:
        with desk.database.reading() as connection:
            run = r.find_run(connection, number(request, "run") or 0)
        found = folder_response(desk, run.id, file_name(run.name)) if run is not None else None
        return found or not_found(request)

    def pictures(request: Request) -> Response:
        run_id = number(request, "run") or 0
        return rendered(request, "pictures.html.j2", pictures=_pictures(desk, run_id))

    return [
        Route("/cases/{run:int}", shown(desk, "case.html.j2", case)),
        Route("/cases/{run:int}/pictures", allowed(desk, pictures)),
        Route("/cases/{run:int}/run.zip", allowed(desk, folder)),
        Route("/cases/{run:int}/files/{path:path}", allowed(desk, file)),
    ]


def _case(desk: Desk, request: Request, connection: Connection) -> dict[str, Any] | None:
    run = r.find_run(connection, number(request, "run") or 0)
    if run is None:
        return None
    session = s.find_session(connection, run.session_id)
    files = {f.path: f for f in r.files_of(connection, run.id)}
    layers = r.layers_of(connection, run.id)
    data = read_file(desk, run.id, _TIMES, _PROFILE) if _TIMES in files else None
    profile = profile_of(data) if data else None
    values = t.points(connection, run.series_id, branch=session.branch if session else "", limit=60)
    band = t.band_of([p.ratio for p in values], "ratio")
    log = next((read_file(desk, run.id, name, _LOG) for name in _LOGS if name in files), None)
    link = f"/trends?run={run.id}&place="
    return {
        "run": run,
        "folder": file_name(run.name),
        "session": session,
        "answer": r.answer_of(connection, run.id),
        "files": list(files.values()),
        "has": set(files),
        "can_repro": any(path.startswith("seeds/") for path in files),
        "repro": [f for f in files if f.startswith("repro/") or "/repro/" in f],
        "layers": layers,
        "chart": charts.along(layers, (), link) if len(layers) > 1 else (),
        "worst": sorted((x for x in layers if x.ratio is not None), key=lambda x: -(x.ratio or 0))[:12],
        "profile": profile,
        "flame": charts.flame(run.model, profile["rows"]) if profile else None,
        "slowest": sorted(profile["rows"], key=lambda row: -(row["p50"] or 0))[:15] if profile else [],
        "trend": charts.trend(values, [p.ratio for p in values], band, words.ratio, "ratio")
        if len(values) > 2
        else (),
        "pictures": all(name in files for name in _TRACES),
        "log": log.decode("utf-8", "replace")[-20_000:] if log else "",
        "link": link,
    }


def _pictures(desk: Desk, run_id: int) -> list[Any]:
    """Pictures of the tensors that a run kept, the worst first; the files are read as data, whatever they are."""
    from twinnet.report.pictures import picture_of
    from twinnet.report.show import load_tensors

    found = {name: read_file(desk, run_id, name, _TENSORS) for name in _TRACES}
    with desk.database.reading() as connection:
        rows = r.layers_of(connection, run_id)
    ranks = {row.tensor: -(row.ratio or 0.0) for row in rows}
    with scratch_folder("dashboard") as folder:
        for name, data in found.items():
            if data is None:
                return []
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(data)
        try:
            tensors = load_tensors(folder)
        except TwinnetError:
            return []
        names = sorted(tensors, key=lambda name: ranks.get(name, 1.0))[:_PICTURES]
        return [picture_of(name, *tensors[name], anchor="") for name in names]
