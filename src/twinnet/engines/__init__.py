"""Engines: whatever can convert, load and run a network. One file each, imported only when asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from twinnet.engines.spec import Spec, parse_spec, parse_specs
from twinnet.errors import UsageError

if TYPE_CHECKING:
    from twinnet.engines.base import Engine

__all__ = ["REGISTRY", "Spec", "find_engine", "parse_spec", "parse_specs"]

REGISTRY: dict[str, str] = {
    "torch": "twinnet.engines.torch:TorchEngine",
    "onnxruntime": "twinnet.engines.onnxruntime:OnnxRuntimeEngine",
    "openvino": "twinnet.engines.openvino:OpenVinoEngine",
    "onnx-reference": "twinnet.engines.onnx_reference:OnnxReferenceEngine",
    "iree": "twinnet.engines.iree:IreeEngine",
    "lut": "twinnet.tables.engine:LutEngine",
    "lut-native": "twinnet.tables.engine:LutNativeEngine",
    "command": "twinnet.engines.command:CommandEngine",
    "callable": "twinnet.engines.callable:CallableEngine",
    "recording": "twinnet.engines.recording:RecordingEngine",
}
"""Engine name to "module:class". A new engine is one file and one line here."""


def find_engine(name: str) -> Engine:
    """The engine of that name.

    >>> find_engine("onnxruntime").extra
    'onnx'
    """
    target = REGISTRY.get(name)
    if target is None:
        raise UsageError(f"there is no engine {name!r}", hint=f"engines: {', '.join(REGISTRY)}")
    module, _, attribute = target.partition(":")
    return getattr(import_module(module), attribute)()
