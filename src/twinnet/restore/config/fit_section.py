"""`[fit]`: tables fitted without any network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from twinnet.restore.config.base import Problem, Section

if TYPE_CHECKING:
    from twinnet.restore.config.whole import Config
    from twinnet.restore.fit.cascade import FitStage

__all__ = ["FitSection", "FitStageSection"]


class FitStageSection(Section):
    """One stage of a fitted cascade."""

    patterns: str | list[str | list[list[int]]] = Field(
        default="P1+P2+P3",
        description="Names joined by +, or a list of names and of taps [dy, dx(, source)].",
    )
    upscale: int = Field(default=1, ge=1, le=4, description="Output pixels per site along each axis.")
    cell: int = Field(default=1, ge=1, le=4, description="Source pixels per site along each axis.")
    interval: int | list[int] = Field(default=5, description="Interval bits: 5 for 9 nodes, 4 for 17.")
    band: int = Field(
        default=0, ge=0, le=15, description="Half-width of the band of compressed tables, or 0."
    )
    sources: list[str] = Field(
        default_factory=list, description="Images read: input, stage1, ...; empty: the stage before."
    )

    def stage(self) -> FitStage:
        """As `fit_cascade` takes it."""
        from twinnet.restore.fit.cascade import FitStage

        interval = self.interval if isinstance(self.interval, int) else tuple(self.interval)
        return FitStage(self.patterns, self.upscale, self.cell, interval, self.band, tuple(self.sources))


class FitSection(Section):
    """Tables fitted to images by least squares, without a network."""

    preset: Literal["tiny", "small", "default", "best", "own"] = Field(
        default="default", description="Which cascade; own: that of stages."
    )
    stages: list[FitStageSection] = Field(
        default_factory=list,
        description="Stages of preset own, each { patterns, upscale, cell, interval, band, sources }.",
    )
    planes: Literal["one", "all"] = Field(
        default="one", description="Colour planes of every image: one, in turn, or all."
    )
    half: bool = Field(default=True, description="Use every image once more at half its size.")
    iterations: list[int] = Field(
        default=[10, 12, 12, 8], min_length=1, description="Iterations on grids of 3, 5, 9, 17, ... nodes."
    )
    shares: list[float] = Field(
        default=[0.1, 0.3, 1.0, 1.0],
        min_length=1,
        description="Share of the images used on each of these grids.",
    )
    size: float = Field(default=0.02, ge=0, description="Penalty on the size of a change.")
    axis: float = Field(default=1.0, ge=0, description="Penalty on differences along one tap.")
    diagonal: float = Field(default=300.0, ge=0, description="Penalty on differences along the diagonal.")
    patience: int = Field(default=1, ge=0, description="Looks at validation without a gain before stopping.")
    threads: int = Field(default=0, ge=0, description="0: as many as there are processors.")

    def cascade(self, scale: int) -> list[FitStage]:
        """The stages to fit."""
        from twinnet.restore.fit.presets import preset

        return [s.stage() for s in self.stages] if self.preset == "own" else preset(self.preset, scale)

    def problems(self, config: Config) -> Iterator[Problem]:
        """Numbers out of range, and stages that do not lead to the scale."""
        from twinnet.errors import UsageError

        if any(n < 1 for n in self.iterations):
            yield Problem(("fit", "iterations"), f"invalid value {self.iterations}", "numbers from 1")
        if any(not 0 < share <= 1 for share in self.shares):
            yield Problem(("fit", "shares"), f"invalid value {self.shares}", "numbers over 0, up to 1")
        if self.preset != "own":
            if self.stages:
                yield Problem(("fit", "stages"), f"preset {self.preset} defines its own stages", "[]")
            return
        from twinnet.restore.fit.cascade import check_stages

        try:
            check_stages([s.stage() for s in self.stages], config.model.scale)
        except UsageError as error:
            yield Problem(("fit", "stages"), error.what, error.hint or "")
