"""Dimensions that the network leaves open: a twin may be right at the size that was run, and wrong at another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from twinnet.job import Arrays
from twinnet.result import Guard, fact
from twinnet.signature import TensorSpec

__all__ = ["always_one_size", "two_at_once"]


_FREE = "?"
"""A dimension of a module's input, which may be open or not."""

Shapes = Mapping[str, tuple[int, ...]]


def always_one_size(specs: Iterable[TensorSpec], runs: Sequence[Shapes]) -> list[Guard]:
    """Names the open dimensions that had one size in every run.

    >>> spec = TensorSpec("x", "float32", ("N", 3))
    >>> str(always_one_size([spec], [{"x": (1, 3)}])[0].fact)
    'N of input x was 1 in every run: other sizes are not exercised'
    """
    sizes: dict[str, tuple[str, set[int]]] = {}
    for spec in specs:
        for axis, dim in enumerate(spec.shape or ()):
            if isinstance(dim, int) or dim == _FREE:
                continue
            seen = {shapes[spec.name][axis] for shapes in runs if len(shapes.get(spec.name, ())) > axis}
            sizes.setdefault(dim, (spec.name, set()))[1].update(seen)
    found = tuple((dim, name, size) for dim, (name, seen) in sizes.items() if len(seen) == 1 for size in seen)
    return [Guard("coverage", fact("inputs.sizes", sizes=found))] if found else []


def two_at_once(
    specs: Iterable[TensorSpec], first: Arrays, second: Mapping[str, np.ndarray]
) -> Arrays | None:
    """Two samples as one batch, where the first dimension of every input is open and the same; None otherwise."""
    known = {spec.name: spec.shape for spec in specs if spec.shape}
    batches = {(known[name][0] if name in known else 0, array.shape[:1]) for name, array in first.items()}
    if len(batches) != 1 or not second or any(array.ndim < 2 for array in first.values()):
        return None
    if isinstance(batches.pop()[0], int):
        return None
    return {name: np.concatenate([first[name], second.get(name, first[name])]) for name in first}
