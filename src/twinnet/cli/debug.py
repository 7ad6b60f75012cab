"""`twinnet debug`: run network and twin, stop, and serve both over HTTP."""

from __future__ import annotations

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
    twin: Annotated[
        str, typer.Option("--twin", "-t", metavar="SPEC", help="What to compare with. See `twinnet engines`.")
    ] = "onnxruntime",
    running: o.Running,
    door: o.Door,
    out: o.Out = None,
    quiet: o.Quiet = False,
) -> None:
    """Run network and twin with full traces, then stop and serve both over HTTP until `quit`.

    With several samples, the most telling one is kept. Prints a curl command with the token.

    Example: twinnet debug model.py:build --twin onnxruntime:model.onnx --inputs photo.png
    """
    from twinnet.check import run_folder
    from twinnet.progress import progress

    folder = run_folder(network, running.named(twin)) if out is None else out
    settings = door.settings(folder)
    from twinnet.debugger.entry import serve_stopped
    from twinnet.debugger.start import stop_at_check

    with progress(quiet=quiet) as report:
        options = running.options(progress=report)
        stopped = stop_at_check(network, running.inputs, twin, folder=folder, options=options)
    if not quiet:
        say(repr(stopped.result))
        say("")
    # Flush, for programs that read our output line by line.
    serve_stopped(stopped, settings, say=lambda text: print(text, flush=True))
