"""How ATen operators become canonical layers: one rule per operator, in files named like those of the kinds.

A rule takes a `Call` and returns a `Form`; a new operator is one function with `@rules.add("its_name")` in
the file of its kind. Files are imported automatically. An operator without a rule stays opaque.
"""

from __future__ import annotations

import importlib
import pkgutil

from twinnet.layers.fx.call import Call, Const, Form, Out, Result, Symbolic, qualified, rules, spoken
from twinnet.layers.fx.opaque import opaque
from twinnet.layers.fx.provenance import Place, place

__all__ = [
    "Call",
    "Const",
    "Form",
    "Out",
    "Place",
    "Result",
    "Symbolic",
    "opaque",
    "place",
    "qualified",
    "rules",
    "spoken",
]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
