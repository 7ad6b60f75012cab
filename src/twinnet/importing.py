"""Import a heavy package in the background."""

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
    """Import a package in a thread while the body runs, then wait for it. Yields whether there is anything to wait for.

    This saves time where the body releases the GIL, as engines do while they load and run. A package that cannot be
    imported is not an error here: the code that needs it reports that.

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
