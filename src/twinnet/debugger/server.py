"""The HTTP server: checks access, passes requests to the stopped thread, sends answers in the requested form."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from twinnet.debugger.answer import Answer
from twinnet.debugger.console import Reply
from twinnet.debugger.desk import Desk
from twinnet.debugger.page import asset
from twinnet.debugger.safety import Doorkeeper
from twinnet.debugger.settings import FIRST_PORT, Settings, is_loopback
from twinnet.errors import EngineError, UsageError
from twinnet.report.json_file import plain

__all__ = ["Server"]

_TRIES = 200
_CONNECTIONS = 64
_STRANGERS = 64
"""Connections that have not shown a token; a further one ends the oldest."""
_IDLE = 30.0
_FAREWELL = 10.0
_SECURITY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Server(ThreadingHTTPServer):
    """Listens on its own thread and passes requests to a desk."""

    daemon_threads = True
    request_queue_size = 128
    # Windows would let two servers share a port; elsewhere this only shortens the wait after a restart.
    allow_reuse_address = sys.platform != "win32"

    def __init__(self, settings: Settings, desk: Desk) -> None:
        self.settings = settings
        self.desk = desk
        self.keeper = Doorkeeper(settings)
        self.hint = ""
        self._room = threading.BoundedSemaphore(_CONNECTIONS)
        self._strangers: dict[Any, None] = {}
        self._admitted: set[Any] = set()
        self._lock = threading.Lock()
        self._answering = 0
        self._answered = threading.Condition()
        self.address_family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        self._bind_first_free()
        if settings.tls:
            self.socket = _encrypted(self.socket, settings)
        self._thread = threading.Thread(
            target=self.serve_forever, args=(0.05,), name="twinnet-debugger", daemon=True
        )

    def _bind_first_free(self) -> None:
        wanted = self.settings.port
        ports = [wanted] if wanted is not None else range(FIRST_PORT, FIRST_PORT + _TRIES)
        failure = OSError("no port was tried")
        for port in ports:
            try:
                super().__init__((self.settings.host, port), Handler)
                return
            except OSError as error:
                failure = error
            except OverflowError:
                raise UsageError(f"{port} is not a valid port") from None
        where = str(wanted) if wanted is not None else f"{FIRST_PORT} to {FIRST_PORT + _TRIES - 1}"
        raise EngineError(
            f"cannot listen on {self.settings.host}, port {where}: {failure.strerror or failure}",
            hint="name another one with --port, or 0 for any",
        )

    def server_bind(self) -> None:
        # The parent asks the name service for the machine's name, which can take seconds.
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = self.settings.host, self.server_address[1]

    @property
    def address(self) -> str:
        """Host and port as curl takes them."""
        host = self.settings.host
        host = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)
        return f"[{host}]:{self.server_port}" if ":" in host else f"{host}:{self.server_port}"

    @property
    def url(self) -> str:
        """The address with its scheme."""
        return f"{'https' if self.settings.tls else 'http'}://{self.address}"

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def close(self) -> None:
        """Stop listening, after all pending answers are sent."""
        self.shutdown()
        self.server_close()
        self._thread.join(_FAREWELL)
        with self._answered:
            self._answered.wait_for(lambda: self._answering == 0, _FAREWELL)

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Mark a request as being answered, so that `close` waits for it."""
        with self._answered:
            self._answering += 1
        try:
            yield
        finally:
            with self._answered:
                self._answering -= 1
                self._answered.notify_all()

    def curl(self, token: str, command: str) -> str:
        """A curl command to paste."""
        place = self.url if self.settings.tls else self.address
        return f'curl --noproxy \'*\' -H "X-Token: {token}" {place} --data "{command}"'

    # -- connections ---------------------------------------------------------------------------------------------

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._strangers[request] = None
            oldest = next(iter(self._strangers)) if len(self._strangers) > _STRANGERS else None
            self._strangers.pop(oldest, None)
        if oldest is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(oldest, socket.SHUT_RDWR)  # its thread reads the end, and ends
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._strangers.pop(request, None)
                if request in self._admitted:
                    self._admitted.remove(request)
                    self._room.release()

    def admit(self, request: Any) -> bool:
        """Give a connection that has shown its token one of the places; False if all are taken."""
        with self._lock:
            if request not in self._admitted and self._room.acquire(blocking=False):
                self._admitted.add(request)
                self._strangers.pop(request, None)
            return request in self._admitted

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect or do not speak HTTP."""


def _encrypted(plain_socket: socket.socket, settings: Settings) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    assert settings.tls_cert is not None
    try:
        context.load_cert_chain(settings.tls_cert, settings.tls_key)
    except (ssl.SSLError, OSError) as error:
        raise UsageError(f"{settings.tls_cert} is not a usable certificate: {error}") from None
    # The handshake happens in the connection's own thread, so a stalled client blocks no one else.
    return context.wrap_socket(plain_socket, server_side=True, do_handshake_on_connect=False)


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Server  # pyright: ignore[reportIncompatibleVariableOverride]
    protocol_version = "HTTP/1.1"
    server_version = "twinnet"
    sys_version = ""
    timeout = _IDLE
    # Head and body leave together and at once: apart, the second would wait for a delayed acknowledgement.
    wbufsize = -1
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: URLs may contain a token."""

    def handle_expect_100(self) -> bool:
        """Answer `Expect: 100-continue` at once (curl sends it before a long body)."""
        said = super().handle_expect_100()
        self.wfile.flush()
        return said

    # -- the two ways in -----------------------------------------------------------------------------------------

    def do_GET(self) -> None:
        """Serve the page and its files."""
        with self.server.answering():
            self._get()
            self.wfile.flush()

    def do_POST(self) -> None:
        """Run a command."""
        with self.server.answering():
            self._post()
            self.wfile.flush()

    def _get(self) -> None:
        if not self._called_rightly(changes=False):
            return
        parts = urlsplit(self.path)
        port = self.server.server_port
        tokens = parse_qs(parts.query).get("token", [])
        if tokens and parts.path == "/":
            if self._cookie() or self._header() or self.server.keeper.admit(tokens[0]):
                # Redirect away from the URL with the token, which would stay in the browser's history.
                self._send(
                    303, b"", "text/plain", {"Location": "/", "Set-Cookie": self.server.keeper.cookie(port)}
                )
            else:
                self._refuse(401, "this link is invalid or was already used")
            return
        if not self._known():
            return
        found = asset(parts.path)
        if found is None:
            self._refuse(404, f"not found: {parts.path}; send commands with POST to /")
            return
        body, kind = found
        self._send(200, body, kind)

    def _post(self) -> None:
        header = self._header()
        if not self._called_rightly(changes=not header):
            return
        if not self._known():
            return
        if urlsplit(self.path).path != "/":
            self._refuse(404, "send commands with POST to /")
            return
        body = self._body()
        if body is None:
            return
        try:
            text = body.decode("utf-8")
        except UnicodeDecodeError:
            self._refuse(400, "the command is not UTF-8")
            return
        self._reply(text)

    def _reply(self, text: str) -> None:
        form = _form(self.headers.get("Accept", ""))
        made: dict[str, bytes] = {}
        if text.strip() in ("link", "link()"):
            link = f"{self.server.url}/?token={self.server.keeper.ticket()}"
            reply: Reply | None = Reply(True, Answer(link, {"link": link}))
        else:
            # Pictures and data are made in the stopped thread, so that no one changes the tensors meanwhile.
            reply = self.server.desk.submit(text, lambda r: _prepared(r, form, made))
        if reply is None:
            limit = self.server.settings.time_limit
            self._refuse(
                503, f"no answer within {limit:g} s: this command, or one before it, is still running"
            )
            return
        status = 200 if reply.ok else 400
        if form == "image/png" and reply.ok:
            if "png" not in made:
                self._refuse(406, "this answer has no picture; png(site) and show(site) have one")
            else:
                self._send(200, made["png"], "image/png")
        elif form == "application/json":
            data = json.dumps({"ok": reply.ok, "text": reply.answer.text, "data": plain(reply.answer.data)})
            self._send(status, data.encode(), "application/json")
        else:
            text = reply.answer.text
            self._send(
                status, f"{text}\n".encode("utf-8", "replace") if text else b"", "text/plain; charset=utf-8"
            )

    # -- checks --------------------------------------------------------------------------------------------------

    def _called_rightly(self, *, changes: bool) -> bool:
        """Check host and origin. A request authorised only by a cookie must state its origin."""
        host = self.headers.get("Host", "")
        if any(len(self.headers.get_all(name, ())) > 1 for name in ("Host", "Content-Length", "Origin")):
            self._refuse(400, "a header is given twice")
            return False
        if "Transfer-Encoding" in self.headers:
            self._refuse(411, "send the command with its length, in one piece")
            return False
        if not self.server.keeper.host_allowed(host):
            self._refuse(403, "this machine does not have that name")
            return False
        vouched = changes and self._cookie()
        if not self.server.keeper.origin_allowed(self.headers.get("Origin"), host, required=vouched):
            self._refuse(403, "requests from other pages are refused")
            return False
        return True

    def _known(self) -> bool:
        """Whether the request has a token, and the connection a place; refused if not."""
        if not (self._cookie() or self._header()):
            self._refuse(401, "a token is needed")
            return False
        if not self.server.admit(self.request):
            self._refuse(503, f"all {_CONNECTIONS} connections are in use")
            return False
        return True

    def _header(self) -> bool:
        return self.server.keeper.knows(self.headers.get("X-Token", ""))

    def _cookie(self) -> bool:
        return self.server.keeper.knows_cookie(self.headers.get("Cookie", ""), self.server.server_port)

    def _body(self) -> bytes | None:
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdecimal():
            self._refuse(411, "the length of the command is missing")
            return None
        if len(length) > 12 or int(length) > self.server.settings.body_limit:
            self._refuse(413, f"a command may have at most {self.server.settings.body_limit} bytes")
            return None
        body = self.rfile.read(int(length))
        return body if len(body) == int(length) else None

    def _refuse(self, status: int, why: str) -> None:
        lines = [why]
        if status == 401:
            lines += [self.server.curl("$T", "help")]
            if self.server.hint and is_loopback(str(self.client_address[0])):
                lines.append(self.server.hint)
        # The rest of the request is unread, so the connection cannot be used again.
        self.close_connection = True
        self._send(
            status, ("\n".join(lines) + "\n").encode(), "text/plain; charset=utf-8", {"Connection": "close"}
        )

    def _send(self, status: int, body: bytes, kind: str, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**_SECURITY, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _form(accept: str) -> str:
    """The MIME type to answer with: the first acceptable one that we have, else text.

    >>> _form("application/json"), _form("*/*"), _form("image/avif, image/png;q=0.8")
    ('application/json', 'text/plain', 'image/png')
    """
    for part in accept.split(","):
        kind = part.partition(";")[0].strip().lower()
        if kind in ("application/json", "image/png", "text/plain"):
            return kind
    return "text/plain"


def _prepared(reply: Reply, form: str, made: dict[str, bytes]) -> Reply:
    if form == "image/png" and reply.ok and reply.answer.picture is not None:
        made["png"] = reply.answer.picture()
    if form == "application/json":
        return Reply(reply.ok, Answer(reply.answer.text, plain(reply.answer.data)))
    return reply
