"""`twinnet lut fit|search`: tables fitted to images without a network, and patterns found for them."""

from __future__ import annotations

from typing import Annotated

import typer

from twinnet.cli._screen import say
from twinnet.cli.lut._options import Experiment, Quiet

__all__ = ["VERBS"]


def fit(exp_dir: Experiment, quiet: Quiet = False) -> None:
    """Fit tables to the images of an experiment by least squares, without training a network.

    [fit] in its config.toml says what to fit: a preset (tiny, small, default, best) or your own stages.
    """
    from twinnet.restore.fit import fit as run

    done = run(exp_dir, quiet=quiet)
    result = done.result
    say(
        f"fitted    {result.nbytes:,} bytes of int8, {result.lookups} lookups per pixel, in {done.seconds:.0f} s "
        f"({done.cpu:.0f} s of CPU)\n"
        f"held out  {done.psnr:.2f} dB as deployed; without tables {done.plain:.2f} dB\n"
        f"written   {done.path}\nnext      twinnet lut eval -e {exp_dir}"
    )


def search(
    exp_dir: Experiment,
    stage: Annotated[
        int,
        typer.Option(min=1, help="Which stage of [fit] to find patterns for; those before it are fitted."),
    ] = 1,
    tables: Annotated[int, typer.Option(min=1, help="How many patterns to find.")] = 3,
    among: Annotated[int, typer.Option(min=1, help="How many candidates to look at.")] = 150,
    window: Annotated[int, typer.Option(min=1, max=8, help="How far away taps may be.")] = 3,
    share: Annotated[float, typer.Option(min=0.001, max=1.0, help="Share of the images to use.")] = 0.2,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    quiet: Quiet = False,
) -> None:
    """Find sampling patterns for a stage, one table after the other, and print them for the config."""
    from twinnet.restore.fit.run import search as run
    from twinnet.restore.fit.search import Pool

    found = run(exp_dir, stage, tables, pool=Pool(among, window, seed), share=share, quiet=quiet)
    for number, choice in enumerate(found, start=1):
        taps = [list(tap[:2] if not any(t[2] for t in choice.taps) else tap) for tap in choice.taps]
        say(f"{number:>2}  error {choice.error:.4f}  {taps}")


VERBS = {"fit": fit, "search": search}
