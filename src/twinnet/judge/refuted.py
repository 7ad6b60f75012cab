"""Tensors that are not what the twin computed with, as those that read them show.

A compiler that is told to give an inner tensor compiles another program, and may give that tensor wrong while it
computes with the right one. What reads it then fails from what was shown, and agrees with the network's layers from
the tensors before that; or it has a fault of its own as well, and agrees at most places where the two would differ.
Nothing is excused that way: every reader must refute the tensor, and none of them may be right with what was shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from twinnet.errors import EngineError
from twinnet.judge.aggregate import visible
from twinnet.judge.bridge import Bridges, Span
from twinnet.judge.metrics import compare
from twinnet.judge.verdicts import Born
from twinnet.pairing import Pair
from twinnet.result import fact

__all__ = ["Refuted"]

_MOST = 12
"""How many tensors before a failing one are tried; a fault further back has been seen by others."""

_TELLING = 1e-3
"""Elements tell two ways apart if these differ by this share of the largest."""

_NEAR = 1e-2
"""An element is as one way computes it if it is this much nearer to that than the two are to each other."""

_MOSTLY, _ENOUGH = 0.9, 8


@dataclass(frozen=True)
class Refuted:
    """Which tensors of one sample are refuted by their readers."""

    bridges: Bridges
    twin: Mapping[str, np.ndarray]
    unit: float
    _apart: dict[str, bool] = field(default_factory=dict, init=False)
    _readings: dict[str, tuple[Span, Born] | None] = field(default_factory=dict, init=False)
    _refuted: dict[str, bool] = field(default_factory=dict, init=False)

    @property
    def _pairs(self) -> Mapping[str, Pair]:
        return self.bridges.pairs

    def judged(self, pair: Pair, born: Born) -> Born:
        """The judgement of a pair, in the light of what reads it and of what it really read."""
        if self.refuted(pair.site.tensor):
            return replace(born, status="untested", reason=fact("watching.apart"))
        found = self.across(pair.site.tensor) if born.status == "fail" else None
        return born if found is None else found[1]

    def apart(self, tensor: str) -> bool:
        """Whether the twin shows something else than the network has, beyond all rounding."""
        if tensor not in self._apart:
            pair, own = self._pairs[tensor], self.bridges.network.get(tensor)
            theirs = pair.transform.to_network(self.twin[pair.twin_site.tensor])
            alike = own is not None and own.shape == theirs.shape and own.dtype.kind == theirs.dtype.kind
            self._apart[tensor] = alike and own is not None and visible(compare(own, theirs), self.unit)
        return self._apart[tensor]

    def across(self, tensor: str) -> tuple[Span, Born] | None:
        """The judgement of a failing tensor across those that were shown wrong; None if it may well have read them."""
        if tensor not in self._readings:
            self._readings[tensor] = self._agrees_across(tensor)
        return self._readings[tensor]

    def refuted(self, tensor: str) -> bool:
        """Whether all that reads a tensor, directly or by others that are refuted too, shows it to be another one."""
        if tensor not in self._refuted:
            self._refuted[tensor] = False  # while it is looked at: graphs have no cycles
            readers = self.bridges.readers(tensor) if self.apart(tensor) else set()
            self._refuted[tensor] = bool(readers) and all(self._refutes(n, tensor) for n in readers)
        return self._refuted[tensor]

    def _refutes(self, reader: str, tensor: str) -> bool:
        found = self.across(reader)
        if found is not None:
            return tensor in found[0].crossed
        return self.refuted(reader)

    def _agrees_across(self, tensor: str) -> tuple[Span, Born] | None:
        pair = self._pairs[tensor]
        own, born = self.bridges.judged(pair)
        if born.status != "fail":
            return None
        span = own
        for _ in range(_MOST):
            wrong = [n for n in span.frontier if n in self._pairs and self.apart(n)]
            if not wrong:
                break
            span = self.bridges.span_across(tensor, span.crossed.union(wrong))
            born = self.bridges.judge(pair, span)
            if born.status == "pass":
                return span, born
        return (span, born) if span is not own and self._is_nearer(tensor, span, own) else None

    def _is_nearer(self, tensor: str, across: Span, shown: Span) -> bool:
        """Whether most elements that tell the two ways apart are as computed across what was shown."""
        got = self.bridges.value(tensor)
        try:
            right, wrong = (self.bridges.expected(tensor, span) for span in (across, shown))
        except EngineError:
            return False
        if not got.is_floating_point() or not got.shape == right.shape == wrong.shape:
            return False
        gap = (right - wrong).abs()
        telling = (gap > _TELLING * right.abs().max()) & got.isfinite()
        as_right, as_shown = (int(((got - way).abs() < _NEAR * gap)[telling].sum()) for way in (right, wrong))
        return as_right >= _ENOUGH and as_right > _MOSTLY * (as_right + as_shown)
