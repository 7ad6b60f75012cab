"""A heavy package is imported while something else is at work."""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["importing"]


@contextmanager
def importing(package: str) -> Iterator[bool]:
    """Import a package in a thread while the body runs, and wait for it; tells whether there is anything to wait for.

    It pays where the body leaves Python alone, as engines do while they load and run. A package that cannot be
    imported is no error here: whoever needs it says so, in words of its own.

    >>> with importing("json") as waiting:
    ...     pass
    >>> waiting
    False
    """
    if package in sys.modules:
        yield False
        return

    def load() -> None:
        with contextlib.suppress(ImportError, OSError):
            importlib.import_module(package)

    thread = threading.Thread(target=load, name=f"import {package}")
    thread.start()
    try:
        yield True
    finally:
        thread.join()
