"""The database: opening it by URL, bringing its schema up to date, and transactions."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinnet.errors import EngineError, UsageError

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Engine

__all__ = ["FIRST", "LATEST", "Database", "default_url", "open_database"]

FIRST, LATEST = "0001", "0001"
"""Versions of the schema: the first there was, and today's."""

_MIGRATIONS = Path(__file__).parent / "migrations"
_PATIENCE = 60.0


def default_url() -> str:
    """The embedded database: a SQLite file in the folder where people's data belongs."""
    import os

    home = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return f"sqlite:///{Path(home) / 'twinnet' / 'dashboard.db'}"


class Database:
    """An open database. `reading` gives a connection, `writing` one whose block is a transaction."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.is_sqlite = engine.dialect.name == "sqlite"
        # SQLite has one writer: waiting here is fair and quick, waiting in SQLite is polling.
        self._turn = threading.Lock() if self.is_sqlite else None

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection to read with."""
        with self.engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction: all of the block, on the disk when it ends, or nothing."""
        if self._turn is None:
            with self.engine.begin() as connection:
                yield connection
            return
        with self._turn, self.engine.connect() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield connection
            connection.commit()

    @property
    def shown(self) -> str:
        """The URL without a password."""
        return self.engine.url.render_as_string(hide_password=True)

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def open_database(url: str, *, upgrade: bool = True) -> Database:
    """Open a database by its SQLAlchemy URL and bring its schema up to date."""
    import sqlalchemy as sa
    from sqlalchemy.exc import ArgumentError, DBAPIError

    try:
        parsed = sa.make_url(url)
    except ArgumentError:
        raise UsageError(
            f"{url} is not a database URL", hint="sqlite:///FILE or postgresql://user@host/name"
        ) from None
    if parsed.get_backend_name() == "sqlite":
        engine = _sqlite(parsed)
    elif parsed.get_backend_name() == "postgresql":
        engine = sa.create_engine(
            parsed.set(drivername="postgresql+psycopg"), pool_size=20, max_overflow=20, pool_pre_ping=True
        )
    else:
        raise UsageError(
            f"{parsed.get_backend_name()} is not supported", hint="use sqlite:///FILE or postgresql://..."
        )
    database = Database(engine)
    try:
        if upgrade:
            migrate(database)
    except DBAPIError as error:
        database.close()
        said = str(error.orig).strip().partition("\n")[0]
        raise EngineError(
            f"cannot open the database {database.shown}: {said}", stage="open", hint="check --database"
        ) from None
    return database


def _sqlite(url: Any) -> Engine:
    import sqlalchemy as sa
    from sqlalchemy import event

    if url.database and url.database != ":memory:":
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    engine = sa.create_engine(
        url, connect_args={"timeout": _PATIENCE, "check_same_thread": False}, pool_size=40, max_overflow=40
    )

    @event.listens_for(engine, "connect")
    def _(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # transactions are begun by name, in `writing`
        for line in (
            "PRAGMA journal_mode=WAL",
            "PRAGMA synchronous=FULL",  # what was acknowledged survives a power cut, too
            "PRAGMA foreign_keys=ON",
            "PRAGMA cache_size=-65536",
            "PRAGMA mmap_size=1073741824",
            "PRAGMA temp_store=MEMORY",
        ):
            connection.execute(line)

    return engine


def migrate(database: Database, to: str = "head") -> None:
    """Bring the schema to a version; several servers that start at once do it one after the other."""
    from alembic.config import Config
    from alembic.runtime.environment import EnvironmentContext
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    script = ScriptDirectory.from_config(config)

    def steps(revision: Any, _: Any) -> Any:
        return script._upgrade_revs(to, revision)

    with database.engine.connect() as connection, EnvironmentContext(config, script, fn=steps) as context:
        if database.is_sqlite:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7426011)")
        _refuse_newer(connection)
        context.configure(connection=connection, transactional_ddl=False)
        context.run_migrations()
        connection.commit()


def _refuse_newer(connection: Connection) -> None:
    from alembic.migration import MigrationContext

    now = MigrationContext.configure(connection).get_current_revision()
    if now is not None and now > LATEST:
        raise UsageError(
            f"the database has schema {now}; this twinnet knows up to {LATEST}",
            hint="pip install --upgrade 'twinnet[dashboard]'",
        )
