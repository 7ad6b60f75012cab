"""twinnet: does the network you ship compute what the network you trained computes? If not, where, and why?

>>> import twinnet
>>> callable(twinnet.check)
True
"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from twinnet.importing import names_from
from twinnet.report import speaker as _speaker  # noqa: F401 (so that results can say themselves)

# ONNX Runtime reports its use to its maker, unless it is told not to before it is imported. Programs that engines start
# inherit this; those on other machines say it themselves. Whoever wants it sets the variable to 0.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

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
    "Advise": "checking.options",
    "EngineError": "errors",
    "Inspector": "inspector",
    "Ladder": "result",
    "Limits": "checking.options",
    "Result": "result",
    "ResultSet": "result",
    "StagedResult": "result",
    "Tolerance": "judge.tolerance",
    "TwinnetError": "errors",
    "UsageError": "errors",
    "check": "check",
    "compare": "checking.compare",
    "compare_results": "inspector",
    "diff": "structure",
    "ladder": "ladder",
    "record": "checking.record",
    "repro": "shrink.make",
    "stages": "stages",
}


# Nothing heavy is imported before it is used: `import twinnet` loads neither numpy nor torch.
__getattr__ = names_from(__name__, _HOMES)


class _Package(ModuleType):
    """The package, whose verb `check` must not be hidden by the module of that name once that is imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and value.__name__ == f"{__name__}.{_HOMES.get(name)}":
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted(__all__)
