"""`twinnet compare`: compare two recordings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from twinnet.cli import options as o

__all__ = ["command"]


def command(
    first: Annotated[
        Path, typer.Argument(metavar="DIR_A", help="The reference: a recording, or a folder of .npy/.npz.")
    ],
    second: Annotated[Path, typer.Argument(metavar="DIR_B", help="The twin: likewise.")],
    network: Annotated[
        str | None,
        typer.Option(
            "--network", metavar="NETWORK", help="What DIR_A was recorded from; its layers judge every site."
        ),
    ] = None,
    names: Annotated[
        str | None,
        typer.Option(
            "--names", metavar="FILE", help="Which tensor of B is which of A (.json, .toml, or lines a = b)."
        ),
    ] = None,
    rtol: o.Rtol = None,
    atol: o.Atol = None,
    ulp: o.Ulp = None,
    snr: o.Snr = None,
    psnr: o.Psnr = None,
    cosine: o.Cosine = None,
    tolerance: o.ToleranceFile = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="A PASS on data that could not show a fault exits with 1.")
    ] = False,
    out: o.Out = None,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
    as_json: o.Json = False,
) -> None:
    """Compare two recordings made by `twinnet record`, or folders of .npy/.npz files.

    With --network every site is judged by the born test; without it the outputs are judged by the size of the
    difference.
    """
    from twinnet.check import run_folder
    from twinnet.cli._screen import answer, command_line, exit_code, progress
    from twinnet.recording import compare

    folder = run_folder(first.name, second.name) if out is None else out
    with progress(quiet=quiet or as_json) as report:
        result = compare(
            first,
            second,
            network=network,
            names=names,
            out=folder,
            command=command_line(),
            rtol=rtol,
            atol=atol,
            ulp=ulp,
            snr=snr,
            psnr=psnr,
            cosine=cosine,
            tolerance_file=tolerance,
            progress=report,
        )
    answer(result, quiet=quiet, verbose=verbose, as_json=as_json)
    raise typer.Exit(exit_code(result, strict=strict))
