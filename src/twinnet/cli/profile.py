"""`twinnet profile`: where the time of a twin goes."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twinnet.cli import options as o
from twinnet.cli._groups import grouped
from twinnet.cli._screen import say, upload_run
from twinnet.cli._verbs import Verbs

if TYPE_CHECKING:
    from twinnet.profile import Measured
    from twinnet.profile.building import CompileProfile

__all__ = ["app"]

_MEASURE = "measure"


class _ProfileVerbs(Verbs):
    """`twinnet profile NETWORK` measures; `compare` and `target` are verbs of their own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        # A verb comes first: what follows an option is its value.
        if args and args[0] not in ("-h", "--help") and not self._is_verb(args[0]):
            args = [_MEASURE, *args]
        return super().parse_args(ctx, args)

    def _is_verb(self, word: str) -> bool:
        """A mistyped verb is one too: its message names the right one, where that of a network would not."""
        named = difflib.get_close_matches(word, self.commands, n=1, cutoff=0.75)
        return bool(named) and word[0] != "-" and (word in self.commands or not Path(word).exists())


app = typer.Typer(
    cls=_ProfileVerbs,
    rich_markup_mode=None,
    no_args_is_help=True,
    subcommand_metavar="NETWORK | compare A B | target",
    help="Measure where the time of a twin goes, layer by layer; compare two profiles.\n\n"
    "Example: twinnet profile model.py:build --twin onnxruntime",
)


@app.command(_MEASURE)
@grouped
def measure(
    network: o.Network,
    *,
    twin: Annotated[
        str,
        o.twins("Engines to measure; several run in turns and are compared. `torch` is the network itself."),
    ] = "onnxruntime",
    running: o.Running,
    repeats: Annotated[
        int | None,
        typer.Option(
            "--repeats",
            metavar="N",
            min=1,
            help="Runs that count, in all rounds together (30, fewer if they take long).",
        ),
    ] = None,
    rounds: Annotated[
        int,
        typer.Option(
            "--rounds", min=1, metavar="N", help="How often the twin is loaded again, which shows noise."
        ),
    ] = 3,
    target: Annotated[
        Path | None,
        typer.Option(
            "--target",
            metavar="FILE.toml",
            help="What the machine can do: peak, bandwidth, overhead (default: this machine, measured).",
        ),
    ] = None,
    compile_: Annotated[
        bool,
        typer.Option(
            "--compile",
            help="First build the twin from scratch, time each step of that, and estimate every layer; for any engine.",
        ),
    ] = False,
    rows: Annotated[int, typer.Option("--rows", metavar="N", min=1, help="Rows of the table.")] = 12,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="DIR", help="Folder to write (default: runs/NETWORK-TWIN/profile)."
        ),
    ] = None,
    bundle: Annotated[
        Path | None,
        typer.Option("--bundle", metavar="FILE.zip", help="Also write the folder as one file."),
    ] = None,
    quiet: o.Quiet = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print profile.json instead of the screen; for several twins, a list."),
    ] = False,
) -> None:
    """Measure where the time of a twin goes: each step of its engine, tied to layers of the network.

    Example: twinnet profile model.py:build --twin onnxruntime
    """
    from twinnet.check import run_folder
    from twinnet.checking.case import run_folders
    from twinnet.engines import parse_specs
    from twinnet.errors import UsageError
    from twinnet.profile import read_target
    from twinnet.profiling import Plan, compile_profile_with, measures_times, profile_with
    from twinnet.progress import progress
    from twinnet.report.profiles import write_compile_profile, write_profiles

    folder = run_folder(network, running.named(twin)) / "profile" if out is None else out
    plan = Plan(repeats, rounds, read_target(target) if target is not None else None)
    specs = parse_specs(twin)
    folders = run_folders(folder, specs)
    # What engines without timers build can be timed all the same.
    timed = [n for n, spec in enumerate(specs) if measures_times(spec) or not compile_]
    if bundle is not None and not timed:
        raise UsageError(f"--bundle holds profiles, and {twin} does not measure times per layer")
    found: list[Measured | None] = [None] * len(specs)
    built: list[CompileProfile | None] = [None] * len(specs)
    with progress(quiet=quiet or as_json) as report:
        options = running.options(progress=report)
        for n, spec in enumerate(specs) if compile_ else ():
            built[n] = made = compile_profile_with(options, network, running.inputs, str(spec), plan.target)
            write_compile_profile(made, folders[n])
        if timed:
            measured = profile_with(options, network, running.inputs, [str(specs[n]) for n in timed], plan)
            write_profiles(measured, [folders[n] for n in timed])
            for n, one in zip(timed, measured, strict=True):
                found[n] = one
    if bundle is not None:
        from twinnet.origin import origin
        from twinnet.report.bundle import profile_session, write_bundle

        session, runs = profile_session(folder)
        write_bundle(bundle, {**origin(), **session}, runs)
    _show(found, built, folder, rows, quiet=quiet, as_json=as_json)
    if timed:
        outer = folder.parent if folder.name == "profile" else folder
        upload_run(outer, silent=quiet or as_json, profile=True)


def _show(
    found: Sequence[Measured | None],
    built: Sequence[CompileProfile | None],
    folder: Path,
    rows: int,
    *,
    quiet: bool,
    as_json: bool,
) -> None:
    """Print what was measured and built, twin by twin; then the first twin against each of the others."""
    from twinnet.profile import compare_profiles
    from twinnet.report.profiles import comparison_text, compile_text, profile_text

    profiles = [one.profile for one in found if one is not None]
    if as_json:
        texts = [one.to_json() for one in profiles or built if one is not None]
        say(texts[0] if len(found) == 1 else f"[{', '.join(texts)}]")
        return
    if quiet:
        say(f"{folder}")
        return
    single = len(found) == 1
    most = rows if single else max(rows // 2, 3)
    shown = []
    for measured, made in zip(found, built):
        if measured is not None:
            shown.append(profile_text(measured.profile, str(folder) if single else "", most))
        if made is not None:
            text = compile_text(made, min(most, 8), named=measured is None)
            shown.append(f"{text}\n\nfiles    {folder}/compile.csv" if single else text)
    shown += [comparison_text(compare_profiles(profiles[0], other)) for other in profiles[1:]]
    if not single:
        shown.append(f"files    {folder}")
    say("\n\n".join(shown))


@app.command("compare")
def compare(
    before: Annotated[Path, typer.Argument(metavar="A", help="A profile, or a folder that holds one.")],
    after: Annotated[Path, typer.Argument(metavar="B", help="The other one.")],
    limit: Annotated[
        float | None,
        typer.Option(
            "--limit",
            metavar="RATIO",
            min=1.0,
            max=1e6,
            help="Exit with 1 if a layer, or the whole, got slower by more than this factor, beyond noise.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
) -> None:
    """Show what got slower or faster from one profile to another, beyond noise.

    Example: twinnet profile compare runs/last-week runs/today --limit 1.2
    """
    from twinnet.errors import UsageError
    from twinnet.profile import compare_profiles, load_profile
    from twinnet.report.profiles import comparison_text

    if limit is not None and limit != limit:
        raise UsageError("--limit is no number")
    made = compare_profiles(load_profile(before), load_profile(after))
    say(made.to_json() if as_json else comparison_text(made, limit))
    if limit is not None and made.past(limit):
        raise typer.Exit(1)


@app.command("target")
def target(
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE.toml", help="Where to write it.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option("--threads", metavar="N", min=1, help="Threads to measure with.")
    ] = None,
) -> None:
    """Measure what this machine can do; --out writes it as a file that you can edit for another machine."""
    from twinnet.profile.target import machine, write_target
    from twinnet.report.profiles.words import much, seconds

    found = machine(threads)
    say(f"machine    {found.name}")
    say(f"peak       {much(found.peak, 'FLOP/s')}")
    say(f"bandwidth  {much(found.bandwidth, 'B/s')}")
    say(f"overhead   {seconds(found.overhead)} a step")
    if out is not None:
        write_target(found, out)
        say(f"written    {out}")
