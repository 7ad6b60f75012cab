"""`twinnet serve`: the dashboard, and what its keeper needs: tokens, a backup, a clean-up."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twinnet.cli._screen import say
from twinnet.cli._verbs import Verbs

if TYPE_CHECKING:
    from twinnet.dashboard.server import Service

__all__ = ["app"]

app = typer.Typer(
    cls=Verbs,
    invoke_without_command=True,
    rich_markup_mode=None,
    subcommand_metavar="[token|tokens|revoke|backup|clean]",
)

Database = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URL",
        help="sqlite:///FILE or postgresql://user@host/name (default: a SQLite file in your data folder).",
    ),
]
Files = Annotated[
    str, typer.Option("--files", metavar="PLACE", help="Where files go: a folder, or any fsspec URL.")
]
KeepDays = Annotated[
    float | None,
    typer.Option("--keep", metavar="DAYS", min=0, help="Remove sessions older than this; pinned ones stay."),
]
KeepFiles = Annotated[
    float | None,
    typer.Option(
        "--keep-files",
        metavar="DAYS",
        min=0,
        help="Remove large files of sessions older than this; verdicts stay.",
    ),
]


@app.callback()
def serve(
    context: typer.Context,
    *,
    port: Annotated[int, typer.Option("--port", metavar="PORT", help="Port; 0 for any free one.")] = 8080,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.")
    ] = "127.0.0.1",
    database: Database = None,
    files: Files = "",
    demo: Annotated[bool, typer.Option("--demo", help="Show a month of made-up sessions.")] = False,
    keep: KeepDays = None,
    keep_files: KeepFiles = None,
    name: Annotated[
        list[str] | None,
        typer.Option(
            "--name", metavar="HOST", help="Host name under which browsers reach it; may be repeated."
        ),
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option("--tls-cert", metavar="FILE", help="Certificate.")] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="Its key.")] = None,
    behind_proxy: Annotated[
        bool, typer.Option("--behind-proxy", help="A proxy in front of it speaks HTTPS to browsers.")
    ] = False,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen for other machines without encryption.")
    ] = False,
    max_upload: Annotated[
        float, typer.Option("--max-upload", metavar="MIB", min=1, help="Largest bundle to accept.")
    ] = 2048,
) -> None:
    """Start the dashboard: every suite, check and profile of a team, accuracy and speed over time.

    Without options it keeps its data in one SQLite file and listens on this machine only.

    Example: twinnet serve --database postgresql://twinnet@db/twinnet --files s3://models/twinnet
    """
    if context.invoked_subcommand is not None:
        return
    _needed()
    from dataclasses import replace

    from twinnet.dashboard.archive import Limits
    from twinnet.dashboard.database import default_url
    from twinnet.dashboard.server import open_service
    from twinnet.dashboard.settings import Keep, Settings
    from twinnet.scratch import scratch_folder

    settings = Settings(
        host,
        port,
        tuple(n.lower() for n in name or ()),
        tls_cert,
        tls_key,
        behind_proxy,
        insecure,
        replace(Limits(), body=int(max_upload * (1 << 20))),
        Keep(keep, keep_files),
    )
    settings.check()
    with scratch_folder("demo") as folder:
        if demo and database is None:
            database, files = f"sqlite:///{folder / 'demo.db'}", str(folder / "files")
        service = open_service(database or default_url(), files, settings)
        if demo:
            from twinnet.dashboard.demo import fill
            from twinnet.progress import progress

            with progress(quiet=False) as report:
                fill(service.database, service.store, report)
        service.run(lambda: _greet(service))


def _greet(service: Service) -> None:
    say(f"database {service.database.shown}")
    if not service.tokens.any():
        token = service.tokens.add("first", "admin")
        say("token    made for you, shown only now; uploads need it:")
        say(f"         export TWINNET_SERVER={service.url} TWINNET_TOKEN={token}")
    else:
        say(f"upload   export TWINNET_SERVER={service.url} TWINNET_TOKEN=...   (`twinnet serve token NAME`)")
    say(f"open     {service.url}/enter?ticket={service.tokens.ticket()}")
    say("stop     Ctrl-C")


@app.command("token")
def token(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whom it is for: ci, anna.")],
    scope: Annotated[
        str, typer.Option("--scope", metavar="read|upload|admin", help="What it allows.")
    ] = "upload",
    database: Database = None,
) -> None:
    """Make a token and print it, once."""
    say(_tokens(database).add(name, scope))


@app.command("tokens")
def tokens(database: Database = None) -> None:
    """List the tokens: name, scope, when each was last used."""
    from twinnet.cli.sessions import table
    from twinnet.dashboard.words import ago

    found = _tokens(database).listed(limit=1000)
    rows = [
        (
            str(one["name"]),
            str(one["scope"]),
            ago(used) if isinstance(used := one["used"], float) else "never used",
        )
        for one in found
    ]
    for line in table(rows):
        say(line)


@app.command("revoke")
def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the token.")], database: Database = None
) -> None:
    """Revoke a token, and sign out the browsers that used it."""
    from twinnet.errors import UsageError

    if not _tokens(database).revoke(name):
        raise UsageError(f"there is no token {name}", hint="`twinnet serve tokens` lists them")
    say(f"revoked  {name}")


@app.command("backup")
def backup(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder to write; it must be new or empty.")
    ],
    database: Database = None,
    files: Files = "",
) -> None:
    """Copy database and files into a folder, while the server runs."""
    _needed()
    from twinnet.dashboard.backup import back_up

    for line in back_up(_open(database), files, folder):
        say(line)


@app.command("clean")
def clean(
    database: Database = None, files: Files = "", keep: KeepDays = None, keep_files: KeepFiles = None
) -> None:
    """Remove old sessions and files now, as the server does once a day."""
    from twinnet.dashboard.retention import clean_up
    from twinnet.dashboard.server import default_files
    from twinnet.dashboard.settings import Keep
    from twinnet.dashboard.store import open_store

    opened = _open(database)
    gone = clean_up(opened, open_store(files or default_files(opened)), Keep(keep, keep_files))
    say(f"removed  {gone.sessions} sessions, {gone.files} files, {gone.blobs} blobs")


def _needed() -> None:
    from importlib.util import find_spec

    from twinnet.errors import MissingExtra

    for package in ("fastapi", "uvicorn", "sqlalchemy", "alembic"):
        if find_spec(package) is None:
            raise MissingExtra(package, "dashboard")


def _open(database: str | None):
    _needed()
    from twinnet.dashboard.database import default_url, open_database

    return open_database(database or default_url())


def _tokens(database: str | None):
    opened = _open(database)
    from twinnet.dashboard.tokens import Tokens

    return Tokens(opened)
