"""The page at `/`: static files."""

from __future__ import annotations

from importlib.resources import files

__all__ = ["asset"]

_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/app.js": ("app.js", "text/javascript; charset=utf-8"),
    "/maps.js": ("maps.js", "text/javascript; charset=utf-8"),
    "/style.css": ("style.css", "text/css; charset=utf-8"),
}


def asset(path: str) -> tuple[bytes, str] | None:
    """The content and MIME type of a file of the page; None for any other path.

    >>> asset("/")[1], asset("/../server.py")
    ('text/html; charset=utf-8', None)
    """
    if path not in _FILES:
        return None
    name, kind = _FILES[path]
    return (files(__name__) / name).read_bytes(), kind
