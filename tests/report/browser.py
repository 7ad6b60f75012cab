"""A headless Chromium driven over the WebDriver protocol, which is JSON over HTTP."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.needs import absent

__all__ = ["Browser", "open_browser"]

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--disable-dev-shm-usage",
]
WHERE = "return [document.URL, document.readyState]"


class Browser:
    """One browser window."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._visits = 0

    def _send(self, method: str, path: str, data: dict[str, Any] | None = None) -> Any:
        body = None if data is None else json.dumps(data).encode()
        request = urllib.request.Request(
            self._address + path, body, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {json.load(error)['value']['message']}") from None

    def go(self, file: Path) -> None:
        """Open a page and wait until scripts run in it, not in the page before.

        Right after a navigation the driver may still be bound to the page before: each visit therefore has
        an address of its own, and the page itself says that it is there and complete.
        """
        self._visits += 1
        self.open(f"{file.resolve().as_uri()}?visit={self._visits}")

    def open(self, address: str, lands: str | None = None) -> None:
        """Open an address and wait until its page is there; `lands` is where a redirect leads."""
        self._send("POST", "/url", {"url": address})
        self.until(WHERE, [lands or address, "complete"])

    def until(self, script: str, wanted: Any, patience: float = 120.0) -> None:
        """Wait until a function body returns what is wanted in the page."""
        deadline = time.monotonic() + patience
        while (there := self.run(script)) != wanted:
            assert time.monotonic() < deadline, f"the browser shows {there}, not {wanted}"
            time.sleep(0.05)

    def run(self, script: str, *args: Any) -> Any:
        """The value that a function body returns in the page."""
        return self._send("POST", "/execute/sync", {"script": script, "args": list(args)})

    def barriers(self) -> list[str]:
        """What bars people with a keyboard, a screen reader or tired eyes from the page."""
        return self.run(Path(__file__).with_name("barriers.js").read_text())

    def errors(self) -> list[str]:
        """What the console holds of errors, refused scripts and requests included."""
        entries = self._send("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]

    def screenshot(self, path: Path) -> None:
        # Right after a navigation the driver may still be bound to the page before, and says so: ask again.
        for attempt in range(10):
            try:
                path.write_bytes(base64.b64decode(self._send("GET", "/screenshot")))
                return
            except AssertionError as error:
                if attempt == 9 or "Not attached to an active page" not in str(error):
                    raise
                time.sleep(0.2)


@contextmanager
def open_browser(width: int = 1300, height: int = 2400) -> Iterator[Browser]:
    """A browser window, or a skip with the reason; a failure where everything is required."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        absent("chromium and chromedriver are not installed (Debian: chromium, chromium-driver)")
    process = subprocess.Popen(
        [driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        port = next(
            m[1] for line in process.stdout if (m := re.search(r"started successfully on port (\d+)", line))
        )
        with tempfile.TemporaryDirectory() as profile:
            options = {
                "binary": chromium,
                "args": [*FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"],
            }
            wanted = {"alwaysMatch": {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}
            root = Browser(f"http://127.0.0.1:{port}")
            session = root._send("POST", "/session", {"capabilities": wanted})["sessionId"]
            try:
                yield Browser(f"http://127.0.0.1:{port}/session/{session}")
            finally:
                root._send("DELETE", f"/session/{session}")
    finally:
        process.terminate()
        process.wait(30)
