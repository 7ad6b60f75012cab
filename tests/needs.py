"""What a test needs beside the package: a data set or an engine. Absent, it is skipped or fails."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

import pytest

__all__ = ["absent", "need_data", "need_engine"]


def absent(reason: str) -> NoReturn:
    """Skip with a reason; with TWINNET_REQUIRE=all, fail instead."""
    if os.environ.get("TWINNET_REQUIRE") == "all":
        pytest.fail(reason)
    pytest.skip(reason)


def need_data(*parts: str) -> Path:
    """The folder of test data, or a part of it."""
    root = os.environ.get("TWINNET_DATA")
    if not root:
        absent("TWINNET_DATA is not set: no data to test with")
    path = Path(root, *parts)
    if not path.exists():
        absent(f"{path} does not exist")
    return path


def need_engine(name: str) -> str:
    """The version of an engine that must be installed."""
    from twinnet.engines import find_engine
    from twinnet.errors import MissingExtra

    try:
        return find_engine(name).version()
    except MissingExtra as error:
        absent(f"engine {name}: {error}")
