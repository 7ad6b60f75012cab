"""Installing: with a compiler the wheel carries the engine, without one it installs all the same."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.needs import absent

ROOT = Path(__file__).parents[3]


def wheel_names(folder: Path, **environment: str) -> list[str]:
    """Build a wheel from a copy of the sources; the names inside it."""
    copy = folder / "source"
    shutil.copytree(
        ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("*.so", "*.egg-info", "__pycache__")
    )
    for name in ("pyproject.toml", "setup.py", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    readme = ROOT / "README.md"
    (copy / "README.md").write_text(readme.read_text() if readme.exists() else "twinnet\n")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-q",
         "-w", str(folder / "wheel"), str(copy)],
        capture_output=True, text=True, env={**os.environ, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    (wheel,) = (folder / "wheel").glob("*.whl")
    return zipfile.ZipFile(wheel).namelist()


def test_a_failed_compile_does_not_fail_the_install(tmp_path):
    names = wheel_names(tmp_path, CC="/nonexistent/cc", CXX="/nonexistent/c++")
    assert "twinnet/lut/executors/numpy_path.py" in names
    assert not [name for name in names if "_engine" in name]


@pytest.mark.slow
def test_the_wheel_carries_the_engine(tmp_path):
    if shutil.which("g++") is None:
        absent("no C++ compiler here")
    names = wheel_names(tmp_path)
    assert [name for name in names if name.startswith("twinnet/lut/native/_engine")]
