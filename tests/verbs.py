"""The verbs of the command line, made once."""

from __future__ import annotations

import functools
import os
from typing import Any

import typer.main
import typer.testing

__all__ = ["keep_verbs"]


def keep_verbs() -> None:
    """Typer makes all verbs anew for each command, which takes 60 ms: in this process it does so once."""
    make = typer.main.get_command

    @functools.cache
    def kept(app: typer.Typer, _shell_is_named: bool) -> Any:
        return make(app)

    def get_command(app: typer.Typer) -> Any:
        return kept(app, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION" in os.environ)

    typer.main.get_command = get_command
    typer.testing._get_command = get_command  # pyright: ignore[reportPrivateImportUsage]
