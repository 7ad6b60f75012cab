"""`twinnet ladder`: find the cut of a network at which its twin breaks."""

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
        o.twins("Engines to convert every rung for: ENGINE[?key=value&...]. See `twinnet engines`."),
    ] = "onnxruntime",
    running: o.Running,
    at: Annotated[
        list[str] | None,
        typer.Option(
            "--at",
            metavar="PATTERN",
            help="Cut after modules (or nodes) whose name matches; may be repeated. Default: stages, then the "
            "modules in them.",
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            "--size",
            metavar="WORD[,WORD...]",
            help="Call the factory with each of these words, and climb the networks it returns.",
        ),
    ] = None,
    until_bad: Annotated[
        bool,
        typer.Option("--until-bad", help="Climb from the bottom, and stop at the first rung that breaks."),
    ] = False,
    every: Annotated[
        bool, typer.Option("--every", help="Check every rung, and every block alone, even after one breaks.")
    ] = False,
    level: o.Level = "intermediates",
    stated: o.Stated,
    out: o.Out = None,
    quiet: o.Quiet = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print ladder.json instead of the table.")] = False,
) -> None:
    """Convert and check larger and larger parts of a network; find the first that breaks, and the block to blame.

    The bad rung is found by bisection. An interrupted climb is resumed from its folder.

    Example: twinnet ladder model.py:build --twin iree
    """
    from twinnet.check import run_folder
    from twinnet.cli._screen import command_line
    from twinnet.errors import UsageError
    from twinnet.ladder import Course, ladder_with
    from twinnet.progress import progress
    from twinnet.report.ladder import conclusion, dump_ladder, head_line, row_line

    if until_bad and every:
        raise UsageError("--until-bad and --every cannot be combined")
    folder = run_folder(network, f"{twin}-ladder") if out is None else out
    shown = not quiet and not as_json
    last = ""

    def tell(spec: str, rung: object) -> None:
        nonlocal last
        if shown and spec != last:
            say(f"{spec}\n{head_line()}")
        last = spec
        if shown:
            say(row_line(rung))  # pyright: ignore[reportArgumentType]

    with progress(quiet=quiet or as_json) as report:
        made = ladder_with(
            running.options(level=level, tolerance=stated.tolerances(), progress=report),
            Course(
                network,
                running.inputs,
                twin,
                at=at or (),
                sizes=size.split(",") if size else (),
                way="every" if every else "up" if until_bad else "halves",
            ),
            out=folder,
            argv=command_line(),
            tell=tell,
        )
    if as_json:
        say(dump_ladder(made))
    elif quiet:
        say(made.verdict)
    else:
        for climb in made.climbs:
            say("\n" + "\n".join(f"{label:<8} {text}" for label, text in conclusion(climb)))
        say(f"report   {made.folder}/report.html")
    raise typer.Exit(made.exit_code)
