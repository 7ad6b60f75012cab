"""What all sections of a config share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler
from pydantic_core.core_schema import CoreSchema, no_info_after_validator_function

if TYPE_CHECKING:
    from twinnet.restore.config.whole import Config

__all__ = ["OneOf", "Problem", "Section"]


@dataclass(frozen=True)
class Problem:
    """A mistake in a config: its key (`("model", "scale")`), what is wrong, and what is allowed."""

    key: tuple[str, ...]
    what: str
    allowed: str = ""


@dataclass(frozen=True)
class OneOf:
    """Marks a string that must be one of several names, which are looked up when it is checked."""

    names: Callable[[], Collection[str]]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_after_validator_function(self._checked, handler(source))

    def _checked(self, name: str) -> str:
        if name not in self.names():
            raise ValueError(f"there is no {name!r}")
        return name


class Section(BaseModel):
    """One `[section]`. Every field has a default and a description, which becomes its comment in the file.

    Types are strict and unknown keys are refused. `problems` checks what depends on several fields or sections.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    def problems(self, config: Config) -> Iterator[Problem]:
        """Invalid combinations in this section."""
        yield from ()
