"""What this run ran on: enough to reproduce it, nothing personal."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

__all__ = ["environment", "version_of"]

_PACKAGES = (
    "twinnet",
    "torch",
    "numpy",
    "onnx",
    "onnxruntime",
    "openvino",
    "onnxscript",
    "onnx-ir",
    "safetensors",
)


def version_of(package: str) -> str | None:
    """The installed version of a package, without importing it."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def environment() -> dict[str, str]:
    """Versions, processor, cores, and the environment variables that steer numerics.

    >>> {"cores", "numpy", "python"} <= set(environment())
    True
    """
    found = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": str(os.cpu_count() or 1),
    }
    found.update({p: v for p in _PACKAGES if (v := version_of(p))})
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
