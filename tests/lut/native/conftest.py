"""What the tests of the engines share."""

from __future__ import annotations

import pytest
from tests.needs import absent

from twinnet.errors import EngineError


@pytest.fixture(scope="session")
def engine():
    """The installed native engine."""
    from twinnet.lut.native import library

    try:
        return library()
    except EngineError as error:
        absent(f"native engine: {error.what}")
