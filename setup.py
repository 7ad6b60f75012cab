"""Builds the native parts where a C++ compiler is at hand. Everything else is in pyproject.toml.

The extensions are optional: without a compiler (GCC 12 or newer, or Clang) the package installs all the same, runs
tables on its numpy path with the same results, and fits them more slowly.
"""

from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel

SHARED = Path("src/twinnet/native")
"""Headers that the native parts share."""


def native(name: str) -> Extension:
    """One library from all C++ sources beside it."""
    here = Path("src", *name.split(".")[:-1])
    return Extension(
        name,
        sources=sorted(str(path) for path in here.glob("*.cpp")),
        depends=sorted(
            str(path)
            for pattern in ("*.h", "*.hpp", "*.inc")
            for folder in (here, SHARED)
            for path in folder.glob(pattern)
        ),
        language="c++",
        # No -march: the kernels are compiled once per instruction set and chosen at run time.
        extra_compile_args=["-std=c++17", "-O3", "-g0", "-pthread", "-Wno-psabi"],
        extra_link_args=["-pthread"],
        optional=True,
    )


class AnyPython(bdist_wheel):
    """One wheel for every Python: the libraries have a C interface, are loaded with ctypes and know no Python."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


setup(
    ext_modules=[native("twinnet.lut.native._engine"), native("twinnet.restore.native._fit")],
    cmdclass={"bdist_wheel": AnyPython},
)
