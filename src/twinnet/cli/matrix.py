"""`twinnet matrix`: one network under every setting of an engine."""

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
        str,
        o.twins(
            "Engines whose settings are compared: litert (kernels, quantisations), onnxruntime (optimisation "
            "levels) and others. Options given in a spec stay fixed."
        ),
    ] = "litert",
    running: o.Running,
    level: o.Level = "intermediates",
    stated: o.Stated,
    out: o.Out = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
) -> None:
    """Check a network under every setting of an engine, beside how far a different input would move its output.

    Example: twinnet matrix model.py:build --twin litert
    """
    from twinnet.check import run_folder
    from twinnet.cli._screen import command_line
    from twinnet.matrix import matrix_with
    from twinnet.progress import progress

    folder = run_folder(network, f"{twin}-matrix") if out is None else out
    with progress(quiet=as_json) as report:
        options = running.options(level=level, tolerance=stated.tolerances(), progress=report)
        made, results = matrix_with(options, network, running.inputs, twin, out=folder, argv=command_line())
    say(made.to_json() if as_json else f"{made.table()}\n\nruns     {folder}")
    raise typer.Exit(results.exit_code)
