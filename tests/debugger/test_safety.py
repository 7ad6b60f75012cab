"""Every rule of the door, and an attempt to break it."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.debugger.running import PATIENCE, Debugger, thread
from tests.needs import absent
from twinnet.debugger.attach import Client
from twinnet.debugger.settings import Settings
from twinnet.errors import EngineError, UsageError


@pytest.fixture
def debugger(tmp_path: Path) -> Iterator[Debugger]:
    with thread(folder=tmp_path) as found:
        yield found


# -- the address -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "gpu3.example.org"])
def test_other_machines_are_let_in_only_on_purpose(host: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="can be reached from other machines"):
        Settings(host=host).check()
    Settings(host=host, insecure=True).check()


def test_the_command_refuses_an_open_address_before_it_runs_anything(tmp_path: Path) -> None:
    words = ["debug", "no-such-network.py:build", "--host", "0.0.0.0"]
    done = subprocess.run(
        [sys.executable, "-m", "twinnet.cli.main", *words], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 2
    assert "--insecure" in done.stderr
    assert "no-such-network" not in done.stderr


def test_it_listens_on_this_machine_alone(debugger: Debugger) -> None:
    with socket.create_connection(("127.0.0.1", debugger.port), timeout=PATIENCE):
        pass
    try:
        rows = socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)
    except socket.gaierror:  # a machine that does not know its own name: only loopback is left to ask
        rows = []
    for address in ({str(row[4][0]) for row in rows} | {"127.0.0.2"}) - {"127.0.0.1"}:
        with pytest.raises(OSError):
            socket.create_connection((address, debugger.port), timeout=PATIENCE)


def test_the_first_free_port_from_8765_is_taken(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", 8765))
            taken.listen()
        except OSError:
            pass  # somebody else holds it, which is as good
        from twinnet.debugger.desk import Desk
        from twinnet.debugger.server import Server

        server = Server(Settings(), Desk(lambda text: None, 1.0))  # type: ignore[arg-type, return-value]
        try:
            assert 8765 < server.server_port < 8965
        finally:
            server.server_close()


def test_with_tls_nothing_is_said_in_clear(tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        absent("openssl is not installed (Debian: openssl)")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout", str(key), "-out", str(cert)],
        check=True, capture_output=True, timeout=PATIENCE,
    )  # fmt: skip
    settings = Settings(host="0.0.0.0", tls_cert=cert, tls_key=key)
    with thread(folder=tmp_path, settings=settings) as debugger:
        context = ssl.create_default_context(cafile=str(cert))
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        url = f"https://127.0.0.1:{debugger.port}/"

        def ask(text: bytes) -> bytes:
            request = urllib.request.Request(url, text, {"X-Token": debugger.token}, method="POST")
            with opener.open(request, timeout=PATIENCE) as response:
                return response.read()

        assert ask(b"6 * 7") == b"42\n"
        assert Client(url, debugger.token, str(cert)).ask("6 * 7")["text"] == "42"
        with pytest.raises(EngineError, match="certificate"):
            Client(url, debugger.token).ask("6 * 7")
        with socket.create_connection(("127.0.0.1", debugger.port), timeout=PATIENCE) as bare:
            bare.sendall(b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Token: x\r\nContent-Length: 1\r\n\r\n1")
            try:
                said = bare.recv(1000)
            except ConnectionError:
                said = b""
            assert b"HTTP" not in said
        # The harness speaks no TLS: end it here.
        assert ask(b"quit") == b"the program continues\n"


# -- the token -------------------------------------------------------------------------------------------


def test_without_the_token_nothing_runs_and_the_right_line_is_shown(debugger: Debugger) -> None:
    for headers in ({}, {"X-Token": ""}, {"X-Token": debugger.token[:-1]}, {"X-Token": "tök\xe9n"}):
        encoded = {k: v.encode("latin-1").decode("latin-1") for k, v in headers.items()}
        answered = debugger.send("POST", "/", b"leak = 1", encoded)
        assert answered.status == 401
        assert "curl --noproxy '*' -H \"X-Token: $T\"" in answered.text
        assert f"127.0.0.1:{debugger.port}" in answered.text
        assert debugger.token not in answered.text
    assert debugger.send("GET", "/", headers={}).status == 401
    assert debugger.send("GET", "/app.js", headers={}).status == 401
    assert "NameError" in debugger.ask("leak").text


def test_the_pasted_line_works(debugger: Debugger) -> None:
    """The 401 leads there: read the file with a dot, paste the line."""
    shown = debugger.send("POST", "/", b"x").text.splitlines()
    script = f"{shown[2].rpartition('read it with   ')[2]}\n{shown[1].replace('help', '6 * 7')}"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout == "42\n", done.stderr


def test_every_start_has_another_token(tmp_path: Path) -> None:
    tokens = set()
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        with thread(folder=folder) as one:
            tokens.add(one.token)
            assert len(one.token) >= 43
    assert len(tokens) == 3


def test_the_file_with_the_token_is_for_its_owner_and_goes_with_the_debugger(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with thread(folder=tmp_path) as debugger:
            assert stat.S_IMODE(debugger.info.stat().st_mode) == 0o600
            text = debugger.info.read_text()
            assert debugger.token in text
            assert f"PORT={debugger.port}" in text
            assert f"curl --noproxy '*' -H \"X-Token: {debugger.token}\" 127.0.0.1:{debugger.port}" in text
    finally:
        os.umask(before)
    assert not debugger.info.exists()


def test_the_token_is_never_logged(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with thread(folder=tmp_path) as debugger:
        debugger.ask("1 + 1")
        debugger.send("GET", f"/?token={debugger.token}")
        debugger.send("GET", f"/nowhere?token={debugger.token}", headers={"X-Token": debugger.token})
        debugger.send("BREW", f"/?token={debugger.token}", headers={"X-Token": debugger.token})
        with socket.create_connection(("127.0.0.1", debugger.port), timeout=PATIENCE) as bare:
            bare.sendall(f"nonsense {debugger.token}\r\n\r\n".encode())
            bare.recv(1000)
    said = capfd.readouterr()
    assert debugger.token not in said.out + said.err


# -- the page's cookie -----------------------------------------------------------------------------------


def test_a_token_in_the_address_opens_the_page_once_and_leaves_a_guarded_cookie(debugger: Debugger) -> None:
    first = debugger.send("GET", f"/?token={debugger.token}")
    assert (first.status, first.headers["location"]) == (303, "/")
    cookie = first.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=Strict"} <= set(cookie.split("; "))
    assert debugger.token not in cookie
    name = cookie.partition(";")[0]
    page = debugger.send("GET", "/", headers={"Cookie": name})
    assert page.status == 200
    assert "<title>twinnet debugger</title>" in page.text
    # Who finds the address later (a history, a proxy's log) gets nothing.
    assert debugger.send("GET", f"/?token={debugger.token}").status == 401
    assert debugger.send("GET", "/", headers={"Cookie": name.replace("=", "=x")}).status == 401
    again = debugger.text("link")
    assert debugger.send("GET", again.removeprefix(debugger.url)).status == 303
    assert debugger.send("GET", again.removeprefix(debugger.url)).status == 401


def test_a_token_in_the_address_runs_no_command(debugger: Debugger) -> None:
    assert debugger.send("POST", f"/?token={debugger.token}", b"leak = 1").status == 401
    assert debugger.send("GET", f"/app.js?token={debugger.token}").status == 401
    assert "NameError" in debugger.ask("leak").text


def test_the_link_of_the_page_is_no_token_for_commands(debugger: Debugger) -> None:
    ticket = debugger.banner.partition("?token=")[2].split()[0]
    assert ticket != debugger.token
    assert debugger.send("POST", "/", b"1", {"X-Token": ticket}).status == 401
    assert debugger.send("GET", f"/?token={ticket}").status == 303


# -- rebinding and other pages ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8765", "localhost.evil.example", "", "127.0.0.1.nip.io"]
)
def test_a_name_pointed_at_this_machine_is_refused(debugger: Debugger, host: str) -> None:
    headers = {"X-Token": debugger.token, "Host": host}
    assert debugger.send("POST", "/", b"1", headers).status == 403
    assert debugger.send("GET", f"/?token={debugger.token}", headers={"Host": host}).status == 403
    # The link was not used up by the attempt.
    assert debugger.send("GET", f"/?token={debugger.token}").status == 303


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:9000", "127.0.0.1:9000", "[::1]:8765", "LOCALHOST:1"]
)
def test_this_machine_may_be_called_through_a_tunnel(debugger: Debugger, host: str) -> None:
    assert debugger.send("POST", "/", b"1", {"X-Token": debugger.token, "Host": host}).status == 200


def test_other_pages_are_refused_even_with_the_cookie(debugger: Debugger) -> None:
    cookie = debugger.send("GET", f"/?token={debugger.token}").headers["set-cookie"].partition(";")[0]
    host = f"127.0.0.1:{debugger.port}"
    own = f"http://{host}"
    for origin in (
        "http://evil.example",
        f"https://{host}",
        "http://127.0.0.1:1",
        "null",
        own + ".evil.example",
    ):
        headers = {"Cookie": cookie, "Origin": origin, "Host": host}
        assert debugger.send("POST", "/", b"leak = 1", headers).status == 403
        assert debugger.send("POST", "/", b"leak = 1", {**headers, "X-Token": debugger.token}).status == 403
    # A form of another page may come without an origin: the cookie alone is not enough.
    assert debugger.send("POST", "/", b"leak = 1", {"Cookie": cookie, "Host": host}).status == 403
    assert "NameError" in debugger.ask("leak").text
    answered = debugger.send("POST", "/", b"6 * 7", {"Cookie": cookie, "Origin": own, "Host": host})
    assert answered.text == "42\n"


def test_the_page_runs_no_script_but_its_own(debugger: Debugger) -> None:
    page = debugger.send("GET", "/", headers={"X-Token": debugger.token})
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert "//" not in page.text.replace("<!doctype", ""), "nothing may come from elsewhere"


# -- reading only ----------------------------------------------------------------------------------------


EVIL = [
    "1 + 1",
    "leak = 1",
    "__import__('os').getpid()",
    "p 1",
    "pp 1",
    "!1",
    "patch('conv.out', 0)",
    "swap('conv.out')",
    "rerun()",
    "save('conv.out')",
    "repro()",
    "cmp('conv.out', size=__import__('os').getpid())",
    "cmp(trace['conv.out'], trace['conv.out'])",
    "cmp.__globals__",
    "(lambda: 1)()",
    "cmp(*[1])",
    "cmp(**{})",
    "[cmp for _ in 'x']",
    "cmp('conv.out')\nleak = 1",
    "sites(",
]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Debugger]:
    with thread(folder=tmp_path_factory.mktemp("reader"), settings=Settings(read_only=True)) as found:
        yield found


@pytest.mark.parametrize("text", EVIL)
def test_read_only_evaluates_and_changes_nothing(reader: Debugger, text: str) -> None:
    answered = reader.ask(text)
    assert answered.status == 400
    assert "read-only" in answered.text
    assert not list(reader.info.parent.glob("*.safetensors"))


def test_read_only_still_looks(reader: Debugger) -> None:
    assert "max 3 at [0, 1, 4, 5]" in reader.text("cmp('conv.out', size=2)")
    for text in ("worst", "sites('*', by='error')", "show('head')", "help", "w", "l", "png('conv.out')"):
        assert reader.text(text)
    assert reader.ask("png('conv.out')", "image/png").body.startswith(b"\x89PNG")
    assert "patch(" not in reader.text("help")


# -- limits ----------------------------------------------------------------------------------------------


def test_a_large_body_is_refused_before_it_is_read(debugger: Debugger) -> None:
    with socket.create_connection(("127.0.0.1", debugger.port), timeout=PATIENCE) as bare:
        head = f"POST / HTTP/1.1\r\nHost: localhost\r\nX-Token: {debugger.token}\r\nContent-Length: 10000000000\r\n\r\n"
        bare.sendall(head.encode())
        assert b" 413 " in bare.recv(1000)
    for headers in ({"Content-Length": "-1"}, {"Content-Length": "x"}, {"Transfer-Encoding": "chunked"}):
        answered = debugger.send("POST", "/", b"", {"X-Token": debugger.token, **headers})
        assert answered.status == 411
    assert debugger.text("1") == "1"


def test_a_command_that_does_not_end_is_ended(tmp_path: Path) -> None:
    with thread(folder=tmp_path, settings=Settings(time_limit=0.5)) as debugger:
        endless = "count = 0\nwhile True:\n    try:\n        count += 1\n    except Exception:\n        pass"
        answered = debugger.ask(endless)
        assert answered.status == 400
        assert "longer than 0.5 s" in answered.text
        assert int(debugger.text("count")) > 0


def test_a_command_that_cannot_be_ended_keeps_others_waiting_only_so_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twinnet.debugger.desk._GRACE", 0.1)
    with thread(folder=tmp_path, settings=Settings(time_limit=0.2)) as debugger:
        # Inside a system call no exception arrives; a pipe that this test holds ends it.
        read, write = os.pipe()
        answered = debugger.ask(f"import os; os.read({read}, 1)")
        assert answered.status == 503
        assert debugger.ask("1").status == 503
        os.write(write, b"x")
        while (answered := debugger.ask("6 * 7")).status == 503:
            pass
        assert answered.text == "42\n"
        os.close(read)
        os.close(write)


def test_a_client_that_says_nothing_keeps_nobody_waiting(debugger: Debugger) -> None:
    silent = [socket.create_connection(("127.0.0.1", debugger.port), timeout=PATIENCE) for _ in range(8)]
    silent[0].sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n")
    try:
        assert debugger.text("6 * 7") == "42"
    finally:
        for one in silent:
            one.close()
