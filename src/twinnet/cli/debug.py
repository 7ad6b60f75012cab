"""`twinnet debug`: run network and twin, stop, and serve both over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from twinnet.cli import options as o

__all__ = ["command"]

_DOOR = "Who may come in"

Host = Annotated[
    str,
    typer.Option(
        "--host",
        help="Address to listen on. Other than this machine's own: with a certificate, or --insecure.",
        rich_help_panel=_DOOR,
    ),
]
Port = Annotated[
    int | None,
    typer.Option(
        "--port",
        min=0,
        max=65535,
        help="Port (default: the first free one from 8765).",
        rich_help_panel=_DOOR,
    ),
]
TlsCert = Annotated[
    Path | None,
    typer.Option("--tls-cert", metavar="FILE.pem", help="Certificate for HTTPS.", rich_help_panel=_DOOR),
]
TlsKey = Annotated[
    Path | None,
    typer.Option(
        "--tls-key", metavar="FILE.pem", help="Its key, if in a file of its own.", rich_help_panel=_DOOR
    ),
]
Insecure = Annotated[
    bool,
    typer.Option(
        "--insecure",
        help="Allow --host without encryption. Code runs for whoever reads the token on the wire.",
    ),
]
ReadOnly = Annotated[
    bool, typer.Option("--read-only", help="Commands that look; nothing is evaluated, patched or written.")
]
Info = Annotated[
    Path | None,
    typer.Option(
        "--info", metavar="FILE", help="Where address and token are written (OUT/debugger-PORT.env)."
    ),
]
CommandLimit = Annotated[
    float, typer.Option("--command-limit", metavar="SECONDS", help="Longest time one command may take.")
]


def command(
    network: o.Network,
    twin: Annotated[
        str, typer.Option("--twin", "-t", metavar="SPEC", help="What to compare with. See `twinnet engines`.")
    ] = "onnxruntime",
    inputs: o.Inputs = None,
    shape: o.Shape = None,
    preprocess: o.Preprocess = None,
    samples: o.Samples = None,
    seed: o.Seed = 0,
    as_spec: o.AsSpec = None,
    threads: o.Threads = None,
    max_memory: o.MaxMemory = None,
    time_limit: o.TimeLimit = None,
    host: Host = "127.0.0.1",
    port: Port = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    insecure: Insecure = False,
    read_only: ReadOnly = False,
    info: Info = None,
    command_limit: CommandLimit = 300.0,
    out: o.Out = None,
    quiet: o.Quiet = False,
) -> None:
    """Run network and twin with full traces, then stop and answer questions over HTTP until `quit`.

    Of several samples the one that shows most is kept. Prints a curl line with the token of this start.

    Example: twinnet debug model.py:build --twin onnxruntime:model.onnx --inputs photo.png
    """
    from twinnet.check import CheckOptions, run_folder
    from twinnet.cli._screen import progress
    from twinnet.debugger.settings import Settings

    folder = run_folder(network, twin) if out is None else out
    settings = Settings(
        host, port, tls_cert, tls_key, insecure, read_only, info, folder, time_limit=command_limit
    )
    settings.check()
    from twinnet.debugger.entry import serve_stopped
    from twinnet.debugger.start import stop_at_check
    from twinnet.network.shapes import parse_shapes

    with progress(quiet=quiet) as report:
        options = CheckOptions(
            as_spec=as_spec,
            shapes=parse_shapes(shape or ()) or None,
            preprocess=preprocess,
            samples=samples,
            seed=seed,
            threads=threads,
            memory=o.parse_memory(max_memory),
            time_limit=time_limit,
            progress=report,
        )
        stopped = stop_at_check(network, inputs, twin, folder=folder, options=options)
    if not quiet:
        typer.echo(repr(stopped.result))
        typer.echo("")
    # Whoever reads our output line by line must not wait for a buffer to fill.
    serve_stopped(stopped, settings, say=lambda text: print(text, flush=True))
