"""`twinnet compare`: compare two recordings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from twinnet.cli import options as o
from twinnet.cli._groups import grouped

__all__ = ["command"]


@grouped
def command(
    first: Annotated[
        Path,
        typer.Argument(
            metavar="DIR_A", help="The reference: a recording, or arrays (.npy, .npz, .safetensors)."
        ),
    ],
    second: Annotated[
        Path,
        typer.Argument(metavar="DIR_B", help="The twin: a recording, or arrays (.npy, .npz, .safetensors)."),
    ],
    *,
    network: Annotated[
        str | None,
        typer.Option(
            "--network", metavar="NETWORK", help="What DIR_A was recorded from; its layers judge every site."
        ),
    ] = None,
    names: Annotated[
        str | None,
        typer.Option(
            "--names",
            metavar="FILE",
            help="Map from tensors of A to those of B (.json, .toml, or lines a = b).",
        ),
    ] = None,
    names_out: o.NamesOut = None,
    unmatched: Annotated[bool, typer.Option("--unmatched", help="List sites without a partner.")] = False,
    trust: o.Trust = False,
    stated: o.Stated,
    out: o.Out = None,
    answer: o.Answer,
) -> None:
    """Compare two recordings made by `twinnet record`, or files of arrays.

    With --network every site is judged by the born test; without it the outputs are judged by the size of the
    difference.
    """
    from twinnet.check import run_folder
    from twinnet.checking.compare import compare
    from twinnet.cli._screen import command_line, written_if_refused
    from twinnet.progress import progress

    folder = run_folder(first.name, second.name) if out is None else out
    with written_if_refused(str(first), str(second), out), progress(quiet=answer.silent) as report:
        result = compare(
            first,
            second,
            network=network,
            names=names,
            names_out=names_out,
            out=folder,
            argv=command_line(),
            tolerance=stated.tolerances(),
            progress=report,
        )
    answer.give(result, unmatched=unmatched)
    answer.leave(result)
