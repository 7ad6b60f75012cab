"""`twinnet record`: run one side and keep what it computes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from twinnet.cli import options as o

__all__ = ["command"]


def command(
    network: o.Network,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder of the recording.")],
    inputs: o.Inputs = None,
    shape: o.Shape = None,
    preprocess: o.Preprocess = None,
    samples: o.Samples = None,
    seed: o.Seed = 0,
    as_spec: o.AsSpec = None,
    level: o.Level = "intermediates",
    threads: o.Threads = None,
    max_memory: o.MaxMemory = None,
    time_limit: o.TimeLimit = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
) -> None:
    """Run one side and write its tensors to a folder, to be compared elsewhere.

    Example: twinnet record model.onnx --as onnxruntime --out here/, then twinnet compare reference/ here/
    """
    from twinnet.cli._screen import progress
    from twinnet.errors import UsageError
    from twinnet.network.shapes import parse_shapes
    from twinnet.recording import record
    from twinnet.report.words import count

    if level not in ("outputs", "intermediates"):
        raise UsageError(f"--level {level} is not possible", hint="one of: outputs, intermediates")
    with progress(quiet=quiet) as report:
        made = record(
            network,
            inputs,
            out=out,
            as_spec=as_spec,
            level=level,
            shapes=parse_shapes(shape or ()) or None,
            preprocess=preprocess,
            seed=seed,
            samples=samples,
            threads=threads,
            memory=o.parse_memory(max_memory),
            time_limit=time_limit,
            progress=report,
        )
    if quiet:
        return
    size = sum(f.stat().st_size for f in made.folder.rglob("*") if f.is_file())
    typer.echo(
        f"recorded {len(made.sites)} sites of {made.side.name} ({made.side.engine} {made.side.version}), "
        f"{count(len(made.samples), 'sample')}, {size / 1e6:.1f} MB in {made.folder}"
    )
    typer.echo(f"next     twinnet compare {made.folder} OTHER_RECORDING")
