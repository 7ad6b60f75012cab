"""All sections together."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict

from twinnet.restore.config.base import Problem, Section
from twinnet.restore.config.fit_section import FitSection
from twinnet.restore.config.sections import (
    DataSection,
    ExportSection,
    FinetuneSection,
    ModelSection,
    TrainSection,
)

__all__ = ["SECTIONS", "VERSION", "Config"]

VERSION = 1
"""Version of the file's format."""


class Config(BaseModel):
    """What `config.toml` says. A new section is one more line here: its model, with defaults for everything."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    model: ModelSection = ModelSection()
    data: DataSection = DataSection()
    train: TrainSection = TrainSection()
    export_lut: ExportSection = ExportSection()
    finetune_lut: FinetuneSection = FinetuneSection()
    fit: FitSection = FitSection()

    def problems(self) -> Iterator[Problem]:
        """Everything impossible, over all sections."""
        for name in SECTIONS:
            yield from getattr(self, name).problems(self)


def _sections() -> dict[str, type[Section]]:
    found: dict[str, type[Section]] = {}
    for name, field in Config.model_fields.items():
        assert isinstance(field.annotation, type) and issubclass(field.annotation, Section)
        found[name] = field.annotation
    return found


SECTIONS: dict[str, type[Section]] = _sections()
"""The models of all sections by name, in the order of the file."""
