"""The environment of a run: enough to reproduce it, nothing personal."""

from __future__ import annotations

import os
import platform
from functools import cache
from importlib import metadata
from pathlib import Path

from twinnet.engines import all_engines
from twinnet.plugins import KINDS, plugins

__all__ = ["environment", "version_of"]

_PACKAGES = ("twinnet", "torch", "numpy", "onnx", "onnxscript", "onnx-ir", "safetensors")
"""Packages that any check may use; engines list their own."""


@cache
def version_of(package: str) -> str | None:
    """The installed version of a package, without importing it."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def environment() -> dict[str, str]:
    """Versions, processor, cores, and the environment variables that steer numerics.

    Versions are those of twinnet, its engines and its plugins.

    >>> {"cores", "numpy", "python"} <= set(environment())
    True
    """
    found = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": str(os.cpu_count() or 1),
    }
    engines = (package for engine in all_engines() for package in engine.packages)
    added = (plugin.package for kind in KINDS for plugin in plugins(kind).values())
    found.update({p: v for p in (*_PACKAGES, *engines, *added) if (v := version_of(p))})
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "ORT_DISABLE_ALL", "ATEN_CPU_CAPABILITY"):
        if name in os.environ:
            found[name] = os.environ[name]
    return found


def _processor() -> str:
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
        if names:
            return names[0]
    except OSError:
        pass
    return platform.processor() or platform.machine()
