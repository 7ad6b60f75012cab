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
    from twinnet.errors import EngineError, TwinnetError, UsageError
    from twinnet.recording import compare, record
    from twinnet.result import Result, ResultSet, StagedResult
    from twinnet.shrink.make import repro
    from twinnet.stages import stages
    from twinnet.structure import diff

__all__ = [
    "EngineError",
    "Result",
    "ResultSet",
    "StagedResult",
    "TwinnetError",
    "UsageError",
    "__version__",
    "check",
    "compare",
    "diff",
    "record",
    "repro",
    "stages",
]

__version__ = "0.1.0"

_HOMES = {
    "EngineError": "twinnet.errors",
    "Result": "twinnet.result",
    "ResultSet": "twinnet.result",
    "StagedResult": "twinnet.result",
    "TwinnetError": "twinnet.errors",
    "UsageError": "twinnet.errors",
    "check": "twinnet.check",
    "compare": "twinnet.recording",
    "diff": "twinnet.structure",
    "record": "twinnet.recording",
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
