"""To a dashboard: sessions, case by case while they run, and bundles later; nothing unless TWINNET_SERVER is set."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

__all__ = ["offer_run"]


def _tell(said: str) -> None:
    from twinnet.report.figures import clean

    print(*map(clean, said.splitlines()), sep="\n", file=sys.stderr)


def offer_run(
    folder: str | Path, *, profile: bool = False, tell: Callable[[str], None] | None = _tell
) -> None:
    """Send a run folder to the dashboard of TWINNET_SERVER, if there is one, and tell the address of its page.

    That the dashboard is away is only told: the folder can be sent later.

    >>> offer_run("run")  # sends nothing: no server is named
    """
    if not os.environ.get("TWINNET_SERVER"):
        return
    from twinnet.errors import TwinnetError
    from twinnet.upload.client import server
    from twinnet.upload.folders import send_run

    try:
        to = server()
        said = f"uploaded {send_run(to, Path(folder), profile=profile)}" if to is not None else ""
    except TwinnetError as error:
        said = f"not uploaded: {error}\n  send it later with   twinnet upload {folder}"
    if said and tell is not None:
        tell(said)
