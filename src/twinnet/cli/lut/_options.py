"""Options that the verbs of experiments share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["Experiment", "Quiet"]

Experiment = Annotated[Path, typer.Option("-e", "--exp-dir", metavar="DIR", help="Folder of the experiment.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Print nothing but results and errors.")]
