"""Engines that can run a part of an ONNX network alone, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from twinnet.engines.registry import engine_names, standalone_of

__all__ = ["SIDES"]


class _Sides(Mapping[str, Any]):
    def __getitem__(self, name: str) -> Any:
        found = standalone_of(name)
        if found is None:
            raise KeyError(name)
        return found.run

    def __iter__(self) -> Iterator[str]:
        return iter(engine_names())

    def __len__(self) -> int:
        return len(engine_names())


SIDES = _Sides()
