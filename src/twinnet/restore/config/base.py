"""What all sections of a config share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from twinnet.restore.config.whole import Config

__all__ = ["Problem", "Section"]


@dataclass(frozen=True)
class Problem:
    """Something impossible in a config: at `key` (`("model", "scale")`), what it is, and what would be possible."""

    key: tuple[str, ...]
    what: str
    allowed: str = ""


class Section(BaseModel):
    """One `[section]`. Every field has a default and a description, which becomes its comment in the file.

    Types are strict and unknown keys refused. What depends on several fields, or on other sections, is said by
    `problems`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    def problems(self, config: Config) -> Iterator[Problem]:
        """Impossible combinations in this section."""
        yield from ()
