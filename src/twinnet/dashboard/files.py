"""Files of runs to a browser. They are anyone's: none of them runs as part of the dashboard."""

from __future__ import annotations

import base64
import hashlib
import tempfile
import zipfile
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import quote

import sqlalchemy as sa

from twinnet.dashboard.models import File
from twinnet.dashboard.queries.runs import files_of
from twinnet.dashboard.store import CHUNK

if TYPE_CHECKING:
    from starlette.responses import Response

    from twinnet.dashboard.desk import Desk

__all__ = ["file_response", "folder_response", "read_file"]

_TEXTS = (".txt", ".log", ".csv", ".json", ".py", ".md", ".xml", ".toml", ".mlir")
_IMAGES = {".png": "image/png"}


def file_response(desk: Desk, run_id: int, path: str, *, download: bool) -> Response | None:
    """A file of a run, as an answer; None if there is none.

    A report is shown in a sandbox of its own: it cannot reach the dashboard, and no script runs but that of twinnet's
    own reports.
    """
    from starlette.responses import StreamingResponse

    found = _found(desk, run_id, path)
    if found is None:
        return None
    try:
        source = desk.store.open(found.digest)
    except OSError:
        return None
    name = path.rpartition("/")[2]
    suffix = f".{name.rpartition('.')[2].lower()}"
    headers = {"content-length": str(found.size), "content-security-policy": "sandbox; default-src 'none'"}
    media = "application/octet-stream"
    if not download and suffix == ".html":
        media, headers["content-security-policy"] = "text/html; charset=utf-8", _report_policy()
    elif not download and suffix in _TEXTS:
        media = "text/plain; charset=utf-8"
    elif not download and suffix in _IMAGES:
        media = _IMAGES[suffix]
    if media == "application/octet-stream":
        headers["content-disposition"] = f"attachment; filename*=UTF-8''{quote(name)}"
    return StreamingResponse(_pieces(source), media_type=media, headers=headers)


def folder_response(desk: Desk, run_id: int, name: str) -> Response | None:
    """The whole run folder as a zip file, which `twinnet repro` and `show` take after unpacking."""
    from starlette.responses import StreamingResponse

    with desk.database.reading() as connection:
        files = files_of(connection, run_id)
    if not files:
        return None
    spool: Any = tempfile.TemporaryFile(prefix="twinnet-")  # noqa: SIM115 - closed by the answer
    with zipfile.ZipFile(spool, "w") as archive:
        for file in files:
            try:
                source = desk.store.open(file.digest)
            except OSError:
                continue
            how = zipfile.ZIP_DEFLATED if file.path.endswith((*_TEXTS, ".html")) else zipfile.ZIP_STORED
            info = zipfile.ZipInfo(f"{name}/{file.path}")
            info.compress_type = how
            with source, archive.open(info, "w", force_zip64=True) as target:
                for piece in iter(lambda s=source: s.read(CHUNK), b""):
                    target.write(piece)
    size = spool.tell()
    spool.seek(0)
    headers = {
        "content-length": str(size),
        "content-disposition": f"attachment; filename*=UTF-8''{quote(name)}.zip",
    }
    return StreamingResponse(_pieces(spool), media_type="application/zip", headers=headers)


def read_file(desk: Desk, run_id: int, path: str, most: int) -> bytes | None:
    """The bytes of a file of a run, if it is there and not too long."""
    found = _found(desk, run_id, path)
    if found is None or found.size > most:
        return None
    try:
        with desk.store.open(found.digest) as source:
            return source.read()
    except OSError:
        return None


def _found(desk: Desk, run_id: int, path: str) -> Any:
    with desk.database.reading() as connection:
        return connection.execute(
            sa.select(File.size, File.digest).where(File.run_id == run_id, File.path == path)
        ).first()


def _pieces(source: BinaryIO) -> Iterator[bytes]:
    with source:
        while piece := source.read(CHUNK):
            yield piece


@cache
def _report_policy() -> str:
    """What a report may do: show itself, and run the script of our own reports, whose hash this is."""
    from twinnet.report.html import template_folder

    scripts = [template_folder() / "report.js"]
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(s.read_bytes()).digest()).decode()}'" for s in scripts
    )
    return (
        f"sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src {hashes}; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
