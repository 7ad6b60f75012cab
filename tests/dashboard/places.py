"""A real PostgreSQL for tests, and dashboards that run in this process or in one of their own."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.needs import absent
from twinnet.dashboard.server import Service, open_service
from twinnet.dashboard.settings import Settings
from twinnet.upload.client import Server

__all__ = ["Running", "postgres", "running", "started"]


@contextmanager
def postgres() -> Iterator[str]:
    """A PostgreSQL of its own on a loopback port, run by an ordinary user; the URL of its maintenance database."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        absent("PostgreSQL is not installed (Debian: postgresql)")
    programs = found[-1].parent
    # Not in pytest's own folder, which is closed to the user that runs the server.
    data = Path(tempfile.mkdtemp(prefix="twinnet-postgres-"))
    as_user: list[str] = []
    if os.geteuid() == 0:  # the server refuses to run as root
        try:
            user = pwd.getpwnam("postgres")
        except KeyError:
            absent("there is no user postgres to run PostgreSQL as")
        os.chown(data, user.pw_uid, user.pw_gid)
        as_user = ["runuser", "-u", "postgres", "--"]
    initdb = [
        str(programs / "initdb"),
        "-D",
        str(data),
        "-A",
        "trust",
        "-U",
        "twinnet",
        "-E",
        "UTF8",
        "--no-sync",
    ]
    subprocess.run([*as_user, *initdb], check=True, capture_output=True, cwd="/")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["-p", str(port), "-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={data}"]
    server = subprocess.Popen(
        [*as_user, str(programs / "postgres"), "-D", str(data), *options, "-c", "max_connections=200"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
    )
    try:
        _wait(lambda: socket.create_connection(("127.0.0.1", port), 1).close(), server)
        ready = [str(programs / "pg_isready"), "-h", "127.0.0.1", "-p", str(port)]
        _wait(lambda: subprocess.run(ready, check=True, capture_output=True), server)
        yield f"postgresql://twinnet@127.0.0.1:{port}/postgres"
    finally:
        # With runuser the child is the server: its pid is in the data folder.
        pid = (data / "postmaster.pid").read_text().split()[0] if (data / "postmaster.pid").exists() else ""
        if pid:
            subprocess.run(["kill", "-INT", pid], check=False)
        else:
            server.terminate()
        server.wait(60)
        shutil.rmtree(data, ignore_errors=True)


def _wait(ask: Any, process: subprocess.Popen[Any], patience: float = 60.0) -> None:
    deadline = time.monotonic() + patience
    while True:
        try:
            ask()
            return
        except (OSError, subprocess.SubprocessError):
            assert process.poll() is None, "the process ended"
            assert time.monotonic() < deadline, "it did not start"
            time.sleep(0.1)


@dataclass(frozen=True)
class Running:
    """A dashboard that answers, and an admin's token."""

    url: str
    token: str
    service: Service | None = None

    @property
    def server(self) -> Server:
        """As a client sees it."""
        return Server(self.url, self.token)

    def ask(
        self,
        path: str,
        *,
        method: str = "GET",
        data: bytes | None = None,
        token: str | None = "",
        **headers: str,
    ) -> tuple[int, bytes, dict[str, str]]:
        """Status, body and headers of an answer; redirects are not followed. An empty token is the admin's."""
        request = urllib.request.Request(self.url + path, data, method=method)
        if token is not None:
            request.add_header("Authorization", f"Bearer {token or self.token}")
        for name, value in headers.items():
            request.add_header(name.replace("_", "-"), value)
        opener = urllib.request.build_opener(_Stay(), urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=60) as answer:
                return answer.status, answer.read(), {k.lower(): v for k, v in answer.headers.items()}
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read(), {k.lower(): v for k, v in error.headers.items()}

    def json(self, path: str, **more: Any) -> Any:
        """What the API answers."""
        status, body, _ = self.ask(f"/api/v1{path}", **more)
        assert status < 300, (status, body)
        return json.loads(body)

    def page(self, path: str) -> str:
        """A page that is there."""
        status, body, _ = self.ask(path)
        assert status == 200, (status, body[:500])
        return body.decode()

    def post(self, bundle: Path | bytes) -> tuple[int, dict[str, Any]]:
        """Send a bundle."""
        data = bundle if isinstance(bundle, bytes) else bundle.read_bytes()
        status, body, _ = self.ask(
            "/api/v1/bundles", method="POST", data=data, content_type="application/zip"
        )
        return status, json.loads(body)


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **more: Any) -> None:
        return None


@contextmanager
def running(database: str, files: Path, settings: Settings | None = None) -> Iterator[Running]:
    """A dashboard on a thread of this process."""
    service = open_service(database, str(files), settings or Settings(port=0))
    token = service.tokens.add("tests", "admin")
    thread = threading.Thread(target=service.run, daemon=True)
    thread.start()
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"{service.url}/health", timeout=5).close()
                break
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        yield Running(service.url, token, service)
    finally:
        service.stop()
        thread.join(60)
        assert not thread.is_alive()


@contextmanager
def started(folder: Path, database: str, port: int = 0) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`twinnet serve` as a process of its own, and its address; killed at the end."""
    command = [sys.executable, "-m", "twinnet.cli.main", "serve", "--port", str(port), "--database", database]
    process = subprocess.Popen(
        [*command, "--files", str(folder / "files")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=folder,
    )
    try:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith("open"):
                break
        url = next(line.split()[1].partition("/enter")[0] for line in lines if line.startswith("open"))
        yield process, url
    finally:
        process.kill()
        process.wait(30)
        assert process.stdout is not None
        process.stdout.close()


def have_pg_dump() -> bool:
    """Whether the backup of a PostgreSQL can be tried."""
    return shutil.which("pg_dump") is not None
