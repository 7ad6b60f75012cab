"""Options that several verbs share, each defined once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "AsSpec",
    "Atol",
    "Cosine",
    "Inputs",
    "Json",
    "Level",
    "MaxMemory",
    "Network",
    "Out",
    "Preprocess",
    "Psnr",
    "Quiet",
    "Rtol",
    "Samples",
    "Seed",
    "Shape",
    "Skip",
    "Snr",
    "Threads",
    "TimeLimit",
    "ToleranceFile",
    "Ulp",
    "Verbose",
    "Watch",
    "parse_memory",
]

_RUN = "What to run"
_TOLERANCE = "Stated tolerances (default: the noise floor decides)"

Network = Annotated[
    str,
    typer.Argument(
        metavar="NETWORK",
        help="file.py:factory, package.module:factory, an .onnx or .pt2 file, or an experiment.",
    ),
]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--inputs",
        "-i",
        metavar="SOURCE",
        help="Folder of images, image, .npy, .npz, .safetensors, or file.py:samples; for several inputs "
        "NAME=FILE, repeated. Without it inputs are synthesised.",
        rich_help_panel=_RUN,
    ),
]
Shape = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="NAME=1x3x640x640",
        help="Shape of an input; needed for dimensions that the network leaves open.",
        rich_help_panel=_RUN,
    ),
]
Preprocess = Annotated[
    str | None,
    typer.Option(
        "--preprocess",
        metavar="FILE.py:FN",
        help="Your function from an image path or array to an input.",
        rich_help_panel=_RUN,
    ),
]
Samples = Annotated[
    int | None,
    typer.Option("--samples", min=1, help="How many samples to take, or to make (2).", rich_help_panel=_RUN),
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of synthetic inputs.", rich_help_panel=_RUN)]
AsSpec = Annotated[
    str | None,
    typer.Option(
        "--as",
        metavar="SPEC",
        help="Engine that runs the network itself (torch; for .onnx: onnxruntime?opt=off).",
        rich_help_panel=_RUN,
    ),
]
Level = Annotated[
    str,
    typer.Option(
        "--level",
        metavar="outputs|intermediates",
        help="Compare every tensor, or the outputs only.",
        rich_help_panel=_RUN,
    ),
]
Watch = Annotated[
    list[str] | None,
    typer.Option(
        "--watch",
        metavar="PATTERN",
        help="Only inner sites whose tensor, module or op fits; may be repeated.",
        rich_help_panel=_RUN,
    ),
]
Skip = Annotated[
    list[str] | None,
    typer.Option(
        "--skip",
        metavar="PATTERN",
        help="Leave out inner sites that fit; may be repeated.",
        rich_help_panel=_RUN,
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads", min=1, help="Threads of both engines (default: their own).", rich_help_panel=_RUN
    ),
]
MaxMemory = Annotated[
    str | None,
    typer.Option(
        "--max-memory",
        metavar="512M",
        help="Memory for the tensors of one run; more goes to disk (256M).",
        rich_help_panel=_RUN,
    ),
]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        "--time-limit", metavar="SECONDS", help="Stop onnx-reference after so long.", rich_help_panel=_RUN
    ),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="DIR", help="Run folder to write (default: runs/NETWORK-TWIN)."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the verdict only.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Also timings, versions and the command.")]
Json = Annotated[bool, typer.Option("--json", help="Print result.json instead of the screen.")]

Rtol = Annotated[
    float | None,
    typer.Option("--rtol", min=0, help="At most atol + rtol x |network| apart.", rich_help_panel=_TOLERANCE),
]
Atol = Annotated[
    float | None,
    typer.Option("--atol", min=0, help="At most atol + rtol x |network| apart.", rich_help_panel=_TOLERANCE),
]
Ulp = Annotated[
    float | None,
    typer.Option(
        "--ulp", min=0, help="At most so many units in the last place apart.", rich_help_panel=_TOLERANCE
    ),
]
Snr = Annotated[
    float | None,
    typer.Option("--snr", help="Signal-to-noise ratio of at least so many dB.", rich_help_panel=_TOLERANCE),
]
Psnr = Annotated[
    float | None,
    typer.Option(
        "--psnr", help="Peak signal-to-noise ratio of at least so many dB.", rich_help_panel=_TOLERANCE
    ),
]
Cosine = Annotated[
    float | None,
    typer.Option(
        "--cosine", max=1, help="Cosine similarity of at least so much.", rich_help_panel=_TOLERANCE
    ),
]
ToleranceFile = Annotated[
    str | None,
    typer.Option(
        "--tolerance",
        metavar="FILE.toml",
        help="Rules by dtype, op, module or site, in a file.",
        rich_help_panel=_TOLERANCE,
    ),
]


def parse_memory(text: str | None) -> int | None:
    """Bytes of "512M" or "2G".

    >>> parse_memory("2M")
    2097152
    """
    from twinnet.errors import UsageError

    if text is None:
        return None
    factors = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    body = text.strip().upper().removesuffix("IB").removesuffix("B")
    factor = factors.get(body[-1:], 1)
    try:
        value = int(float(body[:-1] if factor > 1 else body) * factor)
    except ValueError:
        raise UsageError(f"--max-memory {text!r} is no size", hint="for example 512M or 2G") from None
    if value < 1 << 20:
        raise UsageError(f"--max-memory {text} is too little", hint="at least 1M")
    return value
