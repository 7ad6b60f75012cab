"""`twinnet record`: run one side and record its tensors."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from twinnet.cli import options as o
from twinnet.cli._groups import grouped
from twinnet.cli._screen import say

__all__ = ["command"]


@grouped
def command(
    network: o.Network,
    *,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="Folder to write the recording to.")
    ],
    running: o.Running,
    level: o.Level = "intermediates",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
) -> None:
    """Run one side and write its tensors to a folder, to be compared elsewhere.

    Example: twinnet record model.onnx --as onnxruntime --out here/, then twinnet compare reference/ here/
    """
    from twinnet.checking.record import record_with
    from twinnet.progress import progress
    from twinnet.report.figures import count

    with progress(quiet=quiet) as report:
        made = record_with(running.options(level=level, progress=report), network, running.inputs, out)
    if quiet:
        return
    size = sum(f.stat().st_size for f in made.folder.rglob("*") if f.is_file())
    say(
        f"recorded {len(made.sites)} sites of {made.side.name} ({made.side.engine} {made.side.version}), "
        f"{count(len(made.samples), 'sample')}, {size / 1e6:.1f} MB in {made.folder}"
    )
    say(f"next     twinnet compare {shlex.quote(str(made.folder))} OTHER_RECORDING")
