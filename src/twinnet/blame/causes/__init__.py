"""Families of causes, one per file; a new family is one new file with one function under `@family`.

@family
def propose(problem):
    for i, layer in enumerate(problem.layers):
        if layer.kind == "gelu":
            found = fact("activation.approximation", network="none", twin="tanh")
            change = lambda p, i=i: p.change(i, approximate="tanh")
            yield Candidate(kind="activation", fact=found, change=change)

Register the sentence of a fact in `twinnet.report.sentences`. A hypothesis that does not fit raises `NotApplicable`.
"""

from __future__ import annotations

import importlib
import pkgutil

from twinnet.blame.causes.family import FAMILIES, Candidate, Family, NotApplicable, changed, families, family
from twinnet.blame.causes.kinds import KINDS

__all__ = ["FAMILIES", "KINDS", "Candidate", "Family", "NotApplicable", "changed", "families", "family"]

for _module in pkgutil.iter_modules(__path__):
    if not _module.name.startswith("_") and _module.name not in ("family", "kinds"):
        importlib.import_module(f"{__name__}.{_module.name}")
