"""Error bounds of a segment's inputs, computed when somebody asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import torch

__all__ = ["Carried"]


class Carried(Mapping[str, torch.Tensor]):
    """Bounds by tensor name. They cost as much as judging, and most who ask for a segment want its inputs only.

    >>> bounds = Carried(lambda: {"x": torch.ones(2)})
    >>> list(bounds), bounds["x"].tolist()
    (['x'], [1.0, 1.0])
    """

    def __init__(self, compute: Callable[[], Mapping[str, torch.Tensor]]) -> None:
        self._compute: Callable[[], Mapping[str, torch.Tensor]] | None = compute
        self._found: Mapping[str, torch.Tensor] = {}

    def _bounds(self) -> Mapping[str, torch.Tensor]:
        if self._compute is not None:
            # What computes them holds the sample's tensors, which are free to go afterwards.
            self._found, self._compute = self._compute(), None
        return self._found

    def __getitem__(self, name: str) -> torch.Tensor:
        return self._bounds()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._bounds())

    def __len__(self) -> int:
        return len(self._bounds())
