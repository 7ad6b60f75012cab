"""The prompt of `twinnet attach`: lines in, answers out, over the same HTTP as curl."""

from __future__ import annotations

import codeop
import getpass
import os
import shlex
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from twinnet.errors import EngineError, UsageError
from twinnet.files import parse_json
from twinnet.report.quoting import screen

__all__ = ["Client", "attach", "complete", "unfinished"]

_HISTORY = Path("twinnet") / "attach-history"


@dataclass(frozen=True)
class Client:
    """A connection to a running debugger."""

    url: str
    token: str
    ca: str | None = None

    def ask(self, text: str, timeout: float | None = None) -> dict[str, Any]:
        """Send a command; returns the answer as `ok`, `text` and `data`."""
        request = urllib.request.Request(
            self.url, text.encode(), {"X-Token": self.token, "Accept": "application/json"}, method="POST"
        )
        handlers: list[Any] = [urllib.request.ProxyHandler({})]  # this machine needs no proxy
        if self.url.startswith("https:"):
            try:
                handlers.append(
                    urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=self.ca))
                )
            except (OSError, ssl.SSLError) as error:
                raise UsageError(f"{self.ca} is not a certificate: {error}") from None
        try:
            with urllib.request.build_opener(*handlers).open(request, timeout=timeout) as response:
                return parse_json(response.read())
        except urllib.error.HTTPError as error:
            body = error.read().decode("utf-8", "replace")
            if error.headers.get_content_type() == "application/json":
                with suppress(ValueError):
                    return parse_json(body)
            first = body.partition("\n")[0]
            if error.code == 401:
                raise UsageError(
                    f"{self.url} does not accept this token", hint="the token is new on every start"
                ) from None
            return {"ok": False, "text": first, "data": None}
        except urllib.error.URLError as error:
            raise EngineError(
                f"{self.url} does not answer: {error.reason}", hint="is it still running?"
            ) from None
        except (OSError, ValueError) as error:
            raise EngineError(f"{self.url} does not answer like a debugger: {error}") from None


def _client(place: str, token: str | None, ca: str | None) -> Client:
    """Connect to the debugger at an address, or to the one that wrote this file."""
    if Path(place).is_file():
        found = dict(part.split("=", 1) for part in _words(Path(place)) if "=" in part)
        if "URL" not in found or "T" not in found:
            raise UsageError(f"{place} was not written by a debugger", hint="give its address, http://...")
        return Client(found["URL"], token or found["T"], ca)
    if ":" not in place and Path(place).suffix:
        raise UsageError(
            f"no such file: {place}", hint="give the file that the debugger wrote, or its address"
        )
    url = place if "://" in place else f"http://{place}"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(
            f"{place} is neither an address nor a file", hint="for example http://127.0.0.1:8765"
        )
    if not token:
        if not sys.stdin.isatty():
            raise UsageError("no token", hint="set TWINNET_TOKEN, or name the file that the debugger wrote")
        token = getpass.getpass("token: ")
    return Client(f"{parts.scheme}://{parts.netloc}/", token, ca)


def _words(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        return [word for line in lines for word in shlex.split(line, comments=True)]
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None


def attach(place: str, token: str | None = None, commands: Sequence[str] = (), ca: str | None = None) -> int:
    """Run `commands`, or what the user types; returns 1 if the last answer was an error."""
    client = _client(place, token, ca)
    if commands:
        return _print(*(client.ask(text) for text in commands))
    if not sys.stdin.isatty():
        return _piped(client)
    return _interactive(client)


def _print(*answers: dict[str, Any]) -> int:
    ok = True
    for answer in answers:
        ok = bool(answer.get("ok"))
        if answer.get("text"):
            print(screen(answer["text"]), flush=True)
    return 0 if ok else 1


def unfinished(text: str) -> bool:
    """Whether Python needs more lines to complete this text.

    >>> unfinished("for i in range(3):"), unfinished("cmp('x')"), unfinished("p ("), unfinished("w")
    (True, False, True, False)
    """
    body = text.removeprefix("pp ").removeprefix("p ").removeprefix("!")
    try:
        return codeop.compile_command(body) is None
    except (SyntaxError, ValueError, OverflowError):
        return False


def _piped(client: Client) -> int:
    """Run the lines of a script; a block ends with an empty line or with the input."""
    code, pending = 0, ""
    for line in [*sys.stdin.read().splitlines(), ""]:
        pending = f"{pending}\n{line}" if pending else line
        if not pending.strip() or (line and unfinished(pending)):
            continue
        code = _print(client.ask(pending))
        if pending.strip() in ("quit", "q"):
            break
        pending = ""
    return code


def _interactive(client: Client) -> int:
    names = _names(client)
    history = _prepare_readline(names)
    print(f"attached to {client.url}: {len(names)} names to complete, `help` lists commands, Ctrl-D leaves")
    code, pending = 0, ""
    try:
        while True:
            try:
                line = input("... " if pending else "(twin) ")
            except KeyboardInterrupt:
                print()
                pending = ""
                continue
            except EOFError:
                print()
                return code
            pending = f"{pending}\n{line}" if pending else line
            if not pending.strip():
                pending = ""
                continue
            if line and unfinished(pending):
                continue
            code = _print(client.ask(pending))
            if pending.strip() in ("quit", "q"):
                return code
            pending = ""
    finally:
        _keep(history)


def _names(client: Client) -> list[str]:
    commands = (client.ask("help", 60).get("data") or {}).get("commands", [])
    sites = (client.ask("sites()", 60).get("data") or {}).get("sites", [])
    return [*commands, "inputs", "help", "quit", *(site["site"] for site in sites)]


def complete(text: str, names: Sequence[str]) -> list[str]:
    """Names that start with the typed text; a leading dot is kept.

    >>> complete(".stage1.in", ["stage1", "stage1.in_c0", "sites"])
    ['.stage1.in_c0']
    """
    dot = "." if text.startswith(".") else ""
    return [dot + name for name in names if name.startswith(text[len(dot) :])]


def _prepare_readline(names: Sequence[str]) -> Path | None:
    try:
        import readline
    except ImportError:  # not on every system; typing works without
        return None
    # Site names hold dots, dashes and slashes: only brackets, quotes, commas and spaces end one.
    readline.set_completer_delims(" \t\n\"'(),=[]")

    def completer(text: str, state: int) -> str | None:
        found = complete(text, names)
        return found[state] if state < len(found) else None

    readline.set_completer(completer)
    readline.parse_and_bind("tab: complete")
    home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / _HISTORY
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        if home.is_file():
            readline.read_history_file(home)
    except OSError:  # work without a history that cannot be read
        return None
    return home


def _keep(history: Path | None) -> None:
    if history is None:
        return
    import contextlib
    import readline

    readline.set_history_length(2000)
    with contextlib.suppress(OSError):
        readline.write_history_file(history)
        history.chmod(0o600)
