"""Stated tolerances. Without them the noise floor decides.

Flags (`--rtol`, `--atol`, `--ulp`, `--snr`, `--psnr`, `--cosine`) judge the outputs. A TOML file can also name inner
sites; the last rule that matches a site applies::

    [[rule]]
    op = "softmax"            # any of: site, module, op, dtype (patterns with * and ?); none: the outputs
    atol = 1e-4

    [[rule]]
    module = "head.*"
    rtol = 1e-2
    snr = 40.0
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from twinnet.errors import UsageError
from twinnet.files import read_toml
from twinnet.result import Difference, Fact, Guard, Judged, fact
from twinnet.site import Site

__all__ = ["Rule", "Tolerance", "Tolerances", "by_tolerance", "read_rules", "read_tolerances"]

_HUGE = 1e300
_LIMITS = {
    "rtol": (0.0, _HUGE),
    "atol": (0.0, _HUGE),
    "ulp": (0.0, 2.0**31),  # from one end of float32 to 0
    "snr": (-1000.0, 1000.0),
    "psnr": (-1000.0, 1000.0),
    "cosine": (-0.999999, 1.0),
}


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Limits on a difference; all that are stated must hold. If only one of rtol and atol is given, the other is 0.

    >>> str(Tolerance(atol=0.1).complaint(Difference(elements=1, max_abs=0.5, hull=((1.0, 0.5),))))
    'differs by 0.5 where atol 0.1 + rtol 0 x |1| allows 0.1'
    """

    rtol: float | None = None
    atol: float | None = None
    ulp: float | None = None
    snr: float | None = None
    psnr: float | None = None
    cosine: float | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            low, high = _LIMITS[field.name]
            if value is not None and not low <= value <= high:
                span = f"from {low:g} to {high:g}" if high < _HUGE else f"a number from {low:g}"
                raise UsageError(
                    f"{field.name} {value:g} is not a limit: every difference would pass, or none could",
                    hint=f"{field.name} is {span}",
                )

    @property
    def stated(self) -> bool:
        return any(getattr(self, f.name) is not None for f in fields(self))

    def complaint(self, difference: Difference, name: str = "") -> Fact | None:
        """Why the difference is too large; None if it is not. UsageError where the limits say nothing of it.

        `name` is what the tensor is called in that error.
        """
        only_ulp = self.ulp is not None and self == Tolerance(ulp=self.ulp)
        if only_ulp and difference.ulp is None and difference.elements:
            raise UsageError(
                f"ulp {self.ulp:g} says nothing about {name or 'integers'}: units in the last place are for floats of "
                "one format on both sides",
                hint="state atol or rtol for it (a rule of a tolerance file can name it)",
            )
        if difference.nonfinite_mismatch:
            return fact("tolerance.nonfinite", count=difference.nonfinite_mismatch)
        if self.rtol is not None or self.atol is not None:
            rtol, atol = self.rtol or 0.0, self.atol or 0.0
            level, size = max(difference.hull, key=lambda p: p[1] - rtol * p[0], default=(0.0, 0.0))
            allowed = atol + rtol * level
            if size > allowed:
                return fact(
                    "tolerance.size", differs=size, atol=atol, rtol=rtol, level=level, allowed=allowed
                )
        if self.ulp is not None and difference.ulp is not None and difference.ulp > self.ulp:
            return fact("tolerance.ulp", apart=difference.ulp, allowed=self.ulp)
        for name in ("snr", "psnr"):
            least, value = getattr(self, name), getattr(difference, name)
            if least is not None and value < least:
                return fact("tolerance.decibels", figure=name, value=value, least=least)
        if self.cosine is not None and difference.cosine < self.cosine:
            return fact("tolerance.cosine", value=difference.cosine, least=self.cosine)
        return None

    def __str__(self) -> str:
        return ", ".join(
            f"{f.name} {getattr(self, f.name):g}" for f in fields(self) if getattr(self, f.name) is not None
        )


@dataclass(frozen=True, slots=True)
class Rule:
    """A tolerance for the sites that match every given pattern."""

    tolerance: Tolerance
    site: str = ""
    module: str = ""
    op: str = ""
    dtype: str = ""

    def __str__(self) -> str:
        asked = {"site": self.site, "module": self.module, "op": self.op, "dtype": self.dtype}
        where = " ".join(f"{name} {pattern}" for name, pattern in asked.items() if pattern)
        return f"{where}: {self.tolerance}" if where else str(self.tolerance)

    def fits(self, site: Site, dtype: str) -> bool:
        if not (self.site or self.module or self.op or self.dtype):
            return site.role == "output"
        asked = (
            (self.site, (site.tensor, site.own_name)),
            (self.module, (site.module,)),
            (self.op, (site.op,)),
            (self.dtype, (dtype,)),
        )
        return all(
            not pattern or any(fnmatchcase(value.lower(), pattern.lower()) for value in values)
            for pattern, values in asked
        )


@dataclass(frozen=True, slots=True)
class Tolerances:
    """All rules of a check, in order; empty means automatic."""

    rules: tuple[Rule, ...] = ()

    @staticmethod
    def of(flags: Tolerance, rules: Sequence[Rule] = ()) -> Tolerances:
        """Turn the flags into a rule for the outputs; rules of a file take precedence over it."""
        first = (Rule(flags),) if flags.stated else ()
        return Tolerances((*first, *rules))

    def __bool__(self) -> bool:
        return bool(self.rules)

    def find(self, site: Site, dtype: str) -> Rule | None:
        """The rule of a site, or None where there is none."""
        return next((r for r in reversed(self.rules) if r.fits(site, dtype)), None)

    def idle(self, sites: Sequence[Site]) -> tuple[Guard, ...]:
        """Guards for rules that fit none of the sites, and for outputs that no rule fits: nothing checks them."""
        unused = [r for r in self.rules if not any(r.fits(s, s.dtype) for s in sites)]
        found = [fact("tolerance.unused", rule=str(r)) for r in unused]
        outputs = [s for s in sites if s.role == "output" and self.find(s, s.dtype) is None] if self else []
        if outputs:
            names = tuple(dict.fromkeys(s.output or s.tensor for s in outputs))
            found.append(fact("tolerance.outputs", outputs=names))
        return tuple(Guard("note", told, weakens=True) for told in found)

    def __str__(self) -> str:
        return "; ".join(dict.fromkeys(map(str, self.rules))) or "automatic"


def by_tolerance(tolerances: Tolerances, site: Site, difference: Difference) -> Judged:
    """Judge one pair by the stated tolerances.

    >>> by_tolerance(Tolerances.of(Tolerance(atol=1.0)), Site("y", role="output"), Difference()).status
    'pass'
    """
    rule = tolerances.find(site, site.dtype)
    if rule is None:
        return Judged("not judged", fact("tolerance.none"), "")
    complaint = rule.tolerance.complaint(difference, site.tensor)
    return Judged("fail" if complaint else "pass", complaint, str(rule))


def read_tolerances(stated: Tolerance | Tolerances | str | Path | None) -> Tolerances:
    """Convert the `tolerance` argument of a check: limits for the outputs, rules, or a file of rules.

    >>> str(read_tolerances(Tolerance(atol=0.5)))
    'atol 0.5'
    """
    if stated is None or isinstance(stated, Tolerances):
        return stated or Tolerances()
    return Tolerances.of(stated) if isinstance(stated, Tolerance) else Tolerances(read_rules(stated))


def read_rules(path: str | Path) -> tuple[Rule, ...]:
    """Read a tolerance file."""
    path = Path(path)
    table = read_toml(path, "tolerance file")
    entries = table.pop("rule", [])
    if table or not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries) or not entries:
        extra = f" (found {', '.join(table)})" if table else ""
        raise UsageError(f"{path}: a tolerance file is a list of [[rule]] tables{extra}")
    return tuple(_rule(path, number, entry) for number, entry in enumerate(entries, 1))


def _rule(path: Path, number: int, entry: dict[str, Any]) -> Rule:
    limits = {f.name for f in fields(Tolerance)}
    patterns = {"site", "module", "op", "dtype"}
    for key, value in entry.items():
        if key not in limits | patterns:
            allowed = ", ".join(sorted(limits | patterns))
            raise UsageError(f"{path}: rule {number} has an unknown key: {key!r}", hint=f"allowed: {allowed}")
        right = (
            isinstance(value, str)
            if key in patterns
            else isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _HUGE
        )
        if not right:
            raise UsageError(
                f"{path}: rule {number}: {key} = {value!r} is not a {'string' if key in patterns else 'number'}"
            )
    try:
        tolerance = Tolerance(**{k: float(v) for k, v in entry.items() if k in limits})
    except UsageError as error:
        raise UsageError(f"{path}: rule {number}: {error.what}", hint=error.hint) from None
    if not tolerance.stated:
        raise UsageError(
            f"{path}: rule {number} states no limit", hint=f"one of: {', '.join(sorted(limits))}"
        )
    return Rule(tolerance, **{k: v for k, v in entry.items() if k in patterns})
