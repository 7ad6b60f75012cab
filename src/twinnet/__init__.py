"""twinnet: does the network you ship compute what the network you trained computes? Where, and why not?

>>> import twinnet
>>> callable(twinnet.check)
True
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from twinnet.report import speaker as _speaker  # noqa: F401 (so that results can say themselves)

if TYPE_CHECKING:
    from twinnet.check import check
    from twinnet.checking.compare import compare
    from twinnet.checking.options import Advise, Limits
    from twinnet.checking.record import record
    from twinnet.errors import EngineError, TwinnetError, UsageError
    from twinnet.inspector import Inspector, compare_results
    from twinnet.judge.tolerance import Tolerance
    from twinnet.ladder import ladder
    from twinnet.result import Ladder, Result, ResultSet, StagedResult
    from twinnet.shrink.make import repro
    from twinnet.stages import stages
    from twinnet.structure import diff

__all__ = [
    "Advise",
    "EngineError",
    "Inspector",
    "Ladder",
    "Limits",
    "Result",
    "ResultSet",
    "StagedResult",
    "Tolerance",
    "TwinnetError",
    "UsageError",
    "__version__",
    "check",
    "compare",
    "compare_results",
    "diff",
    "ladder",
    "record",
    "repro",
    "stages",
]

__version__ = "0.1.0"

_HOMES = {
    "Advise": "twinnet.checking.options",
    "EngineError": "twinnet.errors",
    "Inspector": "twinnet.inspector",
    "Ladder": "twinnet.result",
    "Limits": "twinnet.checking.options",
    "Result": "twinnet.result",
    "ResultSet": "twinnet.result",
    "StagedResult": "twinnet.result",
    "Tolerance": "twinnet.judge.tolerance",
    "TwinnetError": "twinnet.errors",
    "UsageError": "twinnet.errors",
    "check": "twinnet.check",
    "compare": "twinnet.checking.compare",
    "compare_results": "twinnet.inspector",
    "diff": "twinnet.structure",
    "ladder": "twinnet.ladder",
    "record": "twinnet.checking.record",
    "repro": "twinnet.shrink.make",
    "stages": "twinnet.stages",
}


def __getattr__(name: str) -> Any:
    # Nothing heavy is imported before it is used: `import twinnet` loads neither numpy nor torch.
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'twinnet' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


class _Package(ModuleType):
    """The package, whose verb `check` must not be hidden by the module of that name once that is imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and _HOMES.get(name) == value.__name__:
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted(__all__)
