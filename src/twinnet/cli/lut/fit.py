"""`twinnet lut fit|search`: tables fitted to images without a network, and patterns found for them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["VERBS"]

_Experiment = Annotated[
    Path, typer.Option("-e", "--exp-dir", metavar="DIR", help="Folder of the experiment.")
]
_Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Print nothing but results and errors.")]


def fit(exp_dir: _Experiment, quiet: _Quiet = False) -> None:
    """Fit tables to the images of an experiment by least squares, without training a network.

    What is fitted stands in [fit] of its config.toml: a preset (tiny, small, default, best) or stages of your own.
    """
    from twinnet.restore.fit import fit as run

    done = run(exp_dir, quiet=quiet)
    result = done.result
    typer.echo(
        f"fitted    {result.nbytes:,} bytes of int8, {result.lookups} lookups per pixel, in {done.seconds:.0f} s "
        f"({done.cpu:.0f} s of CPU)\n"
        f"held out  {done.psnr:.2f} dB as deployed; without tables {done.plain:.2f} dB\n"
        f"written   {done.path}\nnext      twinnet lut eval -e {exp_dir}"
    )


VERBS = {"fit": fit}
