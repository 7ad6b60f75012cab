"""Settings of the server."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from twinnet.dashboard.archive import Limits
from twinnet.debugger.settings import is_loopback
from twinnet.errors import UsageError

__all__ = ["Keep", "Settings"]


@dataclass(frozen=True, slots=True)
class Keep:
    """How long what is kept, in days; None is for ever. Pinned sessions and the newest of each branch always stay."""

    sessions: float | None = None
    files: float | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the server listens, and what it takes.

    It listens on this machine only. Another `host` needs a certificate, a proxy that has one (`behind_proxy`), or
    `insecure`. `names` are the host names by which browsers may call it.

    >>> Settings(host="0.0.0.0").check()
    Traceback (most recent call last):
    twinnet.errors.UsageError: 0.0.0.0 can be reached from other machines, and tokens would travel in clear text
      give --tls-cert and --tls-key, --behind-proxy with a proxy that has them, or --insecure
    """

    host: str = "127.0.0.1"
    port: int = 8080
    names: tuple[str, ...] = ()
    tls_cert: Path | None = None
    tls_key: Path | None = None
    behind_proxy: bool = False
    insecure: bool = False
    limits: Limits = field(default_factory=Limits)
    keep: Keep = field(default_factory=Keep)

    def check(self) -> None:
        """Raise UsageError for unsafe or invalid settings."""
        safe = is_loopback(self.host) or self.tls_cert is not None or self.behind_proxy or self.insecure
        if not safe:
            raise UsageError(
                f"{self.host} can be reached from other machines, and tokens would travel in clear text",
                hint="give --tls-cert and --tls-key, --behind-proxy with a proxy that has them, or --insecure",
            )
        if (self.tls_key is None) != (self.tls_cert is None):
            raise UsageError("--tls-cert and --tls-key go together")
        for file in (self.tls_cert, self.tls_key):
            if file is not None and not file.is_file():
                raise UsageError(f"no such file: {file}")
        if not 0 <= self.port < 1 << 16:
            raise UsageError(f"{self.port} is not a valid port", hint="0 (any) to 65535")

    @property
    def scheme(self) -> str:
        """http, or https if browsers see it that way."""
        return "https" if self.tls_cert is not None or self.behind_proxy else "http"
