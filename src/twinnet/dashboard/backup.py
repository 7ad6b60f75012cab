"""A copy of everything, made while the server runs."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import sqlalchemy as sa

from twinnet.dashboard.database import Database
from twinnet.dashboard.models import File
from twinnet.dashboard.server import default_files
from twinnet.dashboard.store import open_store
from twinnet.errors import MissingExtra, UsageError, failed
from twinnet.files import whole_file

__all__ = ["back_up"]


def back_up(database: Database, files: str, folder: Path) -> list[str]:
    """Copy database and files into a new folder; returns what to say about it.

    The database is copied first: files that its rows name are never changed, so the two fit together.
    """
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty", hint="choose a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    with database.reading() as connection:
        digests = list(connection.execute(sa.select(File.digest).distinct()).scalars())
    copy = _sqlite(database, folder) if database.is_sqlite else _postgresql(database, folder)
    source = open_store(files or default_files(database))
    for digest in digests:
        target = folder / "files" / digest[:2] / digest
        with source.open(digest) as there, whole_file(target) as here:
            shutil.copyfileobj(there, here, 1 << 20)
    back = (
        f"start it with   twinnet serve --database sqlite:///{copy} --files {folder / 'files'}"
        if database.is_sqlite
        else f"restore with   pg_restore --dbname URL {copy}, then twinnet serve --files {folder / 'files'}"
    )
    return [f"copied   {copy.name} and {len(digests)} files into {folder}", back]


def _sqlite(database: Database, folder: Path) -> Path:
    target = folder / "dashboard.db"
    with sqlite3.connect(str(database.engine.url.database)) as source, sqlite3.connect(target) as copy:
        source.backup(copy)
    source.close()
    copy.close()
    return target


def _postgresql(database: Database, folder: Path) -> Path:
    """The database as `pg_dump` writes it; the password goes by the environment, not by the command line."""
    import os
    import subprocess

    program = shutil.which("pg_dump")
    if program is None:
        raise MissingExtra("pg_dump (Debian: postgresql-client)", "dashboard")
    url = database.engine.url
    target = folder / "dashboard.pgdump"
    command = [program, "--format=custom", f"--file={target}", "--dbname", str(url.database or "")]
    places = {"--host": url.query.get("host") or url.host, "--port": url.port, "--username": url.username}
    command += [word for name, value in places.items() if value for word in (name, str(value))]
    secret = {"PGPASSWORD": str(url.password)} if url.password else {}
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **secret}, check=False)
    if done.returncode:
        raise failed("copy the database", "pg_dump", RuntimeError(done.stderr))
    return target
