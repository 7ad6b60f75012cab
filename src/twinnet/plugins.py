"""Plugins: engines, causes, metrics and tasks that other packages add, each by an entry point.

A package adds an engine with two lines in its `pyproject.toml`:

    [project.entry-points."twinnet.engines"]
    toy = "toy_engine:ToyEngine"

Entry points are looked up only for names that twinnet does not have itself. A plugin is imported when it is used; if
that fails, the error names its package.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from twinnet.errors import UsageError, foreign_as

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

__all__ = ["KINDS", "Kind", "Plugin", "ignored", "plugins"]

Kind = Literal["engine", "cause", "metric", "task"]
KINDS: tuple[Kind, ...] = ("engine", "cause", "metric", "task")
"""Kinds of plugins. The entry point group of a kind is `twinnet.<kind>s`."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """One entry point and the package that declares it."""

    kind: Kind
    entry: EntryPoint
    package: str
    version: str

    @property
    def name(self) -> str:
        """What users call it."""
        return self.entry.name

    @property
    def origin(self) -> str:
        """The package and its version."""
        return f"{self.package} {self.version}"

    def __str__(self) -> str:
        return f"the {self.kind} {self.name!r} of {self.origin}"

    def load(self) -> Any:
        """The object behind the entry point, imported now."""
        with foreign_as(lambda error: self.broken(f"cannot be loaded: {type(error).__name__}: {error}")):
            return self.entry.load()

    def broken(self, words: str) -> UsageError:
        """The error for a faulty plugin, which names the package to repair."""
        place = f"entry point {self.name} = {self.entry.value} in the group twinnet.{self.kind}s"
        return UsageError(f"{self} {words}", hint=f"{place}; update or uninstall {self.package}")


def plugins(kind: Kind, own: Collection[str] = ()) -> Mapping[str, Plugin]:
    """The plugins of a kind by name. Those whose name is in `own` are ignored.

    >>> sorted(plugins("metric", own=["psnr"]))
    []
    """
    first: dict[str, Plugin] = {}
    for plugin in _stated(kind):
        if plugin.name not in own:
            first.setdefault(plugin.name, plugin)
    return first


def ignored(kind: Kind, own: Collection[str] = ()) -> tuple[str, ...]:
    """A sentence for every plugin whose name is already taken, by twinnet or by another package."""
    used = plugins(kind, own)
    said = []
    for plugin in _stated(kind):
        if plugin.name in own:
            said.append(f"{plugin} is ignored: twinnet has one of that name")
        elif plugin is not used[plugin.name]:
            said.append(f"{plugin} is ignored: {used[plugin.name].origin} has one of that name")
    return tuple(said)


@cache
def _stated(kind: Kind) -> tuple[Plugin, ...]:
    """All entry points of a kind, by package and name: the same on every machine."""
    found = []
    for entry in _entry_points().select(group=f"twinnet.{kind}s"):
        if entry.dist is not None:
            found.append(Plugin(kind, entry, entry.dist.name, entry.dist.version))
    return tuple(sorted(found, key=lambda plugin: (plugin.package, plugin.name)))


@cache
def _entry_points() -> EntryPoints:
    """The entry points of all packages: reading one group takes as long as reading all."""
    from importlib.metadata import entry_points  # not needed by most commands

    found: Any = entry_points()  # Python 3.11 gives another class with the same methods
    return found
