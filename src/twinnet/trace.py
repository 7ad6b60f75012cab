"""Traces: the tensors observed at sites in one run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from twinnet.scratch import new_scratch
from twinnet.store import TensorFile, write_tensors

__all__ = ["DEFAULT_MEMORY", "Trace", "TraceBuilder"]

DEFAULT_MEMORY = 128 << 20
"""Bytes of one trace that stay in memory; the rest goes to disk, so memory does not grow with depth."""


class Trace(Mapping[str, np.ndarray]):
    """Tensors by name, in the order they were observed; some in memory, some memory-mapped from `folder`.

    >>> trace = Trace({"x": np.zeros(2)})
    >>> list(trace), trace["x"].shape
    (['x'], (2,))
    """

    def __init__(
        self,
        tensors: Mapping[str, np.ndarray] | None = None,
        *,
        files: Mapping[str, Path] | None = None,
        order: tuple[str, ...] | None = None,
        temporary: Path | None = None,
    ) -> None:
        self._tensors = dict(tensors or {})
        self._files = dict(files or {})
        self._order = order if order is not None else (*self._tensors, *self._files)
        self._temporary = temporary
        self._opened: dict[Path, TensorFile] = {}

    def __getitem__(self, name: str) -> np.ndarray:
        found = self._tensors.get(name)
        if found is not None:
            return found
        path = self._files[name]
        if path not in self._opened:
            self._opened[path] = TensorFile(path)
        return self._opened[path][name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._order)

    def __len__(self) -> int:
        return len(self._order)

    def __contains__(self, name: object) -> bool:
        return name in self._tensors or name in self._files

    def with_arrays(self, arrays: Mapping[str, np.ndarray]) -> Trace:
        """The same trace with some of its tensors replaced; files of this one stay with it."""
        return Trace({**self._tensors, **arrays}, files=self._files, order=self._order)

    def close(self) -> None:
        """Forget the tensors and remove what was spilled to disk."""
        self._tensors.clear()
        self._files.clear()
        self._opened.clear()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None

    def __del__(self) -> None:
        if getattr(self, "_temporary", None) is not None:
            self.close()


class TraceBuilder:
    """Collects tensors into a `Trace`, spilling to safetensors files once `memory` bytes are exceeded.

    Arrays are not copied: copy a view of memory that will be overwritten before adding it.
    With `folder` the files are written there and stay (a recording); otherwise they are temporary.
    """

    def __init__(self, memory: int = DEFAULT_MEMORY, folder: Path | None = None) -> None:
        self._memory = memory
        self._folder = folder
        self._made: Path | None = None
        self._pending: dict[str, np.ndarray] = {}
        self._bytes = 0
        self._files: dict[str, Path] = {}
        self._order: dict[str, None] = {}
        self._spilled = 0

    @property
    def names(self) -> tuple[str, ...]:
        """Names added so far."""
        return tuple(self._order)

    def add(self, name: str, array: np.ndarray) -> None:
        """Add one tensor. A name that comes twice keeps its first tensor."""
        if name in self._order:
            return
        self._order[name] = None
        self._pending[name] = array
        self._bytes += array.nbytes
        # Half of the allowance at a time: what is pending and what is being computed next both fit.
        if self._bytes > self._memory // 2:
            self.flush()

    def flush(self) -> None:
        """Write what is pending to disk."""
        if not self._pending:
            return
        if self._folder is None and self._made is None:
            self._made = new_scratch("trace")
        folder = self._folder or self._made
        assert folder is not None
        path = write_tensors(folder / f"{self._spilled:05d}.safetensors", self._pending)
        self._files.update(dict.fromkeys(self._pending, path))
        self._spilled += 1
        self._pending = {}
        self._bytes = 0

    def done(self) -> Trace:
        """The finished trace."""
        if self._folder is not None:
            self.flush()
        made, self._made = self._made, None  # the trace removes it from here on
        return Trace(self._pending, files=self._files, order=tuple(self._order), temporary=made)

    def __del__(self) -> None:
        # A run that failed on the way leaves nothing behind.
        made = getattr(self, "_made", None)
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)
