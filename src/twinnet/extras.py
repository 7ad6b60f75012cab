"""Optional packages: which extra of twinnet brings them, and what to say where one is missing.

`pip install twinnet` runs tables and reads finished runs. Comparing networks needs PyTorch, and each engine its own
packages; they are imported where they are used, and a missing one is an ordinary ImportError there. At the doors of the
package (its public functions, the command line) that becomes a `MissingExtra`, which names the extra to install.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from twinnet.errors import MissingExtra

__all__ = ["BROUGHT_BY", "missing_extra", "optional_package", "optional_packages"]

_BRINGS = """
torch           torch
onnx            onnx onnx_ir onnxscript onnxruntime
openvino        openvino
iree            iree
litert          ai_edge_litert
litert-convert  litert_torch ai_edge_quantizer
executorch      executorch torchao
suite           pytest xdist
ray             ray
dashboard       fastapi uvicorn sqlalchemy alembic psycopg fsspec
train           accelerate tensorboard cv2
video           av
perfetto        perfetto
"""

BROUGHT_BY: dict[str, str] = {
    package: words[0] for words in map(str.split, _BRINGS.strip().splitlines()) for package in words[1:]
}
"""The extra that installs a package, by the name it is imported under."""

_SPOKEN = {
    "torch": "PyTorch",
    "cv2": "OpenCV",
    "av": "PyAV, which reads videos,",
    "ai_edge_litert": "ai-edge-litert",
}


def missing_extra(error: ImportError) -> MissingExtra | None:
    """What to tell a person about a failed import: None unless an optional package is not installed at all.

    >>> missing_extra(ModuleNotFoundError("No module named 'nonsense'", name="nonsense")) is None
    True
    """
    package = (error.name or "").partition(".")[0]
    extra = BROUGHT_BY.get(package)
    if extra is None or importlib.util.find_spec(package) is not None:
        return None
    return MissingExtra(_SPOKEN.get(package, package), extra)


@contextmanager
def optional_packages() -> Iterator[None]:
    """Inside, or in a function decorated with it, a missing optional package is a `MissingExtra`.

    >>> with optional_packages():
    ...     import json
    """
    try:
        yield
    except ImportError as error:
        found = missing_extra(error)
        if found is None:
            raise
        raise found from error


def optional_package(name: str) -> Any:
    """Import an optional package; a `MissingExtra` where it is not installed."""
    with optional_packages():
        return importlib.import_module(name)
