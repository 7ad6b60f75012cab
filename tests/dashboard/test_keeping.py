"""Migrations from the first version on, retention, backup, stores."""

from __future__ import annotations

import io
import os
import time
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from tests.dashboard.bundles import bundle, case, result_json
from tests.dashboard.places import have_pg_dump
from tests.needs import absent
from twinnet.dashboard.archive import Limits
from twinnet.dashboard.backup import back_up
from twinnet.dashboard.database import FIRST, LATEST, Database, migrate, open_database
from twinnet.dashboard.intake import take_in
from twinnet.dashboard.models import Base, File, Run, Session
from twinnet.dashboard.queries.sessions import Filter, sessions
from twinnet.dashboard.retention import clean_up
from twinnet.dashboard.settings import Keep
from twinnet.dashboard.store import Store, TooLarge, open_store
from twinnet.errors import UsageError

NOW = 1_790_000_000.0


def send(database: Database, store: Store, folder: Path, key: str, **more: object) -> None:
    files = {"result.json": result_json(), "traces/big.bin": os.urandom(9000)}
    file = folder / "bundle.zip"
    file.write_bytes(bundle(key, [case("net", "FAIL")], files, **more))
    take_in(database, store, file, Limits())


def test_migrations_lead_from_the_first_schema_to_the_tables_of_today(database: str, tmp_path: Path) -> None:
    opened = open_database(database, upgrade=False)
    migrate(opened, FIRST)
    with opened.writing() as connection:
        connection.execute(
            sa.text("INSERT INTO token (name, digest, scope, made) VALUES ('old', 'd', 'read', 1.0)")
        )
    opened.close()
    opened = open_database(database)
    with opened.reading() as connection:
        context = MigrationContext.configure(connection)
        assert context.get_current_revision() == LATEST
        assert compare_metadata(context, Base.metadata) == []
        assert connection.execute(sa.text("SELECT name FROM token")).scalar() == "old"
    open_database(database).close()
    opened.close()


def test_a_newer_database_is_refused(database: str) -> None:
    opened = open_database(database)
    with opened.writing() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    opened.close()
    with pytest.raises(UsageError, match="schema 9999"):
        open_database(database)


def test_sqlite_is_in_wal_mode(tmp_path: Path) -> None:
    opened = open_database(f"sqlite:///{tmp_path}/a.db")
    with opened.reading() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
    opened.close()


@pytest.mark.parametrize("url", ["nonsense", "mysql://a/b", "sqlite:////proc/nothing/here.db"])
def test_wrong_databases_are_said(url: str) -> None:
    from twinnet.errors import TwinnetError

    with pytest.raises((TwinnetError, OSError)):
        open_database(url)


def test_retention_keeps_the_newest_the_pinned_and_the_verdicts(database: str, tmp_path: Path) -> None:
    opened, store = open_database(database), open_store(str(tmp_path / "files"))
    for day in range(6):
        send(opened, store, tmp_path, f"d{day}", started=NOW - day * 86400, finished=NOW - day * 86400 + 5)
    with opened.writing() as connection:
        connection.execute(sa.update(Session).where(Session.key == "d5").values(pinned=True))
    gone = clean_up(opened, store, Keep(files=2.5), now=NOW)
    assert gone.files == 2, "of days 3 and 4; day 5 is pinned"
    gone = clean_up(opened, store, Keep(sessions=3.5), now=NOW)
    assert gone.sessions == 1
    with opened.reading() as connection:
        assert [s.key for s in sessions(connection, Filter(), 50)] == ["d0", "d1", "d2", "d3", "d5"]
        assert connection.execute(sa.select(sa.func.count()).select_from(Run)).scalar() == 5
        used = set(connection.execute(sa.select(File.digest)).scalars())
    there = set(store.digests(older=-1))
    assert used < there
    for blob in (tmp_path / "files").glob("??/*"):
        os.utime(blob, (1, 1))
    assert clean_up(opened, store, Keep()).blobs == len(there - used)
    assert set(store.digests(older=-1)) == used
    assert clean_up(opened, store, Keep(sessions=0.0), now=NOW + 9e9).sessions == 3
    opened.close()


def test_a_backup_is_a_dashboard(database: str, kind: str, tmp_path: Path) -> None:
    if kind == "postgresql" and not have_pg_dump():
        absent("pg_dump is not installed")
    opened = open_database(database)
    store = open_store(str(tmp_path / "files"))
    send(opened, store, tmp_path, "one")
    said = back_up(opened, str(tmp_path / "files"), tmp_path / "copy")
    assert said[0].startswith("copied")
    with pytest.raises(UsageError, match="not empty"):
        back_up(opened, str(tmp_path / "files"), tmp_path / "copy")
    if kind == "sqlite":
        copy = open_database(f"sqlite:///{tmp_path}/copy/dashboard.db")
        with copy.reading() as connection:
            assert [s.key for s in sessions(connection, Filter(), 5)] == ["one"]
            digests = list(connection.execute(sa.select(File.digest)).scalars())
        copy.close()
        there = open_store(str(tmp_path / "copy" / "files"))
        for digest in digests:
            with there.open(digest) as file:
                assert file.read()
    else:
        assert (tmp_path / "copy" / "dashboard.pgdump").stat().st_size > 1000
    opened.close()


@pytest.mark.parametrize("place", ["folder", "memory://twinnet-test"])
def test_stores(place: str, tmp_path: Path) -> None:
    store = open_store(str(tmp_path / place) if "://" not in place else place)
    digest, size = store.put(io.BytesIO(b"hello"), 5)
    assert store.put(io.BytesIO(b"hello"), 5) == (digest, size)
    with store.open(digest) as file:
        assert file.read() == b"hello"
    with pytest.raises(TooLarge):
        store.put(io.BytesIO(b"hello!"), 5)
    with pytest.raises(FileNotFoundError):
        store.open("../../etc/passwd")
    time.sleep(0.01)
    assert digest in list(store.digests(older=-1))
    store.remove(digest, older=3600)
    if "://" not in place:
        with store.open(digest) as file:
            assert file.read() == b"hello", "young blobs stay"
    store.remove(digest, older=-1)
    with pytest.raises(FileNotFoundError):
        store.open(digest)


def test_everything_works_with_files_elsewhere(tmp_path: Path) -> None:
    opened, store = open_database(f"sqlite:///{tmp_path}/a.db"), open_store("memory://elsewhere")
    send(opened, store, tmp_path, "far")
    with opened.reading() as connection:
        digest = connection.execute(sa.select(File.digest).where(File.path == "result.json")).scalar_one()
    with store.open(digest) as file:
        assert file.read().startswith(b"{")
    opened.close()
