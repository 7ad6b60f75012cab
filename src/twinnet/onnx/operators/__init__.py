"""How ONNX operators become canonical layers: one small translator per operator, found by name.

A translator takes a `Node` and emits layers, or raises: ValueError if only onnx.reference can evaluate the
node, NotImplementedError if not even that, because our tensors do not hold the node's types. What changed
between opsets (attributes that became inputs, defaults) is settled there, so that nothing downstream knows an
opset. A new operator is one function in one of the files beside this one; the files are found by themselves.
"""

from __future__ import annotations

import importlib
import pkgutil

from twinnet.onnx.operators._node import Node, Scope, Translator, op, translator

__all__ = ["Node", "Scope", "Translator", "op", "translator"]

for _module in pkgutil.iter_modules(__path__):
    if not _module.name.startswith("_"):
        importlib.import_module(f"{__name__}.{_module.name}")
