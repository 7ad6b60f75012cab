"""Who may do what: tokens and their scopes, cookies, other sites, other names."""

from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.dashboard.bundles import bundle, case
from tests.dashboard.places import Running, running
from twinnet.dashboard.settings import Settings
from twinnet.errors import UsageError


def make(dashboard: Running, name: str, scope: str) -> str:
    return dashboard.service.tokens.add(name, scope)  # pyright: ignore[reportOptionalMemberAccess]


def test_scopes(dashboard: Running) -> None:
    read, upload = make(dashboard, "reader", "read"), make(dashboard, "ci", "upload")
    sent = bundle("scopes", [case("net")])
    post = {"method": "POST", "data": sent, "content_type": "application/zip"}
    assert dashboard.ask("/api/v1/bundles", token=None, **post)[0] == 401
    assert dashboard.ask("/api/v1/bundles", token="tw_wrong", **post)[0] == 401
    assert dashboard.ask("/api/v1/bundles", token=read, **post)[0] == 403
    assert dashboard.ask("/api/v1/bundles", token=upload, **post)[0] == 201
    for token, status in ((None, 401), (read, 200), (upload, 200)):
        assert dashboard.ask("/api/v1/sessions", token=token)[0] == status
    for token in (read, upload):
        assert dashboard.ask("/api/v1/tokens", token=token)[0] == 403
        assert dashboard.ask("/api/v1/sessions/1", method="DELETE", token=token)[0] == 403
    assert dashboard.ask("/health", token=None)[0] == 200
    dashboard.service.tokens.revoke("ci")  # pyright: ignore[reportOptionalMemberAccess]
    assert dashboard.ask("/api/v1/sessions", token=upload)[0] == 401


def test_pages_ask_for_a_token_first(dashboard: Running) -> None:
    for path in (
        "/",
        "/sessions/1",
        "/cases/1",
        "/cases/1/files/a",
        "/models",
        "/trends",
        "/compare",
        "/api",
    ):
        status, _, headers = dashboard.ask(path, token=None)
        assert status == 303 and headers["location"].startswith("/enter?next="), path
    cookie = enter(dashboard, make(dashboard, "browser", "read"))
    assert dashboard.ask("/", token=None, cookie=cookie)[0] == 200
    # The API takes no cookies: no other site can use them.
    assert dashboard.ask("/api/v1/sessions", token=None, cookie=cookie)[0] == 401
    assert dashboard.ask("/leave", method="POST", data=b"", token=None, cookie=cookie)[0] == 303
    assert dashboard.ask("/", token=None, cookie=cookie)[0] == 303


def enter(dashboard: Running, token: str) -> str:
    form = urlencode({"token": token, "next": "//evil.example"}).encode()
    status, _, headers = dashboard.ask("/enter", method="POST", data=form, token=None)
    assert (status, headers["location"]) == (303, "/")
    assert "HttpOnly" in headers["set-cookie"] and "samesite=strict" in headers["set-cookie"].lower()
    return headers["set-cookie"].partition(";")[0]


def test_a_ticket_opens_once(dashboard: Running) -> None:
    ticket = dashboard.service.tokens.ticket()  # pyright: ignore[reportOptionalMemberAccess]
    status, _, headers = dashboard.ask(f"/enter?ticket={ticket}", token=None)
    assert status == 303 and headers["location"] == "/"
    cookie = headers["set-cookie"].partition(";")[0]
    assert dashboard.ask("/", token=None, cookie=cookie)[0] == 200
    status, body, _ = dashboard.ask(f"/enter?ticket={ticket}", token=None)
    assert status == 200 and b"used before" in body


def test_a_wrong_token_is_told(dashboard: Running) -> None:
    status, body, _ = dashboard.ask("/enter", method="POST", data=b"token=guess", token=None)
    assert status == 403 and b"not known" in body
    assert dashboard.ask("/enter", method="POST", data=b"a" * 9000, token=None)[0] == 413


def test_other_sites_and_other_names_are_refused(dashboard: Running) -> None:
    form = b"token=x"
    assert (
        dashboard.ask("/enter", method="POST", data=form, token=None, origin="https://evil.example")[0] == 403
    )
    assert dashboard.ask("/leave", method="POST", data=b"", token=None, origin="null")[0] == 403
    assert dashboard.ask("/health", token=None, host="rebound.example")[0] == 403
    assert dashboard.ask("/health", token=None, host="localhost:1234")[0] == 200


def test_every_answer_has_the_headers(dashboard: Running) -> None:
    for path in ("/", "/enter", "/nothing", "/api/v1/sessions", "/static/look.css"):
        headers = dashboard.ask(path)[2]
        assert headers["x-content-type-options"] == "nosniff", path
        assert "default-src 'none'" in headers["content-security-policy"], path
        assert headers["x-frame-options"] == "DENY", path


def test_tokens_are_stored_as_digests(tmp_path: Path) -> None:
    with running(f"sqlite:///{tmp_path}/a.db", tmp_path / "files") as dashboard:
        cookie = enter(dashboard, dashboard.token).partition("=")[2]
        with sqlite3.connect(tmp_path / "a.db") as database:
            stored = "\n".join(database.iterdump())
        database.close()
    assert dashboard.token not in stored and cookie not in stored
    assert hashlib.sha256(dashboard.token.encode()).hexdigest() in stored


def test_tokens_over_the_api(dashboard: Running) -> None:
    status, body, _ = dashboard.ask(
        "/api/v1/tokens", method="POST", data=b'{"name": "robot", "scope": "read"}', content_type="application/json"
    )  # fmt: skip
    assert status == 201 and b"tw_" in body
    again = dashboard.ask(
        "/api/v1/tokens", method="POST", data=b'{"name": "robot", "scope": "read"}', content_type="application/json"
    )  # fmt: skip
    assert again[0] == 409
    listed = dashboard.json("/tokens")["items"]
    assert "robot" in [t["name"] for t in listed] and all("tw_" not in str(t) for t in listed)
    assert dashboard.ask("/api/v1/tokens/robot", method="DELETE")[0] == 204
    assert dashboard.ask("/api/v1/tokens/robot", method="DELETE")[0] == 404


@pytest.mark.parametrize(
    "settings", [Settings("0.0.0.0"), Settings(port=70000), Settings(tls_cert=Path("a"))]
)
def test_unsafe_settings_are_refused(settings: Settings) -> None:
    with pytest.raises(UsageError):
        settings.check()
