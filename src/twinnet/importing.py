"""Import late, or beside other work: names of a package on first use, a heavy package in the background."""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from twinnet.extras import optional_packages

__all__ = ["importing", "names_from"]


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


def names_from(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package whose names load on first use; `homes` are the modules in it that have them.

    A name whose module needs a package that is not installed raises `MissingExtra`.

    >>> names_from("twinnet", {"Site": "site"})("Site").__module__
    'twinnet.site'
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with optional_packages():
            value = getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
