"""`twinnet lut new|train|export|finetune|eval|debug`: the life of an experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from twinnet.cli import options as o
from twinnet.cli._groups import grouped
from twinnet.cli._screen import say
from twinnet.cli.lut._options import Experiment, Quiet

__all__ = ["VERBS"]


def new(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to make.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing: use defaults and options.")] = False,
    task: Annotated[
        str | None, typer.Option(help="sr, denoise, deblock, deblur, or one from a plug-in.")
    ] = None,
    type_: Annotated[str | None, typer.Option("--type", help="srlut, mulut, cascade, spf, auto-*.")] = None,
    scale: Annotated[int | None, typer.Option(help="2, 3 or 4 for sr.")] = None,
    train: Annotated[
        list[Path] | None, typer.Option(help="Folder of images to train on; may be repeated.")
    ] = None,
    bench: Annotated[Path | None, typer.Option(help="Folder of test sets: Set5/, Set14/ ...")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Any other setting; may be repeated."),
    ] = None,
) -> None:
    """Make an experiment: a folder with a config.toml that holds all settings.

    Example: twinnet lut new models/mine --yes --scale 2 --train photos/
    """
    import sys

    from twinnet.errors import UsageError
    from twinnet.restore import new as making
    from twinnet.restore.tasks import find_task, task_names

    values = making.settings(set_ or ())
    model, data = values.setdefault("model", {}), values.setdefault("data", {})
    given = {"task": task, "type": type_, "scale": scale}
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError(
                "cannot ask: standard input is not a terminal",
                hint="use --yes, and options for non-default settings",
            )
        given["task"] = task or typer.prompt(f"Task ({', '.join(task_names())})", "sr")
        given["type"] = type_ or typer.prompt(
            "Network (srlut, mulut, cascade, spf, auto-mulut, auto-spf)", "mulut"
        )
        if find_task(str(given["task"])).resizes and scale is None:
            given["scale"] = typer.prompt("Scale (2, 3, 4)", 4, type=int)
        train = train or [Path(typer.prompt("Folder of images to train on"))]
        asked = bench or typer.prompt("Folder of test sets (may be empty)", "", show_default=False)
        bench = Path(asked) if str(asked) else None
    model.update({key: value for key, value in given.items() if value is not None})
    if train:
        data["train"] = [str(path.expanduser().resolve()) for path in train]
    if bench is not None:
        data["bench"] = str(bench.expanduser().resolve())
    written = making.new(folder, {name: entries for name, entries in values.items() if entries})
    say(
        f"written   {written}\n"
        f"next      twinnet lut fit -e {folder}      tables from images by least squares: seconds to minutes\n"
        f"or        twinnet lut train -e {folder}    a network first, then its tables: hours"
    )


def train(exp_dir: Experiment, quiet: Quiet = False) -> None:
    """Train the network; resumes from the last checkpoint.

    On many processes: accelerate launch -m twinnet.restore.train -e DIR
    """
    from twinnet.restore.train import train as run

    scores = run(exp_dir, quiet=quiet)
    if scores:
        best = max(scores, key=lambda s: s["score"])
        say(f"best      {best['score']:.2f} dB on the held-out images, iteration {best['iteration']:.0f}")
    say(f"next      twinnet lut export -e {exp_dir}")


def export(exp_dir: Experiment, quiet: Quiet = False) -> None:
    """Tabulate the trained network."""
    from twinnet.restore.export import export as run

    for path in run(exp_dir, quiet=quiet):
        say(f"written   {path}")
    say(f"next      twinnet lut finetune -e {exp_dir}")


def finetune(exp_dir: Experiment, quiet: Quiet = False) -> None:
    """Train the entries of the tables; resumes from the last checkpoint."""
    from twinnet.restore.finetune import finetune as run

    say(f"written   {run(exp_dir, quiet=quiet)}\nnext      twinnet lut eval -e {exp_dir}")


def evaluate(
    exp_dir: Annotated[
        Path | None, typer.Option("-e", "--exp-dir", metavar="DIR", help="Folder of the experiment.")
    ] = None,
    compare: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE...",
            help="Others to score beside them: tables, .onnx or .pb (OpenCV) files, or folders of these; one or more.",
        ),
    ] = None,
    # An option takes one value: the files after the first arrive here.
    more: Annotated[list[str] | None, typer.Argument(metavar="FILE", hidden=True)] = None,
    task: Annotated[
        str | None,
        typer.Option(help="Instead of -e, the tables that come with twinnet: sr, denoise, deblock."),
    ] = None,
    bench: Annotated[
        Path | None, typer.Option(help="Folder of test sets, Set5/ ... (with -e: the config's).")
    ] = None,
    scale: Annotated[int | None, typer.Option(help="With --task sr: 2, 3 or 4 (4).")] = None,
    sigma: Annotated[int | None, typer.Option(help="With --task denoise: 15, 25 or 50 (25).")] = None,
    jpeg_quality: Annotated[int | None, typer.Option(help="With --task deblock: 10, 20 or 40 (20).")] = None,
    network: Annotated[bool, typer.Option(help="Also score the network itself, which is slow.")] = True,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Folder to write (DIR/eval).")] = None,
    quiet: Quiet = False,
) -> None:
    """Score everything made so far on the test sets, next to classical filters and other models.

    Example: twinnet lut eval -e models/mine --compare others/

    Example: twinnet lut eval --task sr --scale 4 --bench testsets/ --compare IMDN_x4.onnx
    """
    from twinnet.errors import UsageError
    from twinnet.restore.results import lines

    if more and not compare:
        raise UsageError(f"unexpected argument {more[0]}", hint="put files to compare with after --compare")
    if (exp_dir is None) == (task is None):
        raise UsageError("nothing to score", hint="give an experiment with -e DIR, or --task sr --bench DIR")
    files = [*(compare or ()), *(more or ())]
    levels = {"scale": scale, "sigma": sigma, "jpeg_quality": jpeg_quality}
    given: dict[str, object] = {key: value for key, value in levels.items() if value is not None}
    if exp_dir is not None:
        if given:
            raise UsageError(
                f"--{next(iter(given)).replace('_', '-')} goes with --task: an experiment states its own",
                hint="leave it out, or change config.toml",
            )
        from twinnet.restore.evaluate import evaluate as run

        result = run(exp_dir, compare=files, network=network, bench=bench, out=out, quiet=quiet)
        out = out or exp_dir / "eval"
    else:
        from twinnet.models import named
        from twinnet.models.evaluate import evaluate_shipped

        if bench is None:
            raise UsageError("no test sets given", hint="name their folder with --bench")
        name = named(str(task), **given)
        result = evaluate_shipped(name, bench, compare=files, out=out, quiet=quiet)
    say("\n".join(lines(result)))
    if out is not None:
        say(f"\nwritten   {out}/index.html")


@grouped
def debug(
    exp_dir: Experiment,
    *,
    image: Annotated[str, typer.Option(help="A file, or the name of a test image.")] = "butterfly",
    table: Annotated[
        str,
        typer.Option(
            help="exported (made now if absent), compressed, fitted, finetuned, finetuned-fitted ..."
        ),
    ] = "",
    serve: Annotated[bool, typer.Option("--serve", help="Hand both sides to the live debugger.")] = False,
    most: Annotated[int, typer.Option("--most", min=1, help="Sites to list.")] = 8,
    door: o.Door,
) -> None:
    """Run one image through the network and its tables; list the sites where they differ most.

    With --serve also stop there and serve both over HTTP until `quit`, like `twinnet debug`.
    """
    from twinnet.errors import UsageError

    if not serve and door.moved():
        raise UsageError("access control options need --serve", hint="add --serve")
    settings = door.settings(exp_dir / "debugger") if serve else None
    from twinnet.restore.debug import debug as run
    from twinnet.restore.debug import lines

    found = run(exp_dir, image=image, table=table, serve=settings)
    say("\n".join(lines(found, most)))


VERBS = {"new": new, "train": train, "export": export, "finetune": finetune, "eval": evaluate, "debug": debug}
