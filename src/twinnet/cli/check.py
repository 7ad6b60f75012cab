"""`twinnet check`: compare a network with its twin."""

from __future__ import annotations

from typing import Annotated

import typer

from twinnet.cli import options as o

__all__ = ["command"]


def command(
    network: o.Network,
    twin: Annotated[
        str,
        typer.Option(
            "--twin",
            "-t",
            metavar="SPEC[,SPEC...]",
            help="What to compare with: ENGINE[?key=value&...][:FILE], or a file. See `twinnet engines`.",
        ),
    ] = "onnxruntime",
    inputs: o.Inputs = None,
    shape: o.Shape = None,
    preprocess: o.Preprocess = None,
    samples: o.Samples = None,
    seed: o.Seed = 0,
    as_spec: o.AsSpec = None,
    level: o.Level = "intermediates",
    watch: o.Watch = None,
    skip: o.Skip = None,
    threads: o.Threads = None,
    max_memory: o.MaxMemory = None,
    time_limit: o.TimeLimit = None,
    rtol: o.Rtol = None,
    atol: o.Atol = None,
    ulp: o.Ulp = None,
    snr: o.Snr = None,
    psnr: o.Psnr = None,
    cosine: o.Cosine = None,
    tolerance: o.ToleranceFile = None,
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
            help="Which tensor of the twin is which of the network (.json, .toml, or lines a = b).",
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option("--baseline", metavar="RUN", help="Fail only on what this earlier run did not show."),
    ] = None,
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
    strict: Annotated[
        bool, typer.Option("--strict", help="A PASS on data that could not show a fault exits with 1.")
    ] = False,
    unmatched: Annotated[bool, typer.Option("--unmatched", help="List sites without a partner.")] = False,
    keep: Annotated[
        str, typer.Option("--keep", metavar="worst|all|none", help="Tensors to keep in the run folder.")
    ] = "worst",
    debug_ir: Annotated[
        str | None,
        typer.Option(
            "--debug-ir",
            metavar="DIR",
            help="Where compiling engines write their intermediate representation, a folder for each case.",
        ),
    ] = None,
    advise: Annotated[
        bool, typer.Option("--advise", help="Say which segments to keep in float, tried by running.")
    ] = False,
    advise_target: Annotated[
        float | None, typer.Option("--advise-target", metavar="DB", help="The SNR that is enough.")
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
            "--repro", help="After FAIL or ERROR also write the repro, as `twinnet repro RUN` would."
        ),
    ] = False,
    out: o.Out = None,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
    as_json: o.Json = False,
) -> None:
    """Compare a network with its twin, site by site, and judge the difference against the noise floor.

    Example: twinnet check model.py:build --twin onnxruntime --inputs photos/
    """
    from twinnet.check import check, run_folder
    from twinnet.cli._screen import answer, command_line, exit_code, progress, write_repro
    from twinnet.errors import UsageError
    from twinnet.network.shapes import parse_shapes
    from twinnet.recording import read_name_map

    for flag, value, allowed in (
        ("--level", level, ("outputs", "intermediates")),
        ("--keep", keep, ("worst", "all", "none")),
    ):
        if value not in allowed:
            raise UsageError(f"{flag} {value} is not possible", hint=f"one of: {', '.join(allowed)}")
    folder = run_folder(network, twin) if out is None else out
    verb = check
    if stages or stage:
        from twinnet.stages import following

        verb = following(stage or ())
        folder = f"{folder}-stages" if out is None else out
    with progress(quiet=quiet or as_json) as report:
        result = verb(
            network,
            inputs,
            twin,
            out=folder,
            command=command_line(),
            as_spec=as_spec,
            shapes=parse_shapes(shape or ()) or None,
            preprocess=preprocess,
            watch=tuple(watch or ()),
            skip=tuple(skip or ()),
            level=level,
            threads=threads,
            seed=seed,
            samples=samples,
            memory=o.parse_memory(max_memory),
            time_limit=time_limit,
            rtol=rtol,
            atol=atol,
            ulp=ulp,
            snr=snr,
            psnr=psnr,
            cosine=cosine,
            tolerance_file=tolerance,
            metric=metric,
            baseline=baseline,
            names=read_name_map(names) if names else None,
            keep=keep,
            debug_ir=debug_ir,
            advise=advise or advise_target is not None or advise_out is not None,
            advise_target=advise_target,
            advise_out=advise_out,
            progress=report,
        )
    answer(result, quiet=quiet, verbose=verbose, as_json=as_json, unmatched=unmatched)
    if repro and result.verdict != "PASS":
        write_repro(result, silent=quiet or as_json)
    raise typer.Exit(exit_code(result, strict=strict))
