"""Addresses of boards: `ssh://[user@]host[:port][/folder][?key=value&key=value]`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

from twinnet.errors import UsageError

__all__ = ["FORM", "Address", "read_address"]

FORM = "ssh://[user@]host[:port][/folder][?python=PATH&lease=SECONDS&wait=SECONDS&store=MEGABYTES]"

_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_HOST = re.compile(r"[A-Za-z0-9_:][A-Za-z0-9_.:%-]*")
_PATH = re.compile(r"[^\x00-\x1f\x7f]+")


@dataclass(frozen=True, slots=True)
class Address:
    """A board, and how it is used.

    `folder` is where it keeps what twinnet copies, by default in the home directory; `python` is its interpreter.
    A lease lasts `lease` seconds unless it is renewed, and a board in use is waited for at most `wait` seconds. The
    files it keeps between runs take at most `store` megabytes.
    """

    text: str
    host: str
    user: str = ""
    port: int | None = None
    folder: str = ""
    python: str = "python3"
    lease: int = 60
    wait: int = 600
    store: int = 2000

    @property
    def login(self) -> str:
        """What a person types after `ssh` to get there."""
        port = "" if self.port is None else f"-p {self.port} "
        return port + (f"{self.user}@{self.host}" if self.user else self.host)


def read_address(text: str) -> Address:
    """Read an address; host may be a name from the user's ssh configuration.

    >>> read_address("ssh://pi@board:2222/data/twinnet?python=/opt/venv/bin/python").login
    '-p 2222 pi@board'
    >>> read_address("ssh://-oProxyCommand=x")
    Traceback (most recent call last):
    ...
    twinnet.errors.UsageError: 'ssh://-oProxyCommand=x' is not the address of a board: it has no host
      ssh://[user@]host[:port][/folder][?python=PATH&lease=SECONDS&wait=SECONDS&store=MEGABYTES]
    """

    def wrong(why: str) -> UsageError:
        return UsageError(f"{text!r} is not the address of a board: {why}", hint=FORM)

    try:
        parts = urlsplit(text)
        port = parts.port
        given = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError as error:
        raise wrong(str(error)) from None
    if parts.scheme != "ssh":
        raise wrong("it does not start with ssh://")
    named = parts.netloc.rpartition("@")
    host = re.sub(r":\d*$", "", named[2]) if not named[2].startswith("[") else parts.hostname or ""
    if not _HOST.fullmatch(host):
        raise wrong("it has no host")
    if named[1] and not _WORD.fullmatch(named[0]):
        raise wrong("a user is letters, digits, '_', '.' and '-', and a password has no place here")
    if parts.fragment:
        raise wrong("'#' has no meaning")
    folder = unquote(parts.path).rstrip("/")
    if folder and (not _PATH.fullmatch(folder) or ".." in folder.split("/")):
        raise wrong("the folder is not a path")
    settings = dict(given)
    if len(settings) < len(given) or set(settings) - {"python", "lease", "wait", "store"}:
        raise wrong("its settings are python, lease, wait and store, each at most once")
    python = settings.pop("python", "python3")
    if not _PATH.fullmatch(python) or python.startswith("-"):
        raise wrong("python is the path of an interpreter")
    numbers: dict[str, int] = {}
    for key, value in settings.items():
        least, most = {"lease": (2, 86400), "wait": (0, 604800), "store": (1, 1 << 30)}[key]
        if not re.fullmatch(r"\d{1,10}", value) or not least <= int(value) <= most:
            raise wrong(f"{key} is a number from {least} to {most}")
        numbers[key] = int(value)
    return Address(text, host, named[0], port, folder, python, **numbers)
