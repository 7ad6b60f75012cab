"""`twinnet suite`: run the cases of all models in a folder, without writing tests."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from twinnet.cli._screen import say
from twinnet.cli._verbs import Verbs
from twinnet.cli.options import TimeLimit

__all__ = ["app"]


class _Suite(Verbs):
    """Says how folders of models are given: a word that is not a command is most likely one."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        word = args[0]
        if self.get_command(ctx, word) is None and not word.startswith("-"):
            ctx.fail(f"{word!r} is not a command. A folder of models is given with --models {word}")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=_Suite,
    invoke_without_command=True,
    rich_markup_mode=None,
    subcommand_metavar="[accept]",
)


@app.callback()
def run(
    context: typer.Context,
    *,
    models: Annotated[
        list[Path] | None,
        typer.Option("--models", metavar="DIR", help="Folder of models (default: models); may be repeated."),
    ] = None,
    engines: Annotated[
        str | None,
        typer.Option("--engines", metavar="SPEC,...", help="Only these engines: names, patterns or specs."),
    ] = None,
    chips: Annotated[
        str | None,
        typer.Option("--chips", metavar="CHIP,...", help="What {chip} stands for in the specs of engines."),
    ] = None,
    hw_type: Annotated[
        str | None,
        typer.Option("--hw-type", metavar="TYPE", help="What {hw_type} stands for in the specs of engines."),
    ] = None,
    on: Annotated[
        str | None,
        typer.Option(
            "--on",
            metavar="PLACE",
            help="Where the twins run: local, a board, ssh://[user@]host[:port], or a cluster, ray[://host:port].",
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option("-k", metavar="WORDS", help="Only cases whose name matches: words with and, or, not."),
    ] = None,
    tolerance: Annotated[
        Path | None,
        typer.Option("--tolerance", metavar="FILE.toml", help="Rules to use instead of the noise floor."),
    ] = None,
    expected: Annotated[
        Path | None, typer.Option("--expected", metavar="FILE", help="File of expected failures.")
    ] = None,
    time_limit: TimeLimit = None,
    with_random: Annotated[
        bool, typer.Option("--with-random", help="Also run each layer on random activations.")
    ] = False,
    debug_ir: Annotated[
        Path | None,
        typer.Option(
            "--debug-ir",
            metavar="DIR",
            help="Write the IR of engines that compile, in one folder per case.",
        ),
    ] = None,
    runtime_profile: Annotated[
        Path | None,
        typer.Option(
            "--runtime-profile", metavar="DIR", help="Write the times of layers, in one folder per case."
        ),
    ] = None,
    compile_profile: Annotated[
        Path | None,
        typer.Option(
            "--compile-profile", metavar="DIR", help="Write the times of building, in one folder per case."
        ),
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="DIR", help="Report folder (default: runs/suite).")
    ] = None,
    bundle: Annotated[
        Path | None,
        typer.Option("--bundle", metavar="FILE.zip", help="Also write the report's data as one file."),
    ] = None,
    recompute: Annotated[
        bool, typer.Option("--recompute-cache", help="Make all artefacts and results again.")
    ] = False,
    workers: Annotated[
        int | None, typer.Option("-n", metavar="N", min=1, help="Run in this many processes.")
    ] = None,
    first: Annotated[bool, typer.Option("-x", help="Stop at the first unexpected outcome.")] = False,
    last_failed: Annotated[bool, typer.Option("--lf", help="Only the cases that failed last time.")] = False,
    live: Annotated[
        bool, typer.Option("-s", help="Show what the engines' programs print, as they print it.")
    ] = False,
    listing: Annotated[
        bool, typer.Option("--list", help="Print the names of the cases; run nothing.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the summary only.")] = False,
) -> None:
    """Run every model in a folder, and every layer of it, on several engines.

    Models and engines are those of [tool.twinnet] in pyproject.toml. Exit codes are those of `twinnet check`: expected
    failures do not count.

    Example: twinnet suite --models models --engines onnxruntime,openvino
    """
    if context.invoked_subcommand is not None:
        return
    from twinnet.suite.alone import run_suite

    given = {
        "--twin-engines": engines,
        "--twin-chips": chips,
        "--twin-hw-type": hw_type,
        "--twin-addr": None if on == "local" else on,
        "--twin-tolerance": tolerance,
        "--twin-expected": expected,
        "--twin-time-limit": time_limit,
        "--twin-report": report,
        "--twin-bundle": bundle,
        "--debug-ir": debug_ir,
        "--runtime-profile": runtime_profile,
        "--compile-profile": compile_profile,
        "-k": only,
        "-n": workers,
    }
    words = [
        f"{name}={value}" if name.startswith("--") else f"{name}{value}"
        for name, value in given.items()
        if value is not None
    ]
    words += [f"--twin-models={folder}" for folder in models or ()]
    switches = {
        "--with-random": with_random,
        "--recompute-cache": recompute,
        "-x": first,
        "--lf": last_failed,
    }
    words += [name for name, on in {**switches, "-s": live, "--collect-only": listing}.items() if on]
    raise typer.Exit(run_suite(words, quiet=quiet or listing))


@app.command("accept")
def accept(
    report: Annotated[
        Path | None,
        typer.Argument(metavar="REPORT", help="Report folder of a session (default: runs/suite)."),
    ] = None,
    expected: Annotated[
        Path | None, typer.Option("--expected", metavar="FILE", help="File of expected failures.")
    ] = None,
) -> None:
    """Make the outcomes of the last session the expected ones: update the file of expected failures."""
    from twinnet.report.figures import count
    from twinnet.suite.config import read_config
    from twinnet.suite.expected import accept as accept_outcomes
    from twinnet.suite.session import read_session

    config = read_config(Path.cwd())
    path = expected or config.expected
    _, outcomes = read_session(report or config.root / config.report)
    changes = accept_outcomes(path, outcomes)
    for line in changes:
        say(line)
    made = sum(not line.startswith("left") for line in changes)
    say(f"{path}: {count(made, 'change') if made else 'nothing to change'}")
