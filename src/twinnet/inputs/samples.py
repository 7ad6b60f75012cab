"""Samples as sequences: made on access, the same each time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
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
        """One input of a sample as other ways to resize its picture give it, where it comes from a picture."""
        for source in self._sources:
            if isinstance(source, ImageSource) and source.spec.name == name:
                for words, made in source.resized(index if len(source) > 1 else 0):
                    yield words, made[name]


class Made(Sequence[dict[str, np.ndarray]]):
    """Synthetic samples; inputs that the user stated keep their value."""

    def __init__(
        self, signature: Signature, fixed: dict[str, np.ndarray], seed: int, count: int, bounds: Bounds | None
    ) -> None:
        self._signature, self._fixed, self._seed, self._count, self._bounds = (
            signature,
            fixed,
            seed,
            count,
            bounds,
        )
        free = tuple(spec for spec in signature.inputs if spec.name not in fixed)
        self._free = replace(signature, inputs=free)

    @property
    def fixed(self) -> frozenset[str]:
        """Inputs that the user stated."""
        return frozenset(self._fixed)

    def further(self, number: int) -> dict[str, np.ndarray]:
        """A sample beyond those of the sequence."""
        return self._make(self._count + number)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:  # type: ignore[override]
        return self._make(range(self._count)[index])

    def _make(self, index: int) -> dict[str, np.ndarray]:
        made = synthesise(self._free, index, seed=self._seed, bounds=self._bounds)
        return {
            s.name: self._fixed.get(s.name, made.get(s.name))
            for s in self._signature.inputs
            if s.name in self._fixed or s.name in made
        }  # type: ignore[misc]
