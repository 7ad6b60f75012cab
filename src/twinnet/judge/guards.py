"""Guards: warnings that an agreement proves less than it seems."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from twinnet.judge.metrics import bit_equal, compare
from twinnet.precision import dtype_class
from twinnet.result import Coverage, Fact, Guard, PairResult, coded, fact
from twinnet.store import dtype_name

if TYPE_CHECKING:
    from twinnet.engines.base import Session
    from twinnet.judge.deployed import Ends, OutputSeen
    from twinnet.judge.plan import OutputPair
    from twinnet.pairing import Transform

__all__ = [
    "changed_by_watching",
    "constant_inputs",
    "coverage_guard",
    "degenerate_data",
    "distance",
    "does_not_follow",
    "far_unseen",
    "not_reached",
    "null_baseline",
    "observer_or_chance",
    "other_outputs",
    "overwritten",
    "read_otherwise",
    "saturated",
    "shuffled",
    "unmoved",
    "untested_parts",
]

Arrays = Mapping[str, np.ndarray]

_FOLLOWS = 0.5
"""Off by this share of what another input changes, a twin does not follow its input."""

_UNTESTED = 0.01
"""The share of an output's elements that may be too small to show a fault before a guard says so."""

_MOST_SIDES = 500
"""Bounds and branches that a result lists by name; a very large network has more."""
_DOUBTFUL = 0.05
"""The share of elements that may differ by more than rounding of their own size, as sums that cancel do."""

_ALONE = 5
"""An output whose segment has more layers is judged by itself: nothing near it is compared."""


_NOTHING = ("data.empty", "data.nothing_finite")


def saturated(array: np.ndarray) -> Fact | None:
    """Why a tensor could not show a fault, or None.

    >>> str(saturated(np.zeros(10, np.float32)))
    'is 0 everywhere'
    """
    if array.size == 0:
        return fact("data.empty")
    if dtype_class(array.dtype) != "float":
        return None
    values = array.astype(np.float64, copy=False)
    finite = values[np.isfinite(values)] if not np.isfinite(values.sum()) else values
    if finite.size == 0:
        return fact("data.nothing_finite")
    low, high = float(finite.min()), float(finite.max())
    if low == high:
        return fact("data.constant", value=low) if array.size > 1 else None
    if array.size >= 16:
        ends = np.count_nonzero(finite == low) + np.count_nonzero(finite == high)
        if ends >= 0.999 * finite.size:
            return fact("data.saturated", share=ends / finite.size, low=low, high=high)
    return None


def degenerate_data(outputs: Sequence[PairResult], values: Arrays, untested: int, total: int) -> list[Guard]:
    """Warn about outputs that are constant, saturated, or as small as their rounding; inner sites are only counted."""
    weak = []
    for pair in outputs:
        name = pair.site.tensor
        why = saturated(values[name]) if name in values else None
        if why is None and pair.status == "untested":
            why = fact("data.small")
        if why is not None:
            weak.append(fact("data.output", output=name, why=why))
    all_weak = len(weak) == len(outputs)
    # Of an output that holds no number at all nothing was compared, whatever the others show.
    found = [
        Guard("degenerate data", told, weakens=all_weak or coded(told.params["why"], *_NOTHING))
        for told in weak
    ]
    if untested and total:
        found.append(Guard("degenerate data", fact("data.untested", count=untested, sites=total)))
    return found


def constant_inputs(samples: Sequence[Arrays]) -> list[Guard]:
    """Warn about an input that holds a single value in all samples: most of a network does nothing on it."""
    if not samples or not samples[0]:
        return []
    name = max(samples[0], key=lambda n: samples[0][n].size)
    arrays = [s[name] for s in samples if name in s]
    if any(a.size < 16 or (a != a.reshape(-1)[0]).any() for a in arrays):
        return []
    value = arrays[0].reshape(-1)[0]
    return [Guard("degenerate data", fact("data.input", input=name, value=value), weakens=True)]


def shuffled(sample: Arrays, seed: int = 0) -> dict[str, np.ndarray]:
    """Make a different input of the same kind: shuffle the largest input that is not constant.

    Empty if all are constant: no other input is sure to be valid then.
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
    """Warn if a different input moves the network's outputs hardly more than the twin differs from them."""
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
        return [Guard("null baseline", fact("baseline.same"), weakens=True)]
    if differs > 0 and moved < 10 * differs:
        return [Guard("null baseline", fact("baseline.close", moved=moved, differs=differs), weakens=True)]
    return []


def does_not_follow(first: Arrays, ours: Arrays, theirs: Arrays) -> list[Guard]:
    """Warn if the twin is as far from the network on a different input as that input moves the network's outputs."""
    for name, value in theirs.items():
        if name not in first or not first[name].shape == ours[name].shape == value.shape:
            continue
        if dtype_class(value.dtype) != dtype_class(ours[name].dtype) or value.dtype.kind == "c":
            continue
        moved, off = distance(first[name], ours[name]), distance(ours[name], value)
        if moved > 0 and off >= _FOLLOWS * moved:
            return [Guard("null baseline", fact("baseline.follows", moved=moved, differs=off), weakens=True)]
    return []


def other_outputs(net: Session, twin: Session, rows: Sequence[OutputPair], ends: Ends) -> list[Guard]:
    """Outputs that the twin lacks, names that stand at others, and dtypes that are neither ours nor as declared."""
    found: list[Fact] = []
    names = dict(zip(net.output_tensors, ends.ours, strict=False))
    missing = [name for tensor, name in names.items() if tensor not in {row.tensor for row in rows}]
    if missing:
        found.append(fact("outputs.missing", outputs=tuple(missing), of=len(names)))
    ours, theirs = [row.name for row in rows], [row.twin_name for row in rows]
    if ours != theirs and set(ours) == set(theirs):
        moved = [(a, b) for a, b in zip(ours, theirs, strict=True) if a != b]
        found.append(fact("outputs.exchanged", network=moved[0][0], twin=moved[0][1], count=len(moved)))
    for row in rows:
        a, b = dtype_name(ends.ours[row.name].dtype), dtype_name(ends.theirs[row.twin_name].dtype)
        if a != b and b != twin.precision:
            found.append(fact("outputs.dtype", output=row.name, network=a, twin=b))
    return [Guard("structure", told, weakens=True) for told in found]


def untested_parts(
    ends: Sequence[OutputSeen], pairs: Mapping[str, PairResult], bounded: Collection[str]
) -> list[Guard]:
    """Parts of outputs that are 0, or too small beside the rest, on all samples: the data cannot show a fault in them.

    Where the layers before an output are compared as well, they show it; `bounded` are outputs of a softmax and the
    like, most of whose values are always near 0.
    """
    found = []
    for end in ends:
        apart, pair = end.apart, pairs.get(end.row.tensor)
        if apart.doubtful > _DOUBTFUL * apart.elements:
            told = fact("data.doubtful", output=end.row.name, count=apart.doubtful, elements=apart.elements)
            found.append(Guard("degenerate data", told, weakens=True))
        if apart.elements - apart.shown <= _UNTESTED * apart.elements:
            continue
        alone = pair is None or len(pair.segment) > _ALONE or not pair.segment
        told = fact("data.parts", output=end.row.name, shown=apart.shown, elements=apart.elements)
        found.append(Guard("degenerate data", told, weakens=alone and end.row.tensor not in bounded))
    return found


def not_reached(ours: Sequence[Fact], twins: Sequence[Fact]) -> list[Guard]:
    """Bounds and branches that no sample reached, those of the twin alone apart: a fault beyond them cannot show."""
    return [
        Guard("coverage", fact(code, sides=tuple(sides[:_MOST_SIDES]), more=max(len(sides) - _MOST_SIDES, 0)))
        for code, sides in (("exercise.missing", ours), ("exercise.twin", twins))
        if sides
    ]


def unmoved(names: Sequence[str]) -> list[Guard]:
    """Inputs that were the same in every run: a twin that does not read them passes as well."""
    return [Guard("coverage", fact("inputs.still", inputs=tuple(names)))] if names else []


def read_otherwise(values: Sequence[tuple[str, Transform, Transform]]) -> list[Guard]:
    """Values that a quantised twin reads with other steps than it writes: by its own file they are not the same."""
    return [
        Guard(
            "structure",
            fact("steps.otherwise", tensor=name, network=_figures(a), twin=_figures(b)),
            weakens=True,
        )
        for name, a, b in values
    ]


def _figures(steps: Transform) -> tuple[float, int] | None:
    """Scale and zero point; None where there are several."""
    return (steps.scale[0], steps.zero[0]) if steps.scale is not None and len(steps.scale) == 1 else None


def overwritten(twin: Session) -> list[Guard]:
    """Inputs that the twin changes: its result is right, but what reads them next goes wrong."""
    if not twin.overwritten:
        return []
    return [
        Guard("structure", fact("inputs.overwritten", inputs=tuple(sorted(twin.overwritten))), weakens=True)
    ]


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
            guards.append(Guard("determinism", fact("determinism", side=side, spread=spread)))
    effect = 0.0
    for name, value in zip(names, captured, strict=False):
        if not bit_equal(plain[name], value):
            effect = max(effect, distance(plain[name], value))
    largest = max(
        (float(np.abs(v).max()) for v in plain.values() if v.size and dtype_class(v.dtype) == "float"),
        default=0.0,
    )
    if effect > max(spread, 2.0**-24 * largest):
        guards.append(Guard("observer effect", fact("watching.output", side=side, effect=effect)))
    return guards, spread


def changed_by_watching(pairs: Sequence[PairResult]) -> list[Guard]:
    """Warn about tensors that watching changes, and about their readers that could not be judged."""
    changed = [p.site.tensor for p in pairs if p.status == "untested" and coded(p.reason, "watching.changed")]
    apart = [p.site.tensor for p in pairs if p.status == "untested" and coded(p.reason, "watching.apart")]
    open_ = [p.site.tensor for p in pairs if p.status == "not judged" and coded(p.reason, "watching.across")]
    found = []
    if changed:
        told = fact("watching.infinite", tensor=changed[0], more=len(changed) - 1)
        found.append(Guard("observer effect", told))
    if apart:
        told = fact("watching.shown", tensor=apart[0], more=len(apart) - 1)
        found.append(Guard("observer effect", told))
    if open_:
        found.append(Guard("observer effect", fact("watching.unjudged", tensor=open_[0]), weakens=True))
    return found


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference; infinite where shapes, NaN or Inf differ."""
    if a.shape != b.shape:
        return float("inf")
    difference = compare(a, b)
    return float("inf") if difference.nonfinite_mismatch else difference.max_abs


_FAR = 32.0
"""So many times the network's own rounding is more than another order of the same sums usually makes."""
_SEVERAL = 8


def far_unseen(outputs: Iterable[PairResult], pairs: Mapping[str, PairResult]) -> list[Guard]:
    """Warn of an output that rounding could explain but hardly does, at the end of layers that nobody looked into."""
    found = []
    for output in outputs:
        judged = pairs.get(output.site.tensor)
        layers = len(judged.segment) if judged is not None else 0
        if output.status == "pass" and output.ratio is not None and output.ratio > _FAR and layers > _SEVERAL:
            said = fact("coverage.far", output=output.site.tensor, ratio=output.ratio, layers=layers)
            found.append(Guard("coverage", said, weakens=True))
    return found


def coverage_guard(coverage: Coverage) -> list[Guard]:
    """Warn if much of the network was not compared, or none of it judged."""
    if coverage.paired and not coverage.judged:
        return [Guard("coverage", fact("coverage.nothing", why=coverage.note), weakens=True)]
    if coverage.note is not None:
        return [Guard("coverage", coverage.note)]
    return []
