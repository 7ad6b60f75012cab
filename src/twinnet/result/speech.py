"""The registered speaker that puts results into words; `twinnet.report` registers itself when imported."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from twinnet.result.facts import Fact

__all__ = ["Speaker", "speaker", "use"]


class Speaker(Protocol):
    """Used by results when they are shown, written or read."""

    def words(self, fact: Fact) -> str:
        """A fact as a sentence."""
        ...

    def screen(self, thing: Any) -> str:
        """A result, or a comparison of two structures, on one screen of text."""
        ...

    def fragment(self, result: Any) -> str:
        """A result for a notebook, as HTML."""
        ...

    def to_json(self, thing: Any) -> str:
        """The JSON text of a result, or of a comparison of two structures."""
        ...

    def frame(self, result: Any) -> Any:
        """The pairs of a result as a pandas DataFrame."""
        ...

    def drawing(self, result: Any, site: str) -> Any:
        """The difference of a result at one site, drawn."""
        ...

    def save(self, result: Any, folder: str | Path) -> Path:
        """Write the run folder of a result that is in memory."""
        ...

    def load(self, folder: str | Path) -> Any:
        """The result that a run folder holds."""
        ...


_IN_USE: list[Speaker] = []


def use(speaker: Speaker) -> None:
    """Register the speaker."""
    _IN_USE[:] = [speaker]


def speaker() -> Speaker:
    """The registered speaker; `import twinnet` registers one."""
    return _IN_USE[0]
