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
        first = next((word for word in args if not word.startswith("-")), None)
        if args and not self._is_verb(first) and not {"-h", "--help"} & set(args[:1]):
            args = [_MEASURE, *args]
        return super().parse_args(ctx, args)

    def _is_verb(self, word: str | None) -> bool:
        """A mistyped verb is one too: its message names the right one, where that of a network would not."""
        named = difflib.get_close_matches(word or "", self.commands, n=1, cutoff=0.75)
        return bool(named) and (word in self.commands or not Path(word or "").exists())


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
            help="Also build the twin from scratch, time each step of that, and estimate every layer in advance.",
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
    from twinnet.engines import parse_spec
    from twinnet.profile import read_target
    from twinnet.profiling import Plan, compile_profile_with, profile_with
    from twinnet.progress import progress
    from twinnet.report.profiles import write_compile_profile

    folder = run_folder(network, running.named(twin)) / "profile" if out is None else out
    plan = Plan(repeats, rounds, read_target(target) if target is not None else None)
    with progress(quiet=quiet or as_json) as report:
        options = running.options(progress=report)
        found = profile_with(options, network, running.inputs, twin, plan, out=folder)
        built = []
        for one in found if compile_ else ():
            spec = one.profile.spec
            built.append(compile_profile_with(options, network, running.inputs, spec, plan.target))
            write_compile_profile(built[-1], folder if len(found) == 1 else folder / parse_spec(spec).slug)
    if bundle is not None:
        from twinnet.origin import origin
        from twinnet.report.bundle import profile_session, write_bundle

        session, runs = profile_session(folder)
        write_bundle(bundle, {**origin(), **session}, runs)
    _show(found, built, folder, rows, quiet=quiet, as_json=as_json)
    upload_run(folder.parent if folder.name == "profile" else folder, silent=quiet or as_json, profile=True)


def _show(
    found: Sequence[Measured],
    built: Sequence[CompileProfile],
    folder: Path,
    rows: int,
    *,
    quiet: bool,
    as_json: bool,
) -> None:
    from twinnet.profile import compare_profiles
    from twinnet.report.profiles import comparison_text, compile_text, profile_text

    profiles = [one.profile for one in found]
    if as_json:
        texts = [profile.to_json() for profile in profiles]
        say(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
        return
    if quiet:
        say(f"{folder}")
        return
    if len(profiles) == 1:
        say(profile_text(profiles[0], str(folder), rows))
        for one in built:
            say("\n" + compile_text(one))
        return
    for number, profile in enumerate(profiles):
        say(profile_text(profile, "", max(rows // 2, 3)) + "\n")
        for one in built[number : number + 1]:
            say(compile_text(one, max(rows // 2, 3)) + "\n")
    for other in profiles[1:]:
        say(comparison_text(compare_profiles(profiles[0], other)) + "\n")
    say(f"files    {folder}")


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
    from twinnet.profile import compare_profiles, load_profile
    from twinnet.report.profiles import comparison_text

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
