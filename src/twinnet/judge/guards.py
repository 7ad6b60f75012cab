"""Guards: when agreement proves less than it seems, they say so by themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from twinnet.judge.metrics import bit_equal, compare
from twinnet.judge.verdicts import ACROSS, CHANGED
from twinnet.precision import dtype_class
from twinnet.result import Coverage, Guard, PairResult

__all__ = [
    "changed_by_watching",
    "constant_inputs",
    "coverage_guard",
    "degenerate_data",
    "distance",
    "null_baseline",
    "observer_or_chance",
    "saturated",
    "shuffled",
]

Arrays = Mapping[str, np.ndarray]


def saturated(array: np.ndarray) -> str:
    """Why a tensor could not show a fault, or an empty string.

    >>> saturated(np.zeros(10, np.float32))
    'is 0 everywhere'
    """
    if array.size == 0:
        return "is empty"
    if dtype_class(array.dtype) != "float":
        return ""
    values = array.astype(np.float64, copy=False)
    finite = values[np.isfinite(values)] if not np.isfinite(values.sum()) else values
    if finite.size == 0:
        return "holds no finite number"
    low, high = float(finite.min()), float(finite.max())
    if low == high:
        return f"is {low:g} everywhere" if array.size > 1 else ""
    if array.size >= 16:
        ends = np.count_nonzero(finite == low) + np.count_nonzero(finite == high)
        if ends >= 0.999 * finite.size:
            return f"is saturated: {100 * ends / finite.size:.1f} % of it is either {low:g} or {high:g}"
    return ""


def degenerate_data(outputs: Sequence[PairResult], values: Arrays, untested: int, total: int) -> list[Guard]:
    """Outputs that are constant, saturated, or as small as their own rounding; inner sites are only counted."""
    found = []
    weak = 0
    for pair in outputs:
        name = pair.site.tensor
        why = saturated(values[name]) if name in values else ""
        if not why and pair.status == "untested":
            why = "is as small as what rounding may change"
        if why:
            weak += 1
            found.append(
                Guard("degenerate data", f"output {name} {why}: this data cannot show a fault in it")
            )
    all_weak = bool(outputs) and weak == len(outputs)
    found = [Guard(g.name, g.message, weakens=all_weak) for g in found]
    if untested and total:
        plural = "site is" if untested == 1 else "sites are"
        found.append(
            Guard(
                "degenerate data",
                f"{untested} of {total} inner {plural} not tested by this data (see the report)",
            )
        )
    return found


def constant_inputs(samples: Sequence[Arrays]) -> list[Guard]:
    """Inputs that hold one value only, in all samples: most of a network does nothing on them."""
    if not samples or not samples[0]:
        return []
    name = max(samples[0], key=lambda n: samples[0][n].size)
    arrays = [s[name] for s in samples if name in s]
    if any(a.size < 16 or (a != a.reshape(-1)[0]).any() for a in arrays):
        return []
    value = arrays[0].reshape(-1)[0]
    return [
        Guard(
            "degenerate data",
            f"input {name} is {value:g} everywhere: it hardly tests the network",
            weakens=True,
        )
    ]


def shuffled(sample: Arrays, seed: int = 0) -> dict[str, np.ndarray]:
    """A different input of the same kind: values of the largest input that has several, in another order.

    Empty if no input has: then there is no other input that is sure to be as good as this one.
    """
    rng = np.random.default_rng(seed)
    for name in sorted(sample, key=lambda n: sample[n].size, reverse=True):
        flat = np.array(sample[name]).reshape(-1)
        if flat.size and (flat != flat[0]).any():
            before = flat.copy()
            while np.array_equal(flat, before):
                rng.shuffle(flat)
            return {**sample, name: flat.reshape(sample[name].shape)}
    return {}


def null_baseline(first: Arrays, other: Arrays, differences: Mapping[str, float]) -> list[Guard]:
    """On a different input the network must move far more than the twin differs from it."""
    moved = differs = 0.0
    for name, value in first.items():
        if (
            name not in other
            or other[name].shape != value.shape
            or dtype_class(value.dtype) not in ("float", "integer")
        ):
            continue
        moved = max(moved, compare(value, other[name]).max_abs)
        differs = max(differs, differences.get(name, 0.0))
    if not any(n in other and other[n].shape == v.shape for n, v in first.items()):
        return []
    if moved == 0.0:
        return [
            Guard(
                "null baseline",
                "a different input gives the same output: agreement proves nothing",
                weakens=True,
            )
        ]
    if differs > 0 and moved < 10 * differs:
        message = (
            f"a different input moves the output by {moved:.2g}, the twin by {differs:.2g}: "
            "this data hardly tells them apart"
        )
        return [Guard("null baseline", message, weakens=True)]
    return []


def observer_or_chance(
    side: str, plain: Arrays, again: Arrays | None, captured: Sequence[np.ndarray]
) -> tuple[list[Guard], float]:
    """Compare the untapped outputs with those of the tapped run, and with a second untapped run where there is one.

    Returns guards and the spread between two equal runs (0 for a deterministic side).
    """
    names = list(plain)
    spread = 0.0
    guards: list[Guard] = []
    if again is not None:
        for name in names:
            if not bit_equal(plain[name], again[name]):
                spread = max(spread, distance(plain[name], again[name]))
        if spread > 0:
            guards.append(
                Guard(
                    "determinism",
                    f"two equal runs of the {side} differ by {spread:.2g}"
                    + ("; added to what is allowed" if side == "twin" else ""),
                )
            )
    effect = 0.0
    for name, value in zip(names, captured, strict=False):
        if not bit_equal(plain[name], value):
            effect = max(effect, distance(plain[name], value))
    largest = max(
        (float(np.abs(v).max()) for v in plain.values() if v.size and dtype_class(v.dtype) == "float"),
        default=0.0,
    )
    if effect > max(spread, 2.0**-24 * largest):
        guards.append(
            Guard(
                "observer effect",
                f"watching the {side} changes its output by {effect:.2g}; the output is judged unwatched",
            )
        )
    return guards, spread


def changed_by_watching(pairs: Sequence[PairResult]) -> list[Guard]:
    """Tensors that are others when nobody looks, and how what reads them was judged."""
    changed = [p.site.tensor for p in pairs if p.status == "untested" and p.reason.startswith(CHANGED)]
    open_ = [p.site.tensor for p in pairs if p.status == "not judged" and p.reason.startswith(ACROSS)]
    found = []
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        message = (
            f"watching the twin makes {changed[0]}{more} infinite, though it is not where it is used; "
            "what reads it is judged in one with what makes it"
        )
        found.append(Guard("observer effect", message))
    if open_:
        message = f"watching the twin changes what {open_[0]} reads, so that it could not be judged"
        found.append(Guard("observer effect", message, weakens=True))
    return found


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference; infinite where shapes, NaN or Inf differ."""
    if a.shape != b.shape:
        return float("inf")
    difference = compare(a, b)
    return float("inf") if difference.nonfinite_mismatch else difference.max_abs


def coverage_guard(coverage: Coverage) -> list[Guard]:
    """Speaks up when a good part of the network was not compared, or nothing of it was judged."""
    if coverage.paired and not coverage.judged:
        why = f": {coverage.note}" if coverage.note else ""
        return [Guard("coverage", f"nothing was judged{why}", weakens=True)]
    if coverage.note:
        return [Guard("coverage", coverage.note)]
    return []
