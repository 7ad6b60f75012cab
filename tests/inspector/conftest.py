"""Recordings that twinnet did not make."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.needs import need_engine


@pytest.fixture(scope="session")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ExecuTorch's own example flow: folders "none" and "xnnpack" with its files and what its Inspector says."""
    need_engine("executorch")
    folder = tmp_path_factory.mktemp("example")
    done = subprocess.run(
        [sys.executable, "-m", "tests.executorch.example", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return folder
