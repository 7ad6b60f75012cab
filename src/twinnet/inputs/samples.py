"""Sequences of samples, made on access and the same each time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from twinnet.errors import UsageError
from twinnet.inputs.fit import fit_sample
from twinnet.inputs.images import ImageSource
from twinnet.inputs.sources import Source
from twinnet.inputs.synthetic import Bounds, synthesise
from twinnet.signature import Signature

__all__ = ["Joined", "Made"]


class Joined(Sequence[dict[str, np.ndarray]]):
    """Samples from several sources side by side, fitted to the signature on access."""

    def __init__(self, signature: Signature, sources: Sequence[Source], limit: int | None) -> None:
        self._signature = signature
        self._sources = sources
        counts = {source.label: len(source) for source in sources if not source.constant and len(source) != 1}
        if len(set(counts.values())) > 1:
            given = ", ".join(f"{label}: {count}" for label, count in counts.items())
            raise UsageError(f"the inputs have different numbers of samples ({given})")
        self._count = next(iter(counts.values()), 1)
        if limit is not None:
            self._count = min(self._count, limit)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:  # type: ignore[override]
        return self.fitted(range(self._count)[index], {})

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        return (self[i] for i in range(self._count))

    def fitted(self, index: int, notes: dict[str, None]) -> dict[str, np.ndarray]:
        merged: dict[str, Any] = {}
        places = []
        for source in self._sources:
            at = index if len(source) > 1 else 0
            merged.update(source.get(at))
            places.append(source.where(at))
        return fit_sample(self._signature, merged, ", ".join(dict.fromkeys(places)), notes)

    def resized(self, index: int, name: str) -> Iterator[tuple[str, np.ndarray]]:
        """One input of a sample with its picture resized in other ways; none if it is not a picture."""
        for source in self._sources:
            if isinstance(source, ImageSource) and source.spec.name == name:
                for words, made in source.resized(index if len(source) > 1 else 0):
                    yield words, made[name]


@dataclass(frozen=True, eq=False)
class Made(Sequence[dict[str, np.ndarray]]):
    """Synthetic samples; inputs given by the user (`fixed`) keep their value."""

    signature: Signature
    fixed: dict[str, np.ndarray]
    seed: int
    number: int
    bounds: Bounds | None

    def further(self, number: int) -> dict[str, np.ndarray]:
        """A sample beyond those of the sequence."""
        return self._make(self.number + number)

    def __len__(self) -> int:
        return self.number

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:  # type: ignore[override]
        return self._make(range(self.number)[index])

    def _make(self, index: int) -> dict[str, np.ndarray]:
        free = tuple(spec for spec in self.signature.inputs if spec.name not in self.fixed)
        made = synthesise(replace(self.signature, inputs=free), index, seed=self.seed, bounds=self.bounds)
        found = {**made, **self.fixed}
        return {spec.name: found[spec.name] for spec in self.signature.inputs if spec.name in found}
