"""Builds the native table engine where a C++ compiler is at hand. Everything else is in pyproject.toml.

The extension is optional: without a compiler (GCC 12 or newer, or Clang) the package installs all the same
and runs tables on its numpy path, with the same results.
"""

from pathlib import Path

from setuptools import Extension, setup

HERE = Path("src/twinnet/lut/native")

setup(
    ext_modules=[
        Extension(
            "twinnet.lut.native._engine",
            sources=sorted(str(path) for path in HERE.glob("*.cpp")),
            depends=sorted(str(path) for pattern in ("*.h", "*.hpp", "*.inc") for path in HERE.glob(pattern)),
            language="c++",
            # No -march: the kernels are compiled once per instruction set and chosen at run time.
            extra_compile_args=["-std=c++17", "-O3", "-g0", "-pthread", "-Wno-psabi"],
            extra_link_args=["-pthread"],
            optional=True,
        )
    ]
)
