"""The engine built with address and undefined-behaviour sanitizers, run on plans of every kind."""

from __future__ import annotations

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.needs import absent

SOURCES = Path(__file__).parents[3] / "src/twinnet/lut/native"
FLAGS = [
    "-std=c++17", "-O0", "-g1", "-Wno-psabi", "-pthread", "-fsanitize=address,undefined",
    "-fno-sanitize-recover=undefined", f"-I{SOURCES}",
]  # fmt: skip


@pytest.fixture(scope="module")
def driver(tmp_path_factory) -> Path:
    """`driver.cpp` with the engine's sources, compiled with sanitizers."""
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is None:
        absent("no C++ compiler here")
    folder = tmp_path_factory.mktemp("sanitized")
    trial = folder / "trial.cpp"
    trial.write_text("int main() { return 0; }\n")
    works = subprocess.run([compiler, *FLAGS, str(trial), "-o", str(folder / "trial")], capture_output=True)
    if works.returncode:
        absent("the compiler has no sanitizers")

    def build(source: Path) -> str:
        target = folder / f"{source.stem}.o"
        subprocess.run([compiler, *FLAGS, "-c", str(source), "-o", str(target)], check=True)
        return str(target)

    with ThreadPoolExecutor(2) as pool:
        objects = list(
            pool.map(build, [*sorted(SOURCES.glob("*.cpp")), Path(__file__).with_name("driver.cpp")])
        )
    subprocess.run([compiler, *FLAGS, *objects, "-o", str(folder / "driver")], check=True)
    return folder / "driver"


def run(driver: Path, plans: int) -> None:
    done = subprocess.run(
        [str(driver), str(plans)], capture_output=True, text=True,
        env={**os.environ, "ASAN_OPTIONS": "detect_leaks=1", "UBSAN_OPTIONS": "print_stacktrace=1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout == f"{plans} plans\n"


@pytest.mark.slow
def test_no_sanitizer_complains(driver):
    run(driver, 300)
