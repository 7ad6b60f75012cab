"""The body of an upload: streamed to a file of limited size, then taken in on another thread."""

from __future__ import annotations

from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from twinnet.dashboard.archive import BadBundle
from twinnet.dashboard.desk import Desk
from twinnet.dashboard.intake import Taken, take_in
from twinnet.scratch import scratch_folder

__all__ = ["TooMuch", "drained", "receive_bundle"]


_DRAINED = 64 << 20


class TooMuch(BadBundle):
    """The body is longer than it may be."""


async def receive_bundle(request: Any, desk: Desk) -> Taken:
    """Take in the bundle that a request sends. Nothing of it stays if the connection ends early."""
    most = desk.settings.limits.body
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > most:
        await drained(request)
        raise TooMuch(f"the bundle is larger than {most} bytes")
    with scratch_folder("upload") as folder, (folder / "bundle.zip").open("wb") as file:
        size = 0
        try:
            async for piece in request.stream():
                size += len(piece)
                if size > most:
                    await drained(request)
                    raise TooMuch(f"the bundle is larger than {most} bytes")
                file.write(piece)
        except ClientDisconnect:
            raise BadBundle("the connection ended before the bundle did") from None
        file.flush()
        async with desk.intakes:
            return await run_in_threadpool(
                take_in, desk.database, desk.store, folder / "bundle.zip", desk.settings.limits
            )


async def drained(request: Any) -> None:
    """Read some more of a body that is refused: a client that is still sending would not hear the answer."""
    left = _DRAINED
    try:
        async for piece in request.stream():
            left -= len(piece)
            if left < 0:
                return
    except (ClientDisconnect, RuntimeError):  # it has gone, or the body is being read already
        return
