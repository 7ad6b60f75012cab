"""`twinnet uvq`: score the quality of a video."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from twinnet.cli._screen import say

__all__ = ["command"]


def command(
    video: Annotated[Path, typer.Argument(metavar="VIDEO", help="A video, an image, or a folder of images.")],
    weights: Annotated[
        Path,
        typer.Option(
            "--weights",
            metavar="DIR",
            help="Folder with content_net, distortion_net and aggregation_net: .pth, .safetensors or .tflite.",
        ),
    ],
    fps: Annotated[
        float,
        typer.Option("--fps", metavar="N", min=0.001, max=1000, help="Frames to score per second of video."),
    ] = 1.0,
    batch: Annotated[
        int,
        typer.Option(
            "--batch",
            metavar="N",
            min=1,
            max=9,
            help="How many of the 9 patches go through DistortionNet at once.",
        ),
    ] = 1,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the mean score only.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Score the quality of a video with UVQ 1.5: a mean opinion score between 1 and 5 for each frame, and their mean.

    Example: twinnet uvq video.mp4 --weights checkpoints/
    """
    from twinnet.progress import progress
    from twinnet.zoo.uvq.report import score_video

    with progress(quiet=quiet or as_json) as report:
        scored = score_video(video, weights, fps=fps, batch=batch, progress=report)
    say(scored.to_json() if as_json else f"{scored.mean:.6f}" if quiet else scored.table())
