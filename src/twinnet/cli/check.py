"""`twinnet check`: compare a network with its twin."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from twinnet.cli import options as o
from twinnet.cli._groups import grouped

__all__ = ["command"]


@grouped
def command(
    network: o.Network,
    *,
    twin: Annotated[
        str,
        o.twins("What to compare with: ENGINE[?key=value&...][:FILE], or a file. See `twinnet engines`."),
    ] = "onnxruntime",
    running: o.Running,
    level: o.Level = "intermediates",
    watch: Annotated[
        list[str] | None,
        typer.Option(
            "--watch",
            metavar="PATTERN",
            help="Compare only inner sites whose tensor, module or op matches; may be repeated.",
        ),
    ] = None,
    skip: Annotated[
        list[str] | None,
        typer.Option("--skip", metavar="PATTERN", help="Leave out inner sites that match; may be repeated."),
    ] = None,
    stated: o.Stated,
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            metavar="FILE.py:FN",
            help="Your own score of the outputs, printed beside the verdict.",
        ),
    ] = None,
    names: Annotated[
        str | None,
        typer.Option(
            "--names",
            metavar="FILE",
            help="Map from tensors of the network to those of the twin (.json, .toml, or lines a = b).",
        ),
    ] = None,
    names_out: o.NamesOut = None,
    baseline: o.Baseline = None,
    stages: Annotated[
        bool,
        typer.Option(
            "--stages",
            help="Follow the network through export, ONNX, optimisation and quantisation to the engine, and name the "
            "stage where the difference enters.",
        ),
    ] = False,
    stage: Annotated[
        list[str] | None,
        typer.Option(
            "--stage",
            metavar="NAME=FILE",
            help="With --stages: the file your pipeline wrote for onnx, optimised or quantised.",
        ),
    ] = None,
    unmatched: Annotated[bool, typer.Option("--unmatched", help="List sites without a partner.")] = False,
    keep: Annotated[
        Literal["worst", "all", "none"],
        typer.Option("--keep", metavar="worst|all|none", help="Tensors to keep in the run folder."),
    ] = "worst",
    debug_ir: Annotated[
        str | None,
        typer.Option(
            "--debug-ir",
            metavar="DIR",
            help="Folder for the intermediate representation of engines that compile.",
        ),
    ] = None,
    profile: Annotated[
        bool,
        typer.Option(
            "--profile",
            help="Also measure each twin, and end with a table: verdict, error, time, memory, size.",
        ),
    ] = False,
    advise: Annotated[
        bool,
        typer.Option("--advise", help="Find out which segments to keep in float, by trying."),
    ] = False,
    advise_target: Annotated[
        float | None, typer.Option("--advise-target", metavar="DB", help="Target SNR in dB.")
    ] = None,
    advise_out: Annotated[
        str | None,
        typer.Option(
            "--advise-out", metavar="FILE.onnx", help="Write the twin with those segments in float."
        ),
    ] = None,
    repro: Annotated[
        bool,
        typer.Option(
            "--repro", help="After FAIL or ERROR, also write the repro, as `twinnet repro RUN` would."
        ),
    ] = False,
    out: o.Out = None,
    bundle: Annotated[
        Path | None,
        typer.Option("--bundle", metavar="FILE.zip", help="Also write the run as one file."),
    ] = None,
    answer: o.Answer,
) -> None:
    """Compare a network with its twin, site by site, and judge the difference against the noise floor.

    Example: twinnet check model.py:build --twin onnxruntime --inputs photos/
    """
    from twinnet.check import check_with, run_folder
    from twinnet.checking.options import Advise
    from twinnet.cli._screen import command_line, upload_run, write_repro, written_if_refused
    from twinnet.name_map import read_name_map
    from twinnet.progress import progress

    staged = stages or bool(stage)
    folder = run_folder(network, running.named(twin)) if out is None else out
    if staged and out is None:
        folder = f"{folder}-stages"
    asked = advise or advise_target is not None or advise_out is not None
    with written_if_refused(network, twin, out), progress(quiet=answer.silent) as report:
        options = running.options(
            watch=tuple(watch or ()),
            skip=tuple(skip or ()),
            level=level,
            tolerance=stated.tolerances(),
            metric=metric,
            baseline=baseline,
            names=read_name_map(names) if names else None,
            names_out=names_out,
            keep=keep,
            debug_ir=debug_ir,
            profile=profile,
            advise=Advise(advise_target, advise_out) if asked else None,
            progress=report,
        )
        if staged:
            from twinnet.stages import Route, read_stage_files, stages_with

            route = Route(network, running.inputs, twin, read_stage_files(stage or ()))
            result = stages_with(options, route, out=folder, argv=command_line())
        else:
            result = check_with(options, network, running.inputs, twin, out=folder, argv=command_line())
    answer.give(result, unmatched=unmatched)
    if repro and result.verdict != "PASS":
        write_repro(result, silent=answer.silent)
    if bundle is not None:
        from twinnet.report.bundle import bundle_results

        bundle_results(bundle, result)
    upload_run(folder, silent=answer.silent)
    answer.leave(result)
