"""Every test that takes `database` runs on SQLite and on PostgreSQL."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dashboard.places import Running, postgres, running

DATABASES = ("sqlite", "postgresql")


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    with postgres() as url:
        yield url


@pytest.fixture(scope="module", params=DATABASES)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


def new_database(kind: str, folder: Path, request: pytest.FixtureRequest) -> str:
    """The URL of an empty database."""
    if kind == "sqlite":
        return f"sqlite:///{folder / (uuid.uuid4().hex + '.db')}"
    import psycopg

    url = request.getfixturevalue("postgres_url")
    name = f"t{uuid.uuid4().hex}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return url.rpartition("/")[0] + f"/{name}"


@pytest.fixture
def database(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """The URL of an empty database for one test."""
    return new_database(kind, tmp_path, request)


@pytest.fixture(scope="module")
def dashboard(
    kind: str, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Running]:
    """A dashboard for all tests of a file."""
    folder = tmp_path_factory.mktemp("dashboard")
    with running(new_database(kind, folder, request), folder / "files") as found:
        yield found
