"""`twinnet lut info|import|diff|compress|run|onnx`: finished tables, looked at, compared, run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twinnet.cli._screen import say

if TYPE_CHECKING:
    from twinnet.lut.model import LutModel

__all__ = ["VERBS"]

_Tables = Annotated[
    Path, typer.Argument(help="A .lut.safetensors file, a published .npy table, or a folder of them.")
]
_Out = Annotated[Path, typer.Option("-o", "--out", help="The .lut.safetensors file to write.")]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def info(file: _Tables, json: _Json = False) -> None:
    """Describe a file of tables: network, scale, taps, grid, requantisation, compression, origin."""
    from json import dumps

    from twinnet.lut.describe import describe, lines
    from twinnet.lut.families import recognise
    from twinnet.lut.model import open_tables

    other = recognise(file)
    if other is not None:
        say(dumps(other.describe(), indent=2) if json else "\n".join(other.lines()))
        return
    content = open_tables(file)
    size = file.stat().st_size if file.is_file() else None
    say(dumps(describe(content, size), indent=2) if json else "\n".join(lines(content, size)))


def import_(
    source: Annotated[
        Path, typer.Argument(help="A published .npy, .pth or .npz file, or a folder of tables.")
    ],
    out: _Out,
    last: Annotated[int | None, typer.Option(help="Last node: 255 or 256, if you know it.")] = None,
    compat: Annotated[
        str, typer.Option(help="srlut-2021 repeats the slip in SR-LUT's published results.")
    ] = "",
    scale: Annotated[int | None, typer.Option(help="Refuse tables of another scale.")] = None,
    lut: Annotated[str | None, typer.Option(help="Which tables of a folder with several sets.")] = None,
) -> None:
    """Turn published tables or checkpoints into one self-describing file."""
    from twinnet.lut.describe import lines
    from twinnet.lut.file import write
    from twinnet.restore.importing import import_source

    content = import_source(source, last=last, compat=compat, scale=scale, lut=lut, progress=True)
    write(content, out)
    say("\n".join(lines(content)))
    say(f"written   {out}")


def diff(
    a: _Tables,
    b: _Tables,
    images: Annotated[
        Path | None, typer.Option(help="Image or folder: how often do they visit what differs?")
    ] = None,
    most: Annotated[int, typer.Option(min=0, help="Cells to list per table.")] = 5,
    json: _Json = False,
) -> None:
    """Show which cells differ, and how often real images visit them. Exit code 1 if anything differs."""
    from twinnet.lut.cells import diff as compare
    from twinnet.lut.cells import lines, to_dict
    from twinnet.lut.model import open_tables
    from twinnet.lut.pictures import pictures

    found = compare(open_tables(a).plan, open_tables(b).plan, pictures(images) if images else (), most)
    if json:
        from json import dumps

        say(dumps(to_dict(found), indent=2))
    else:
        say("\n".join(lines(found)))
    if not found.same:
        raise typer.Exit(1)


def compress(
    file: Annotated[Path | None, typer.Argument(help="A file of tables, ours or published.")] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="The .lut.safetensors file to write.")
    ] = None,
    axes: Annotated[str, typer.Option(help="Which taps must be near the first: xy, xyz or xyzt.")] = "xyzt",
    width: Annotated[int, typer.Option(help="Half-width of the band, in nodes.")] = 2,
    interval: Annotated[int, typer.Option(help="Interval bits of the rest: 5, 6 or 7 for 4-bit tables.")] = 5,
    thin: Annotated[
        int | None, typer.Option(help="Instead of --interval: table steps per off-band step.")
    ] = None,
    exp_dir: Annotated[
        Path | None,
        typer.Option("-e", "--exp-dir", metavar="DIR", help="An experiment; its config holds all settings."),
    ] = None,
) -> None:
    """Diagonal-first compression of every table in a file, or of an experiment's exported tables."""
    from twinnet.errors import UsageError
    from twinnet.lut.dfc import compress_file
    from twinnet.lut.file import write
    from twinnet.lut.model import open_tables

    if exp_dir is not None:
        if file is not None or out is not None or (axes, width, interval, thin) != ("xyzt", 2, 5, None):
            raise UsageError("-e takes all settings from the experiment's config", hint="[export_lut] dfc_*")
        from twinnet.restore.export import compress as compress_experiment

        say(f"written   {compress_experiment(exp_dir)}")
        return
    if file is None or out is None:
        raise UsageError("compress needs FILE and -o OUT, or -e DIR")
    before = open_tables(file)
    after = compress_file(before, axes, width, interval, thin)
    write(after, out)
    old, new = (sum(t.nbytes for t in c.plan.tables.values()) for c in (before, after))
    say(f"{old:,} bytes of tables became {new:,} ({new / old:.1%})\nwritten   {out}")


def run(
    source: Annotated[Path, typer.Argument(help="An image, a folder of images, or a video.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            help="Folder, or a file name for a single image (default: in the current folder, named after the source).",
        ),
    ] = None,
    table: Annotated[
        Path | None, typer.Option("--table", help="Tables: ours, a published file, or a folder.")
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(help="Instead of --table, tables that come with twinnet: sr, denoise, deblock."),
    ] = None,
    scale: Annotated[int | None, typer.Option(help="sr: 2, 3 or 4 (4).")] = None,
    quality: Annotated[
        str | None, typer.Option(help="sr: fast, strong or, at x3 and x4, best (strong).")
    ] = None,
    sigma: Annotated[
        int | None, typer.Option(help="denoise: strength of the noise, 15, 25 or 50 (25).")
    ] = None,
    jpeg_quality: Annotated[
        int | None, typer.Option(help="deblock: 10, 20 or 40 (nearest to each JPEG's own, else 20).")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing results.")] = False,
    compress: Annotated[
        int, typer.Option(min=0, max=9, help="PNG: 0 does not compress, 1 is fast, 9 is small.")
    ] = 1,
    save_quality: Annotated[
        int, typer.Option(min=1, max=100, help="Quality of JPEG, WebP and AVIF files.")
    ] = 95,
    executor: Annotated[
        str, typer.Option(help="auto, native, numpy or reference: all give the same pixels.")
    ] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="Threads (default: all cores).")] = None,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Show no progress.")] = False,
) -> None:
    """Run a table network over images or a video.

    Example: twinnet lut run photo.png --task sr --scale 4 --quality strong -o large.png

    Example: twinnet lut run photo.png --task denoise --sigma 15

    Example: twinnet lut run photo.jpg --task deblock --jpeg-quality 20 -o clean.png
    """
    from twinnet.errors import UsageError
    from twinnet.lut.batch import run_with_bar
    from twinnet.lut.model import load
    from twinnet.lut.saving import Saving
    from twinnet.models import TASKS, file_of, named
    from twinnet.models.choose import by_quality

    if (table is None) == (task is None):
        raise UsageError(
            "choose tables with --table or --task",
            hint=f"name a file with --table, or a task with --task: {', '.join(TASKS)}",
        )
    stated = {"scale": scale, "quality": quality, "sigma": sigma, "jpeg_quality": jpeg_quality}
    given: dict[str, object] = {key: value for key, value in stated.items() if value is not None}
    if table is not None and given:
        raise UsageError(
            f"--{next(iter(given)).replace('_', '-')} applies only to the tables that come with twinnet",
            hint="leave out --table, or this option",
        )

    warned = False

    def opened(path: Path) -> LutModel:
        nonlocal warned
        model = load(path, executor=executor, threads=threads)
        if executor == "auto" and model.executor.name != "native" and not warned:
            warned = True
            say(_without_native(), err=True)
        return model

    name = table.name.partition(".")[0] if table is not None else named(str(task), **given)
    model: LutModel | Callable[[Path], LutModel]
    if task == "deblock" and jpeg_quality is None:
        choice = by_quality(source, opened)
        model, name = choice.model, choice.name
        say("\n".join(choice.lines), err=True)
    else:
        model = opened(table if table is not None else file_of(name))
    out = out if out is not None else _beside(source, name)
    outcome = run_with_bar(model, source, out, quiet, Saving(overwrite, compress, save_quality))
    for path, why in outcome.failed.items():
        say(f"skipped   {why}" if str(path) in why else f"skipped   {path}: {why}", err=True)
    for path, notes in outcome.notes.items():
        say("\n".join(f"note      {path.name}: {note}" for note in notes), err=True)
    if outcome.passed:
        say(f"not read  {_some(outcome.passed)}", err=True)
    if outcome.kept:
        say(f"kept      {len(outcome.kept)} existing file(s); --overwrite replaces them")
    single = len(outcome.written) == 1 and source.is_file()
    say(f"written   {outcome.written[0] if single else f'{len(outcome.written)} file(s) to {out}'}")
    if outcome.failed:
        raise typer.Exit(2)


def _beside(source: Path, name: str) -> Path:
    """photo.jpg becomes photo-sr-x4-strong.png (a JPEG would lose quality again), a folder a folder of that name."""
    from twinnet.lut.batch import result_name

    if source.is_dir():
        return Path(f"{source.resolve().name}-{name}")
    return Path(f"{source.stem}-{name}{Path(result_name(source)).suffix}")


def _some(names: list[str], most: int = 4) -> str:
    """The first few names, and what to know about folders among them."""
    shown = ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
    inner = any(name.endswith("/") for name in names)
    return shown + (" (folders inside a folder are not searched)" if inner else "")


def _without_native() -> str:
    from twinnet.errors import EngineError
    from twinnet.lut.executors import NUMPY_SLOWER
    from twinnet.lut.native import library

    try:
        library()
        why = "the native engine cannot run these tables"
    except EngineError as error:
        why = error.what
    return f"slow      {why}: numpy gives the same pixels, about {NUMPY_SLOWER} times slower"


def onnx(
    file: _Tables, out: Annotated[Path, typer.Option("-o", "--out", help="The .onnx file to write.")]
) -> None:
    """Write a table network as an ONNX model of standard operators."""
    from twinnet.lut.model import open_tables
    from twinnet.lut.onnx import to_onnx

    to_onnx(open_tables(file).plan, out)
    say(f"written   {out}")


VERBS = {"info": info, "import": import_, "diff": diff, "compress": compress, "run": run, "onnx": onnx}
