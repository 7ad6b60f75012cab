"""Tables for notebooks. pandas is not a dependency: whoever asks for a frame has it."""

from __future__ import annotations

from typing import Any

from twinnet.errors import UsageError

__all__ = ["pandas_module"]


def pandas_module() -> Any:
    """pandas, or a UsageError that says how to get it."""
    try:
        import pandas
    except ImportError:
        raise UsageError("pandas is not installed", hint="pip install pandas") from None
    return pandas
