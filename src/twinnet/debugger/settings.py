"""Settings of the debugger's server: address, port, certificate, limits."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path

from twinnet.errors import UsageError

__all__ = ["FIRST_PORT", "Settings", "is_loopback"]

FIRST_PORT = 8765
"""The first port to try if none is given."""


def is_loopback(host: str) -> bool:
    """Whether an address can be reached only from this machine.

    >>> [is_loopback(h) for h in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "gpu3")]
    [True, True, True, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Settings:
    """Where and how the debugger listens.

    The debugger evaluates code, so it listens on this machine only; another `host` needs a certificate (`tls_cert`,
    `tls_key`) or `insecure`. `port` None is the first free one from 8765. `info` is the file that gets
    address and token, `folder` where commands write. `time_limit` is in seconds of one command, `body_limit` in bytes.

    >>> Settings(host="0.0.0.0").check()
    Traceback (most recent call last):
    twinnet.errors.UsageError: 0.0.0.0 can be reached from other machines, and the debugger evaluates code
      give --tls-cert and --tls-key, tunnel the port through ssh, or use --insecure
    """

    host: str = "127.0.0.1"
    port: int | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    insecure: bool = False
    read_only: bool = False
    info: Path | None = None
    folder: Path = Path("runs") / "debugger"
    time_limit: float = 300.0
    body_limit: int = 1 << 20

    @property
    def tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.tls_cert is not None

    def check(self) -> None:
        """Raise UsageError for unsafe or invalid settings, before anything has run."""
        if not is_loopback(self.host) and not self.tls and not self.insecure:
            raise UsageError(
                f"{self.host} can be reached from other machines, and the debugger evaluates code",
                hint="give --tls-cert and --tls-key, tunnel the port through ssh, or use --insecure",
            )
        if self.tls_key is not None and self.tls_cert is None:
            raise UsageError("--tls-key without --tls-cert", hint="give both, or neither")
        for file in (self.tls_cert, self.tls_key):
            if file is not None and not file.is_file():
                raise UsageError(f"no such file: {file}")
        if self.port is not None and not 0 <= self.port < 1 << 16:
            raise UsageError(f"{self.port} is not a valid port", hint="0 (any) to 65535")
        if self.time_limit <= 0 or self.body_limit <= 0:
            raise UsageError("limits of time and size must be greater than 0")

    @classmethod
    def from_environment(cls) -> Settings:
        """The defaults, with the port of TWINNET_DEBUG_PORT if that is set."""
        text = os.environ.get("TWINNET_DEBUG_PORT", "")
        if not text:
            return cls()
        if not text.isascii() or not text.isdecimal():
            raise UsageError(f"TWINNET_DEBUG_PORT={text} is not a valid port")
        return cls(port=int(text))
