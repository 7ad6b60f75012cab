"""How ONNX operators become canonical layers: one small translator per operator, found by name.

A translator takes a `Node` and emits layers, or raises ValueError if only onnx.reference can evaluate the node,
NotImplementedError if our tensors cannot hold the node's types. Differences between opsets (attributes that became
inputs, defaults) are handled here, so that the rest of the package does not depend on the opset. To add an operator,
add a function to one of the files in this folder; they are imported automatically.
"""

from __future__ import annotations

import importlib
import pkgutil

from twinnet.onnx.operators._node import Node, Scope, Translator, op, translator

__all__ = ["Node", "Scope", "Translator", "op", "translator"]

for _module in pkgutil.iter_modules(__path__):
    if not _module.name.startswith("_"):
        importlib.import_module(f"{__name__}.{_module.name}")
