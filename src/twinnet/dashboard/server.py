"""`twinnet serve`: opens database and store, listens, cleans up once a day, and stops when it is asked to."""

from __future__ import annotations

import json
import logging
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinnet.dashboard.database import Database, open_database
from twinnet.dashboard.settings import Settings
from twinnet.dashboard.store import Store, open_store
from twinnet.errors import EngineError

if TYPE_CHECKING:
    import uvicorn

__all__ = ["Service", "default_files", "open_service"]

_DAY = 86400.0
_FAREWELL = 30
_FIELDS = ("method", "path", "status", "ms", "bytes", "client", "error", "sessions", "files", "blobs")
_log = logging.getLogger("twinnet.dashboard")


class Service:
    """A server that is about to run."""

    def __init__(self, database: Database, store: Store, settings: Settings) -> None:
        from twinnet.dashboard.tokens import Tokens

        settings.check()
        self.database, self.store = database, store
        self.tokens = Tokens(database)
        self._socket = _listening(settings)
        port = self._socket.getsockname()[1]
        from dataclasses import replace

        self.settings = replace(settings, port=port)
        self._stop = threading.Event()
        self._server: uvicorn.Server | None = None

    @property
    def url(self) -> str:
        """Its address."""
        host = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(
            self.settings.host, self.settings.host
        )
        host = self.settings.names[0] if self.settings.names else f"[{host}]" if ":" in host else host
        return f"{'https' if self.settings.tls_cert else 'http'}://{host}:{self.settings.port}"

    def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Serve until SIGINT or SIGTERM; requests that are being answered are finished first."""
        import uvicorn

        from twinnet.dashboard.app import make_app

        structured_logs()
        with _asked_by_signals(self.stop):
            _warm()
            config = uvicorn.Config(
                make_app(self.database, self.store, self.settings, self.tokens),
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=_FAREWELL,
                timeout_keep_alive=30,
                ssl_certfile=_path(self.settings.tls_cert),
                ssl_keyfile=_path(self.settings.tls_key),
                h11_max_incomplete_event_size=64 << 10,
            )
            server = self._server = uvicorn.Server(config)
            cleaner = threading.Thread(target=self._clean, name="twinnet-clean-up", daemon=True)
            try:
                if self._stop.is_set():
                    return
                cleaner.start()
                ready()
                server.run(sockets=[self._socket])
            finally:
                self._stop.set()
                self._socket.close()
                if cleaner.ident is not None:
                    cleaner.join(_FAREWELL)
                self.database.close()

    def stop(self) -> None:
        """End `run`, from another thread or while it starts."""
        self._stop.set()
        if self._server is not None:
            self._server.should_exit = True

    def _clean(self) -> None:
        from sqlalchemy.exc import SQLAlchemyError

        from twinnet.dashboard.retention import clean_up
        from twinnet.errors import TwinnetError

        while True:
            try:
                gone = clean_up(self.database, self.store, self.settings.keep)
                _log.info(
                    "clean-up", extra={"sessions": gone.sessions, "files": gone.files, "blobs": gone.blobs}
                )
            except (SQLAlchemyError, TwinnetError, OSError) as error:
                _log.error("clean-up", extra={"error": str(error)[:500]})
            if self._stop.wait(_DAY):
                return


@contextmanager
def _asked_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """SIGINT and SIGTERM ask to stop.

    While modules are loaded, an exception out of nowhere would look like a broken installation; and the server, which
    has handlers of its own, raises both again when it has stopped.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def asked(*_: Any) -> None:
        stop()

    before = {number: signal.signal(number, asked) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def open_service(database: str, files: str, settings: Settings) -> Service:
    """Open database and store, and bind the port; anything wrong is reported before it starts."""
    settings.check()
    opened = open_database(database)
    return Service(opened, open_store(files or default_files(opened)), settings)


def default_files(database: Database) -> str:
    """Where files go by default: a folder beside the database, or in the folder of people's data."""
    from twinnet.dashboard.database import default_url

    path = database.engine.url.database if database.is_sqlite else default_url().partition(":///")[2]
    return str(Path(path or "dashboard.db").with_suffix("")) + "-files"


def _listening(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((settings.host, settings.port))
        found.listen(512)
    except OSError as error:
        found.close()
        raise EngineError(
            f"cannot listen on {settings.host}, port {settings.port}: {error.strerror or error}",
            hint="name another one with --port, or 0 for any",
        ) from None
    return found


def _path(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _warm() -> None:
    """Make what the first upload and the first page would wait for."""
    import twinnet.judge.aggregate
    import twinnet.report.pictures
    import twinnet.report.profiles.flame
    import twinnet.report.show  # noqa: F401
    from twinnet.dashboard.pages.base import environment
    from twinnet.report.json_file import warm

    warm()
    made = environment()
    for name in made.list_templates(filter_func=lambda n: n.endswith(".html.j2")):
        made.get_template(name)


class _Lines(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + "Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        told |= {name: getattr(record, name) for name in _FIELDS if hasattr(record, name)}
        if record.exc_info:
            told["trace"] = self.formatException(record.exc_info)
        return json.dumps(told)


def structured_logs() -> None:
    """Log as lines of JSON on stderr: requests, clean-ups, and what went wrong."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    for name, level in (
        ("twinnet.dashboard", logging.INFO),
        ("uvicorn", logging.WARNING),
        ("uvicorn.error", logging.WARNING),
    ):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler] if name != "uvicorn.error" else []
        logger.setLevel(level)
        logger.propagate = name == "uvicorn.error"
