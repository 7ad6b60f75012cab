"""One pair of sites: the difference of its tensors, and its judgement."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from twinnet.result.facts import Fact
from twinnet.site import Site

__all__ = ["Difference", "Judged", "PairResult", "Status"]

Status = Literal["pass", "fail", "excused", "untested", "not judged"]


@dataclass(frozen=True, slots=True)
class Difference:
    """How far one tensor is from its counterpart; every figure over all elements of the worst input.

    The figures that a tolerance can name (hull, ulp, snr, psnr, cosine) are each the worst over all inputs.

    `relative` is `max_abs` over the reference's range, `ulp` the distance in units in the last place (None for
    integers), decibel figures are infinite where nothing differs. `channel` is the channel (axis 1 of a tensor with
    three or more axes, else the last axis) with the largest error, `index` the element. `hull` holds the points
    (|reference|, |difference|) that decide every tolerance of the form atol + rtol * |reference|.
    """

    elements: int = 0
    max_abs: float = 0.0
    mean_abs: float = 0.0
    relative: float = 0.0
    mse: float = 0.0
    snr: float = float("inf")
    psnr: float = float("inf")
    cosine: float = 1.0
    ulp: int | None = None
    differing: int = 0
    nan_reference: int = 0
    nan_twin: int = 0
    inf_reference: int = 0
    inf_twin: int = 0
    nonfinite_mismatch: int = 0
    channel: int | None = None
    channel_max_abs: float | None = None
    index: tuple[int, ...] = ()
    value_reference: float | None = None
    value_twin: float | None = None
    range_reference: tuple[float, float] = (0.0, 0.0)
    hull: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Judged:
    """A status, why, and by which rule."""

    status: Status
    reason: Fact | None = None
    rule: str = "noise floor"


@dataclass(frozen=True, slots=True)
class PairResult:
    """One pair and its judgement.

    `difference` is the plain end-to-end comparison of the two captured tensors. `born` is the error this segment
    creates from the inputs the twin itself gave it (absolute, at the worst element), `floor` what rounding may
    create there, `ratio` the largest born error in floor units; `limit` is the ratio that is allowed. `segment`
    names the network's layers that were evaluated, last one first. `reason` says why a status is not "pass".
    """

    site: Site
    twin_site: Site
    status: Status
    how: str = "provenance"
    confidence: float = 1.0
    transform: str = ""
    reason: Fact | None = None
    order: int = 0
    born: float | None = None
    floor: float | None = None
    ratio: float | None = None
    limit: float = 4.0
    rule: str = "noise floor"
    segment: tuple[str, ...] = ()
    sample: int = 0
    difference: Difference = field(default_factory=Difference)
    used: float | None = None
    """The share of its quantiser's range that the values fill, on the sample that fills most; None for floats."""
    automatic: Judged | None = None
    """The judgement without stated tolerances, if these decided; else None."""
