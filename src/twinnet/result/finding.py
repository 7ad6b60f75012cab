"""Findings, their causes, and advice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from twinnet.result.facts import Fact
from twinnet.site import Site

__all__ = ["Advice", "AdviceStep", "Cause", "Finding"]


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a finding differs; `kind` from one documented enumeration, `explains` the share of the born error.

    `fact` says what the twin does instead. `layer` is the layer that does it; None if the cause does not say which.
    """

    kind: str
    fact: Fact
    explains: float
    layer: Site | None = None

    @property
    def sentence(self) -> str:
        """The fact in words."""
        return str(self.fact)

    @property
    def network_value(self) -> Any:
        """The network's value, if there is a single one."""
        return self.fact.network_value

    @property
    def twin_value(self) -> Any:
        """The twin's value, if there is a single one."""
        return self.fact.twin_value


@dataclass(frozen=True, slots=True)
class Finding:
    """A segment whose born error exceeds its budget.

    `error` is the end-to-end difference at the site, `born` the part created here, `floor` what rounding explains,
    `ratio` = born over floor. `inherited_by` counts the later failing sites that lie downstream of it.

    `confirmed` tells whether the twin's segment, run alone on the inputs it had, shows it too; None where it cannot be
    run alone, and `confirmation` then says why. `also` are further places that show the same fault, and `tie` says why
    it is one: they share the guilty layer, a weight, or a term of tables. `merged` names the segments that, together
    with this one, explain the share `explained` of the output error, where the findings by themselves explain less than
    90 % of it.
    """

    site: Site
    twin_site: Site
    error: float
    floor: float
    ratio: float
    born: float
    impact: float | None = None
    born_share: float | None = None
    cause: Cause | None = None
    segment: tuple[str, ...] = ()
    inherited_by: int = 0
    reason: Fact | None = None
    confirmed: bool | None = None
    confirmation: Fact | None = None
    also: tuple[Site, ...] = ()
    tie: Fact | None = None
    merged: tuple[str, ...] = ()
    explained: float | None = None

    @property
    def guilty(self) -> Site | None:
        """The layer of the segment that causes the error, if known."""
        return None if self.cause is None else self.cause.layer

    @property
    def place(self) -> Site:
        """Where to look: the guilty layer if known, else the site where the segment ends."""
        layer = self.guilty
        return self.site if layer is None or layer.tensor == self.site.tensor else layer

    def __repr__(self) -> str:
        said = self.cause.sentence if self.cause is not None else str(self.reason or "")
        return f"<{self.place.label}: {said or 'differs'}, {self.ratio:.3g} x the noise floor>"


@dataclass(frozen=True, slots=True)
class AdviceStep:
    """The outputs with some segments kept in float: how many, which (tensors of the network), and how near they come.

    `snr` and `psnr` are of the worst output over all inputs that were run, `max_abs` is its largest difference.
    `seconds` are those of one run that way, if times were asked for.
    """

    kept: int
    tensors: tuple[str, ...]
    places: tuple[str, ...]
    snr: float
    psnr: float
    max_abs: float
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Advice:
    """Which segments to keep in float, and the measured gain.

    `steps` begin with the twin as it is. `best` is the number of segments advised, one of the steps. `how` tells
    whether the twin was run that way or only simulated with the network's layers, and `note` why. `file` is the
    improved twin, where one was written.
    """

    steps: tuple[AdviceStep, ...]
    best: int
    how: Literal["run", "simulated"]
    samples: int
    note: str = ""
    target: float | None = None
    reached: bool = True
    file: str = ""

    @property
    def chosen(self) -> AdviceStep:
        """The advised step."""
        return next((s for s in self.steps if s.kept == self.best), AdviceStep(0, (), (), 0.0, 0.0, 0.0))
