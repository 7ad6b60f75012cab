"""`save`, `png`, `repro`: write tensors, pictures and repros."""

from __future__ import annotations

import re
from pathlib import Path

from twinnet.debugger.answer import Answer
from twinnet.debugger.commands.registry import command
from twinnet.debugger.picture import picture
from twinnet.debugger.stopped import Stopped
from twinnet.errors import UsageError
from twinnet.files import atomic_write
from twinnet.store import write_tensors

__all__ = ["png", "repro", "save"]


def _file(stopped: Stopped, name: str, suffix: str) -> Path:
    return stopped.folder / (re.sub(r"[^\w.-]+", "-", name).strip("-.") + suffix)


@command(changes=True)
def save(stopped: Stopped, site: str, path: str | None = None) -> Answer:
    """Write both tensors of a site to a .safetensors file ("network" and "twin"), or their heat maps to a .png."""
    row = stopped.row(site)
    ours, theirs = stopped.both(row)
    target = Path(path) if path else _file(stopped, row.site.tensor, ".safetensors")
    if target.suffix == ".png":
        atomic_write(target, picture(*stopped.same_shape(row)))
        return Answer(f"saved    {target}", {"path": str(target)})
    if target.suffix != ".safetensors":
        raise UsageError(f"{target} is neither a .safetensors nor a .png file")
    write_tensors(target, {"network": ours, "twin": theirs}, {"site": row.site.tensor})
    return Answer(f"saved    {target}", {"path": str(target)})


@command()
def png(stopped: Stopped, site: str) -> Answer:
    """Heat maps of network, twin and difference side by side; request them with `Accept: image/png`.

    The worst plane of the tensor; both sides on one colour scale, the difference logarithmic over four decades.
    """
    row = stopped.row(site)
    ours, theirs = stopped.same_shape(row)
    if not ours.size:
        raise UsageError(f"{row.site.tensor} is empty")
    hint = f"use -H 'Accept: image/png' -o FILE.png, or save('{row.site.tensor}', 'FILE.png') on that machine"
    return Answer(f"{row.site.tensor}: {hint}", {"site": row.site.tensor}, lambda: picture(ours, theirs))


@command(changes=True)
def repro(stopped: Stopped, path: str | None = None, finding: int = 1) -> Answer:
    """Write the smallest network and input that still show a finding, and one file that runs them."""
    if stopped.result is None:
        raise UsageError("these traces come without a network: no repro can be made from them")
    from twinnet.shrink.make import repro as make

    made = make(stopped.result, Path(path) if path else stopped.folder / "repro", finding=finding - 1)
    return Answer(str(made), {"folder": str(made.folder), "confirmed": made.confirmed, "kind": made.kind})
