"""The command line as a user meets it: its exit code and its words."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

__all__ = ["Said", "call", "start"]


@dataclass(frozen=True)
class Said:
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def plain(self) -> bool:
        """Whether it is a message for a person, without a trace."""
        return "Traceback" not in self.out + self.err and self.err.startswith(("twinnet: ", "Usage: "))


def call(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *words: object) -> Said:
    """Run a command in this process."""
    from twinnet.cli.main import main

    monkeypatch.setattr(sys, "argv", ["twinnet", *map(str, words)])
    capfd.readouterr()
    with pytest.raises(SystemExit) as ended:
        main()
    code = ended.value.code
    said = capfd.readouterr()
    return Said(code if isinstance(code, int) else int(code is not None), said.out, said.err)


def start(
    folder: Path, *words: object, environment: Mapping[str, str] | None = None, **options: Any
) -> subprocess.Popen[str]:
    """Start a command as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "twinnet.cli.main", *map(str, words)],
        cwd=folder,
        env={**os.environ, **(environment or {})},
        text=True,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
    )
