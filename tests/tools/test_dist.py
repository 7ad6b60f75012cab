"""What is published: the wheel is complete, and runs tables in an empty environment without a compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from tools.dist import COMPILERS, PARTS, Tried, build, compilers_on, native_parts, tried

from tests.needs import absent


def test_libraries_of_a_wheel_are_found_by_part(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "w.whl", "w") as file:
        file.writestr("twinnet/lut/native/_engine.cpython-311-x86_64-linux-gnu.so", b"")
        file.writestr("twinnet/restore/native/_fit.py", b"")
    found = [native_parts(tmp_path / "w.whl", part) for part in PARTS]
    assert found == [["twinnet/lut/native/_engine.cpython-311-x86_64-linux-gnu.so"], []]


def test_a_compiler_on_the_path_is_seen(tmp_path: Path) -> None:
    assert compilers_on(str(tmp_path)) == []
    (tmp_path / COMPILERS[0]).write_text("#!/bin/sh\n")
    (tmp_path / COMPILERS[0]).chmod(0o755)
    assert compilers_on(str(tmp_path)) == [COMPILERS[0]]


def test_the_sentence_has_the_whole_time() -> None:
    done = Tried(20.0, 1.5, 11.0, 130.4, 18, "written")
    assert done.sentence == (
        "from pip install to the first upscaled picture: 21.5 s (11.0 s of CPU), 20.0 s of it pip: 18 packages, 130 MB"
    )


@pytest.mark.slow
def test_the_wheel_works_in_an_empty_environment(tmp_path: Path) -> None:
    if not shutil.which("c++"):
        absent("no C++ compiler")
    sdist, wheel = build(tmp_path, tmp_path / "dist")
    assert (
        sdist.name.endswith(".tar.gz")
        and "-py3-none-" in wheel.name
        and all(native_parts(wheel, part) for part in PARTS)
    )
    done = tried(wheel, tmp_path)
    assert "written   large.png" in done.said and "slow" not in done.said
    assert done.megabytes < 250
    bare = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    command = tmp_path / "empty" / "bin" / "twinnet"
    answers = {
        words: subprocess.run(
            [command, *words.split()], cwd=tmp_path, env=bare, capture_output=True, text=True
        )
        for words in ("--help", "engines", "env", "check net.onnx", "lut fit -e nothing")
    }
    assert [a.returncode for a in answers.values()] == [0, 0, 0, 2, 2]
    assert "pip install 'twinnet[torch]'" in answers["check net.onnx"].stderr
    assert "numpy" in answers["env"].stdout and "torch" not in answers["env"].stdout
