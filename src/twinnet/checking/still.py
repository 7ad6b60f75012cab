"""Inputs that no sample changes: whether the twin reads them shows only on one more sample that does."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from twinnet.inputs.synthetic import kind_of
from twinnet.job import Arrays
from twinnet.signature import TensorSpec
from twinnet.store import dtype_name

__all__ = ["Still", "varied"]


class Still:
    """Which inputs were the same in all samples so far."""

    def __init__(self) -> None:
        self._first: Arrays | None = None
        self._same: set[str] = set()
        self._shapes: dict[tuple[tuple[str, tuple[int, ...]], ...], None] = {}

    def see(self, sample: Arrays) -> None:
        """Take note of one sample."""
        self._shapes[tuple((name, np.shape(array)) for name, array in sample.items())] = None
        if self._first is None:
            self._first, self._same = sample, set(sample)
        self._same = {n for n in self._same if n in sample and _equal(self._first[n], sample[n])}

    @property
    def same(self) -> frozenset[str]:
        """The inputs that nothing varied."""
        return frozenset(self._same)

    @property
    def shapes(self) -> list[dict[str, tuple[int, ...]]]:
        """The shapes of the inputs, each set of them once."""
        return [dict(shapes) for shapes in self._shapes]


def varied(sample: Arrays, names: Collection[str], seed: int, *, narrow: bool) -> dict[str, np.ndarray]:
    """Other values of these inputs that are as valid as their own; those that have none are left out.

    Floats, flags and masks are shuffled. A float that is one number everywhere becomes another one if it has decimals,
    and a state that is 0 a small one; indices, counts and rates mean something else in another order. With `narrow`
    nothing leaves the range it has.
    """
    rng = np.random.default_rng(seed)
    found: dict[str, np.ndarray] = {}
    for name in sorted(names):
        array = np.array(sample[name])
        flat = array.reshape(-1)
        if not flat.size or not (array.dtype.kind in "fb" or np.isin(flat, (0, 1)).all()):
            continue
        if (flat != flat[0]).any():
            while np.array_equal(flat, sample[name].reshape(-1)):
                rng.shuffle(flat)
            found[name] = flat.reshape(array.shape)
        elif array.dtype.kind == "f" and not narrow and np.isfinite(flat[0]):
            state = kind_of(TensorSpec(name, dtype_name(array.dtype), array.shape)) == "state"
            if flat[0] != np.rint(flat[0]):
                found[name] = (array * 0.75).astype(array.dtype)
            elif flat[0] == 0 and state:
                found[name] = (0.1 * rng.standard_normal(array.shape)).astype(array.dtype)
    return found


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    return np.array_equal(np.asarray(a), np.asarray(b), equal_nan=np.asarray(a).dtype.kind == "f")
