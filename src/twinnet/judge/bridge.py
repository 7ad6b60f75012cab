"""Tensors that watching changed, and the longer segments that are judged across them.

An engine without a kernel for a narrow format computes in a wider one and leaves out the casts between two such
layers. Watching the tensor between them brings its cast back: a value beyond the range of the narrow format is then
infinite where it is watched, though not where it is used. The layer that reads it gives a result that no infinite input
can give, and yet does nothing wrong. It is judged in one with what made the tensor, from the tensors before that.

Nothing is excused that way: the longer segment must give what the network's layers give. An infinity that is really
used, where the network has a number, is an overflow. It is a fault of what made it if what reads it would give
something else from the number: a mask of -1e9 that becomes an infinite one is harmless.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from twinnet.errors import EngineError
from twinnet.judge.verdicts import Born
from twinnet.layers.graph import Graph
from twinnet.network.arrays import to_tensor
from twinnet.pairing import Pair
from twinnet.result import Fact, coded, fact

__all__ = ["Bridges", "Span"]


@dataclass(frozen=True, slots=True)
class Span:
    """Layers that are judged as one, the tensors they start from, and the paired tensors that were crossed."""

    layers: tuple[int, ...]
    frontier: tuple[str, ...]
    crossed: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Bridges:
    """The spans of one sample's pairs: their segments, or longer ones where watching changed what they start from.

    `pairs` are those that may be crossed, by the network's tensor; `segment` gives the layers of one and what they
    start from, across some tensors. `judge` judges a pair by a span, `expected` evaluates a span on the twin's tensors,
    and `value` gives such a tensor in the network's form.
    """

    graph: Graph
    pairs: Mapping[str, Pair]
    network: Mapping[str, np.ndarray]
    segment: Callable[[str, frozenset[str]], tuple[tuple[int, ...], tuple[str, ...]]]
    judge: Callable[[Pair, Span], Born]
    expected: Callable[[str, Span], torch.Tensor]
    value: Callable[[str], torch.Tensor]
    _judged: dict[str, tuple[Span, Born]] = field(default_factory=dict, init=False)
    _beyond: dict[str, bool] = field(default_factory=dict, init=False)

    def judged(self, pair: Pair) -> tuple[Span, Born]:
        """Judge a pair; returns the span it was judged by and the judgement."""
        tensor = pair.site.tensor
        if tensor not in self._judged:
            self._judged[tensor] = self._across(pair, self.span_across(tensor))
        return self._judged[tensor]

    def span(self, pair: Pair) -> Span:
        """The span a pair is judged by."""
        own = self.span_across(pair.site.tensor)
        return self.judged(pair)[0] if any(map(self._overflown, own.frontier)) else own

    def changed(self, pair: Pair) -> Fact | None:
        """The fact that watching changed a tensor; None if nothing shows that it did."""
        if not self._overflown(pair.site.tensor) or not self._crossed(pair.site.tensor):
            return None
        own = to_tensor(self.network[pair.site.tensor])
        at = self.value(pair.site.tensor).isinf() & own.isfinite()
        return fact("watching.changed", network=float(own[at].abs().max()))

    def overflow(self, pair: Pair) -> Fact | None:
        """The fact that a number was too large for the twin and did harm; None if neither happened."""
        tensor = pair.site.tensor
        if not self._overflown(tensor):
            return None
        own, theirs = to_tensor(self.network[tensor]), self.value(tensor)
        here = theirs.isinf() & own.isfinite() & self.expected(tensor, self.judged(pair)[0]).isfinite()
        if not bool(here.any()) or not self._harm(tensor):
            return None
        return fact("born.overflow", network=float(own[here].abs().max()), end=torch.finfo(theirs.dtype).max)

    def _harm(self, tensor: str) -> bool:
        """Whether the readers of an infinite tensor would give something else from the finite number."""
        readers = self.readers(tensor)
        if not readers:
            return True  # an output
        stack, seen = [(frozenset({tensor}), n) for n in readers], set(readers)
        while stack:
            crossed, name = stack.pop()
            span = self.span_across(name, crossed)
            if self.judge(self.pairs[name], span).status == "fail":
                return True
            if self._overflown(name):
                more = self.readers(name)
                stack += [(crossed | {name}, n) for n in more - seen]
                seen |= more
        return False

    def span_across(self, tensor: str, crossed: frozenset[str] = frozenset()) -> Span:
        """The layers before a tensor, from the nearest ones that are known and not crossed."""
        return Span(*self.segment(tensor, crossed), crossed)

    def _across(self, pair: Pair, span: Span) -> tuple[Span, Born]:
        """Judge by a span, or by a longer one if this one starts from tensors that watching changed."""
        born = self.judge(pair, span)
        doubtful = born.status == "fail" or not born.finite
        beyond = [n for n in span.frontier if self._overflown(n)] if doubtful else []
        if not beyond:
            return span, born
        unread = self._unread(pair, span)
        if not unread and born.status != "fail":
            return span, born  # what is infinite follows from what it read
        found, again = self._across(pair, self.span_across(pair.site.tensor, span.crossed.union(beyond)))
        if not unread and again.status in ("fail", "not judged"):
            return span, born  # it may well have read what was seen, and then it is wrong
        if again.status == "not judged" and not coded(again.reason, "watching.across"):
            again = replace(again, reason=fact("watching.across", tensor=beyond[0], why=again.reason))
        return found, again

    def _unread(self, pair: Pair, span: Span) -> bool:
        """Whether the twin has numbers where its watched inputs can only give NaN or Inf."""
        got = self.value(pair.site.tensor)
        try:
            expected = self.expected(pair.site.tensor, span)
        except EngineError:
            return False
        if expected.shape != got.shape or not got.is_floating_point() or not expected.is_floating_point():
            return False
        return bool((got.isfinite() & ~expected.isfinite()).any())

    def _overflown(self, tensor: str) -> bool:
        """Whether a tensor is infinite where the network's is finite, only because the number is too large for it."""
        if tensor not in self._beyond:
            self._beyond[tensor] = (
                self._more_infinite(tensor) and self.judged(self.pairs[tensor])[1].status != "fail"
            )
        return self._beyond[tensor]

    def _more_infinite(self, tensor: str) -> bool:
        if tensor not in self.pairs or tensor not in self.graph.producer or tensor not in self.network:
            return False
        theirs = self.value(tensor)
        if not theirs.is_floating_point() or bool(theirs.sum(dtype=torch.float64).isfinite()):
            return False
        own = to_tensor(self.network[tensor])
        return own.shape == theirs.shape and bool((theirs.isinf() & own.isfinite()).any())

    def _crossed(self, tensor: str) -> bool:
        """Whether some later pair is judged across this tensor."""
        seen, stack = {tensor}, [tensor]
        while stack:
            for reader in self.readers(stack.pop()) - seen:
                seen.add(reader)
                if tensor in self.judged(self.pairs[reader])[0].crossed:
                    return True
                if self._overflown(reader):  # what it reads may have gone on unseen
                    stack.append(reader)
        return False

    def readers(self, tensor: str) -> set[str]:
        """The nearest paired tensors computed from this one."""
        found: set[str] = set()
        stack, seen = [tensor], {tensor}
        while stack:
            for index in self.graph.consumers.get(stack.pop(), ()):
                for name in self.graph.layers[index].outputs:
                    if not name or name in seen:
                        continue
                    seen.add(name)
                    if name in self.pairs:
                        found.add(name)
                    else:
                        stack.append(name)
        return found
