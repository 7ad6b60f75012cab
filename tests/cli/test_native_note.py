"""`twinnet lut run` without the native engine says so, once, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from twinnet.cli.main import app
from twinnet.lut import native
from twinnet.lut.executors import NUMPY_SLOWER


@pytest.fixture
def without_engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(native, "find_library", lambda: None)
    native.library.cache_clear()
    yield
    native.library.cache_clear()


def upscale(folder: Path, *words: str) -> str:
    for name in ("a.png", "b.png"):
        Image.fromarray(np.full((6, 8, 3), 90, np.uint8)).save(folder / name)
    line = ["lut", "run", str(folder), "--task", "sr", "--quality", "fast", "-o", str(folder / "large")]
    done = CliRunner().invoke(app, [*line, *words])
    assert done.exit_code == 0, done.output
    return done.stderr


def test_it_is_said_once_with_the_factor(tmp_path: Path, without_engine: None) -> None:
    said = upscale(tmp_path)
    assert said.count("slow  ") == 1
    assert f"not built: numpy gives the same pixels, about {NUMPY_SLOWER} times slower" in said


def test_whoever_asks_for_numpy_knows(tmp_path: Path, without_engine: None) -> None:
    assert "slow" not in upscale(tmp_path, "--executor", "numpy")


def test_nothing_is_said_with_the_engine(tmp_path: Path) -> None:
    assert native.find_library() is not None
    assert "slow" not in upscale(tmp_path)
