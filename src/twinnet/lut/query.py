"""Finding sites by name."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Protocol, TypeVar

from twinnet.errors import UsageError

__all__ = ["find_sites"]


class _Named(Protocol):
    @property
    def name(self) -> str: ...


AnySite = TypeVar("AnySite", bound=_Named)


def find_sites(sites: Iterable[AnySite], query: str) -> list[AnySite]:
    """Sites whose name equals `query` or matches it as a pattern (`*`, `?`); a leading dot is ignored.

    >>> from twinnet.restore.nets import spf
    >>> net = spf.build("s", scale=2, width=4)
    >>> [site.name for site in find_sites(net.sites(), ".convblock1.in_c0")]
    ['convblock1.in_c0']
    >>> len(find_sites(net.sites(), "convblock1.*.sr"))
    4
    """
    known = list(sites)
    wanted = query.removeprefix(".")
    found = [site for site in known if site.name == wanted or fnmatchcase(site.name, wanted)]
    if not found:
        near = [site.name for site in known if site.name.startswith(wanted.split(".")[0])]
        near = near or [site.name for site in known]
        hint = f"for example: {', '.join(near[:3])}"
        raise UsageError(f"no site matches {query!r}", hint=hint)
    return found
