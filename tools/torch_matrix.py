"""The core tests with one PyTorch after another: `make torch-matrix`.

`python -m tools.torch_matrix 2.9.0 newest@3.13` tries versions of your choice. Each gets a folder with an environment
and a copy of the checkout, which is deleted before the next one starts: PyPI's builds bring several gigabytes of CUDA
packages. All other packages are those of constraints.txt. Rows are kept in torch_matrix.json beside this file; the
table in docs/torch-versions.md is written from it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["Row", "counted", "find_python", "kept_rows", "main", "merged", "table", "tested"]

ROOT = Path(__file__).parents[1]
KEPT = Path(__file__).with_suffix(".json")
PAGE = ROOT / "docs" / "torch-versions.md"

WANTED = ("2.9.0", "2.11.0", "2.13.0", "newest", "newest@3.12", "newest@3.13")
"""What is tried unless told otherwise: PyTorch's version, and the Python if it is not the one that runs this."""

CORE = (
    "tests/test_check.py",
    "tests/test_torch_versions.py",
    "tests/network/test_torch_network.py",
    "tests/network/test_pt2.py",
    "tests/layers/test_read_fx.py",
    "tests/layers/test_evaluate.py",
    "tests/layers/fx",
    "tests/pairing/test_pair.py",
    "tests/judge/test_born.py",
    "tests/blame/test_check.py",
    "tests/blame/test_impact.py",
    "tests/shrink/test_repro.py",
    "tests/shrink/test_kinds_of_fault.py",
    "tests/engines/test_torch.py",
    "tests/engines/test_onnxruntime.py",
    "tests/engines/test_onnx_reference.py",
)
"""What could break with another PyTorch: modules exported and read, watched, converted to ONNX, judged, blamed, cut."""


_FREE = ("torch==", "typing-extensions==", "typing-inspection==")
"""What is not pinned here; the old typing-extensions is for LiteRT's converter, which no core test needs."""


@dataclass(frozen=True, order=True)
class Row:
    """What the core tests gave with one PyTorch in one Python."""

    torch: str
    python: str
    passed: int
    failed: int
    skipped: int
    seconds: int
    failures: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """By PyTorch, then by Python, without patch level."""
        return _numbers(self.torch)[:2], _numbers(self.python)[:2]


def main(words: Sequence[str] | None = None) -> int:
    """Try each wanted version, print its row as soon as it is there, and write table and rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("wanted", nargs="*", default=WANTED, metavar="VERSION[@PYTHON]")
    parser.add_argument(
        "--folder", type=Path, help="where the environments are made (default: a temporary folder)"
    )
    parser.add_argument("--workers", default="2", help="tests at once")
    given = parser.parse_args(words)
    done: list[Row] = []
    for wanted in given.wanted:
        version, _, python = wanted.partition("@")
        interpreter = find_python(python)
        if interpreter is None:
            print(f"no Python {python} here: {wanted} is left out", flush=True)
            continue
        with tempfile.TemporaryDirectory(prefix="torch-matrix-", dir=given.folder) as folder:
            done.append(
                _tried(
                    _newest() if version == "newest" else version, interpreter, Path(folder), given.workers
                )
            )
        print(table(done[-1:]), *done[-1].failures, sep="\n", flush=True)
        _write(merged(kept_rows(), done))
    print(table(done))
    return int(any(row.failed for row in done))


def find_python(version: str) -> str | None:
    """An interpreter of a version such as "3.12": the one that runs this, one on the path, or one of pyenv's."""
    if not version or _numbers(version) == sys.version_info[:2]:
        return sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    found = sorted(pyenv.glob(f"{version}.*/bin/python"), key=lambda p: _numbers(p.parts[-3]))
    return str(found[-1]) if found else shutil.which(f"python{version}")


def counted(report: str | Path) -> tuple[int, int, int, tuple[str, ...]]:
    """How many tests of a JUnit file passed, failed and were skipped, and the names of those that failed."""
    passed = skipped = 0
    failures: list[str] = []
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        if kinds & {"failure", "error"}:
            failures.append(f"{case.get('classname')}::{case.get('name')}")
        elif "skipped" in kinds:
            skipped += 1
        else:
            passed += 1
    # A test may fail and then fail to clean up: one test all the same.
    return passed, len(set(failures)), skipped, tuple(dict.fromkeys(failures))


def merged(old: Iterable[Row], new: Iterable[Row]) -> list[Row]:
    """All rows in order, the new ones in place of the old ones of the same PyTorch and Python."""
    return [row for _, row in sorted({row.key: row for row in (*old, *new)}.items())]


def table(rows: Iterable[Row]) -> str:
    """The rows as Markdown."""
    lines = ["| PyTorch | Python | passed | failed | skipped | seconds |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {r.torch} | {r.python} | {r.passed} | {r.failed} | {r.skipped} | {r.seconds} |" for r in rows
    ]
    return "\n".join(lines)


def _tried(version: str, interpreter: str, folder: Path, workers: str) -> Row:
    print(f"PyTorch {version} with {interpreter}", flush=True)
    checkout, python = folder / "checkout", folder / "venv" / "bin" / "python"
    _copy(checkout)
    pins = folder / "constraints.txt"
    others = [
        line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith(_FREE)
    ]
    pins.write_text("\n".join([*others, f"torch=={version}"]) + "\n")
    _run([interpreter, "-m", "venv", folder / "venv"], folder)
    install = [python, "-m", "pip", "install", "--quiet", "--no-cache-dir", "-c", pins]
    _run([*install, f"torch=={version}"], folder)
    # The native parts know nothing of PyTorch: they are optional, and compiling them would take longer than the tests.
    _run([*install, f"{checkout}[onnx,test]"], folder, CC="false", CXX="false")
    return tested(python, checkout, workers)


def tested(python: str | Path, checkout: Path, workers: str) -> Row:
    """Run the core tests of a copy of the checkout with an interpreter that has the package installed."""
    report, log = checkout / "junit.xml", checkout / "tests.log"
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
    # The installed package is tested, not a checkout that happens to be on the path.
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "TWINNET_TEST_CACHE")}
    start = time.perf_counter()
    with log.open("w") as file:
        everything = [*command, "-n", workers, "--dist", "loadgroup", *CORE]
        subprocess.run(everything, cwd=checkout, env=environment, stdout=file, stderr=subprocess.STDOUT)
    seconds = round(time.perf_counter() - start)
    if not report.exists():
        raise SystemExit(f"the tests did not run:\n{log.read_text()[-4000:]}")
    passed, failed, skipped, failures = counted(report)
    if failed:
        print(log.read_text(), flush=True)
    ask = "import platform, torch; print(torch.__version__, platform.python_version())"
    asked = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True)
    installed, of_python = asked.stdout.split()
    return Row(installed, of_python, passed, failed, skipped, seconds, failures)


def _copy(target: Path) -> None:
    """The checkout as it is, without what git ignores."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in filter(None, listed.split("\0")):
        source = ROOT / name
        if source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)


def _run(command: Sequence[str | Path], folder: Path, **environment: str) -> None:
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")


def _newest() -> str:
    """PyPI's newest version for this Python."""
    command = [sys.executable, "-m", "pip", "index", "versions", "torch"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"^torch \(([^)]+)\)", said, re.M)
    if found is None:
        raise SystemExit(f"pip does not say which PyTorch is the newest:\n{said}")
    return found[1]


def kept_rows() -> list[Row]:
    """The rows measured so far."""
    rows = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else []
    return [Row(**{**row, "failures": tuple(row["failures"])}) for row in rows]


def _write(rows: list[Row]) -> None:
    KEPT.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(
        re.sub(r"^\| PyTorch \|.*\n(\|.*\n)+", lambda _: table(rows) + "\n", text, flags=re.M), "utf-8"
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", version.partition("+")[0]))


if __name__ == "__main__":
    sys.exit(main())
