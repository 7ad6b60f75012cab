"""Access control: token, cookie, and allowed host names."""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
import socket
import threading
from http.cookies import CookieError, SimpleCookie

from twinnet.debugger.settings import Settings, is_loopback

__all__ = ["Doorkeeper"]


class Doorkeeper:
    """The secrets of one start, and the checks of a request.

    >>> keeper = Doorkeeper(Settings())
    >>> keeper.knows(keeper.token), keeper.knows("guess"), keeper.knows("")
    (True, False, False)
    >>> keeper.host_allowed("localhost:8765"), keeper.host_allowed("rebound.example:8765")
    (True, False)
    """

    def __init__(self, settings: Settings) -> None:
        self.token = secrets.token_urlsafe(32)
        self._cookie = secrets.token_urlsafe(32)
        self._tickets = {self.token}
        self._lock = threading.Lock()
        self._names = {"localhost"}
        self._scheme = "https" if settings.tls else "http"
        if not is_loopback(settings.host):
            self._names |= {settings.host.lower(), socket.gethostname().lower(), socket.getfqdn().lower()}

    # -- secrets -------------------------------------------------------------------------------------------------

    def knows(self, token: str) -> bool:
        """Whether this is the current token; compared in constant time."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())

    def admit(self, ticket: str) -> bool:
        """Whether a token in a URL opens the page. Each works once, since URLs end up in histories and logs."""
        with self._lock:
            for known in list(self._tickets):
                if hmac.compare_digest(ticket.encode("utf-8", "replace"), known.encode()):
                    self._tickets.remove(known)
                    return True
        return False

    def ticket(self) -> str:
        """Make another token that opens the page once, and does nothing else."""
        fresh = secrets.token_urlsafe(32)
        with self._lock:
            self._tickets.add(fresh)
        return fresh

    def cookie_name(self, port: int) -> str:
        """The cookie's name, with the port in it: browsers keep cookies by host, not by port."""
        return f"twinnet-debugger-{port}"

    def cookie(self, port: int) -> str:
        """The Set-Cookie header for a browser that has shown a token."""
        secure = "; Secure" if self._scheme == "https" else ""
        return f"{self.cookie_name(port)}={self._cookie}; HttpOnly; SameSite=Strict; Path=/{secure}"

    def knows_cookie(self, header: str, port: int) -> bool:
        """Whether a Cookie header has our cookie."""
        try:
            found = SimpleCookie(header).get(self.cookie_name(port))
        except CookieError:
            return False
        return found is not None and hmac.compare_digest(
            found.value.encode("utf-8", "replace"), self._cookie.encode()
        )

    # -- names ---------------------------------------------------------------------------------------------------

    def host_allowed(self, host: str) -> bool:
        """Whether a Host header names this machine.

        Another site can point its own name at this address, but it cannot change the Host header its browser sends.
        Numeric addresses cannot be redirected that way. The port may be that of a tunnel.
        """
        name = _bare(host)
        if name is None or name in self._names:
            return name is not None
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def origin_allowed(self, origin: str | None, host: str, *, required: bool) -> bool:
        """Whether a request comes from our own page, or, if not `required`, from no page at all."""
        if origin is None:
            return not required
        return origin.lower() == f"{self._scheme}://{host.lower()}"


_HOST = re.compile(r"(?:\[(?P<v6>[0-9a-f:.]+)\]|(?P<name>[\w.-]+))(?::(?P<port>[0-9]{1,5}))?", re.ASCII)


def _bare(host: str) -> str | None:
    """A Host header without its port; None if it is anything else than a name or an address, and a port.

    >>> _bare("LocalHost:8765"), _bare("[::1]:80"), _bare("[::1].example"), _bare("localhost:80:x")
    ('localhost', '::1', None, None)
    """
    found = _HOST.fullmatch(host.lower())
    if found is None or int(found["port"] or 0) > 65535:
        return None
    return found["v6"] or found["name"]
