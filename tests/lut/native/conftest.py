"""What the tests of the engines share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from twinnet.errors import EngineError


@pytest.fixture(scope="session")
def engine():
    """The installed native engine."""
    from twinnet.lut.native import library

    try:
        return library()
    except EngineError as error:
        if os.environ.get("TWINNET_REQUIRE") == "all":
            raise
        pytest.skip(f"native engine: {error.what}")


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of published tables and golden images."""
    folder = os.environ.get("TWINNET_DATA")
    if not folder:
        pytest.skip("set TWINNET_DATA to the folder of published tables and golden images")
    return Path(folder)
