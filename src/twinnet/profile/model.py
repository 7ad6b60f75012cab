"""A profile: what took how long, as dataclasses and as profile.json."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from twinnet.errors import UsageError
from twinnet.files import checked, read_json
from twinnet.profile.pace import Pace
from twinnet.profile.target import Target

__all__ = ["FILE_NAME", "FOLDER", "SCHEMA", "Limit", "Profile", "Quantiles", "Row", "load_profile"]

SCHEMA = 1
FOLDER, FILE_NAME = "profile", "profile.json"
_INSIDE = (f"*/{FILE_NAME}", f"*/{FOLDER}/{FILE_NAME}", f"{FOLDER}/*/{FILE_NAME}")
"""Where a folder holds the profiles of several twins: as `profile` and `check --profile` write them."""
_NAMED = 8

Limit = Literal["compute", "memory", "overhead", ""]
"""What bounds a step: arithmetic, moving data, or the cost of a step that hardly computes; "" where not known."""


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Seconds: the median, and between which values eight of ten runs lie."""

    p10: float
    p50: float
    p90: float

    @staticmethod
    def of(seconds: Sequence[float]) -> Quantiles:
        """From the runs.

        >>> Quantiles.of([1.0, 2.0, 9.0]).p50
        2.0
        """
        if not len(seconds):
            return Quantiles(0.0, 0.0, 0.0)
        p10, p50, p90 = (float(p) for p in np.percentile(seconds, (10, 50, 90)))
        return Quantiles(p10, p50, p90)


@dataclass(frozen=True)
class Row:
    """One step of the engine.

    `network_ops` are all operators of the network that it computes, `sites` their values; `module` and `source` are
    those of the one that computes most, `modules` all of them. A step that only `helps` (a change of layout) computes
    nothing of its own, and stands with the sites it helps to make; one without sites was added by the engine. `seconds`
    are those of each run, `share` is the part of a run: of all steps, and what the engine does between them. `flops`
    and `bytes` follow from shapes.
    """

    name: str
    op: str
    kernel: str = ""
    network_ops: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()
    module: str = ""
    modules: tuple[str, ...] = ()
    source: str = ""
    shape: str = ""
    calls: int = 1
    p10: float = 0.0
    p50: float = 0.0
    p90: float = 0.0
    share: float = 0.0
    bytes: int | None = None
    flops: int | None = None
    intensity: float | None = None
    limit: Limit = ""
    efficiency: float | None = None
    helps: bool = False
    seconds: tuple[float, ...] = ()

    @property
    def label(self) -> str:
        """The name shown to users: the module, else the step.

        >>> Row("relu_nchwc", "Conv", network_ops=("conv2d", "relu"), module="stem.0").label
        'stem.0 conv2d+relu'
        """
        place = self.module or (self.sites[0] if self.sites else self.name)
        return f"{place} {'+'.join(dict.fromkeys(self.network_ops)) or self.op}".strip()


@dataclass(frozen=True)
class Profile:
    """A twin measured: the whole, and each step in execution order.

    `whole` are runs with the engine's timers on, `bare` without; `overhead` is how much longer the former take, as a
    share (by a low quantile of both, of CPU time where it is known), `timer` the seconds that the timers add to a step,
    which are taken off. `gap` is the part of a run without timers that no step accounts for: what the engine does
    between its steps. With `alone` steps were run by themselves, and it may be negative. `joined` is the share of the
    steps' time that belongs to sites of the network, `rest` the others by name. `memory` is the least that holds the
    weights and the values alive at once; `size` what ships. `target` is the machine; None if it is not known, and then
    no row has a limit.
    """

    network: str
    spec: str
    engine: str
    version: str
    repeats: int
    whole: Quantiles
    bare: Quantiles
    overhead: float
    gap: float
    joined: float
    rows: tuple[Row, ...]
    target: Target | None
    rest: tuple[str, ...] = ()
    alone: bool = False
    timer: float = 0.0
    cpu: Quantiles | None = None
    memory: int | None = None
    size: int | None = None
    threads: int | None = None
    loading: tuple[tuple[str, float], ...] = ()
    group: str = ""
    """Profiles with the same group were measured in turns, run by run."""
    runs: tuple[float, ...] = ()
    bare_runs: tuple[float, ...] = ()
    cpu_runs: tuple[float, ...] = ()
    when: str = ""
    pace: Pace | None = None
    """How fast the machine was meanwhile."""
    unpaired: str = ""
    """Why sites could not be paired; then only names and modules tie steps to the network."""
    schema: int = field(default=SCHEMA)

    @property
    def total(self) -> float:
        """The seconds of all steps together."""
        return sum(row.p50 for row in self.rows)

    @property
    def between(self) -> float:
        """The seconds that the engine spends between its steps; 0 where that is not known."""
        return 0.0 if self.alone or not 0 < self.gap < 1 else self.total * self.gap / (1 - self.gap)

    def dearest(self, count: int = 3) -> tuple[Row, ...]:
        """The rows that take most time."""
        return tuple(sorted(self.rows, key=lambda row: -row.p50)[:count])

    def to_json(self) -> str:
        """The text of profile.json."""
        return json.dumps(asdict(self), indent=1, allow_nan=False)

    def of_group(self, group: str) -> Profile:
        """The same, measured in turns with others."""
        return replace(self, group=group)


def load_profile(path: str | Path) -> Profile:
    """Read a profile: profile.json, the folder that holds it, or a run folder."""
    path = Path(path)
    places = (path, path / FILE_NAME, path / FOLDER / FILE_NAME)
    file = next((p for p in places if p.is_file()), None)
    if file is None:
        several = sorted(str(p.parent) for pattern in _INSIDE for p in path.glob(pattern))
        if several:
            named = ", ".join(several[:_NAMED]) + (", ..." if len(several) > _NAMED else "")
            what = "several profiles" if len(several) > 1 else "a profile in another folder"
            raise UsageError(f"{path} holds {what}", hint=f"name one: {named}")
        raise UsageError(
            f"no profile in {path}", hint="twinnet profile NETWORK --twin SPEC --out DIR writes one"
        )
    data: Any = read_json(file, "profile")
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise UsageError(f"{file} is not a profile of version {SCHEMA}")
    made = checked(Profile, data, str(file))
    if not all(math.isfinite(time) and time >= 0 for time in _times(made)):
        raise UsageError(f"{file}: a time is negative, or no number")
    if not all(map(math.isfinite, _shares(made))):
        raise UsageError(f"{file}: a share is no number")
    return made


def _times(profile: Profile) -> Iterator[float]:
    yield from (*profile.runs, *profile.bare_runs, *profile.cpu_runs, profile.timer)
    for every in (profile.whole, profile.bare, profile.cpu):
        if every is not None:
            yield from (every.p10, every.p50, every.p90)
    for row in profile.rows:
        yield from (row.p10, row.p50, row.p90, *row.seconds)
    if profile.pace is not None:
        yield from (*profile.pace.products, *profile.pace.copies, *profile.pace.together)


def _shares(profile: Profile) -> Iterator[float]:
    yield from (profile.overhead, profile.gap, profile.joined)
    for row in profile.rows:
        yield from (row.share, row.intensity or 0.0, row.efficiency or 0.0)
