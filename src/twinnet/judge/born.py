"""The born test: how much error does a segment create?

The network's segment is evaluated in float64 *on the twin's own captured inputs* and compared with the twin's
captured output. Error that came in with the inputs cancels, so the rest was born here. It is
measured in units of the noise floor: how far rounding at the twin's precision may move each element.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch

from twinnet.errors import EngineError
from twinnet.judge.bridge import Bridges, Span
from twinnet.judge.carried import Carried
from twinnet.judge.flips import Flipped
from twinnet.judge.refuted import Refuted
from twinnet.judge.sizes import TINY_HALF, Sizes, as_real, class_of, nonfinite
from twinnet.judge.verdicts import LIMIT, Born
from twinnet.layers import evaluate, evaluate_with_error, kinds
from twinnet.layers.graph import Graph
from twinnet.network.arrays import to_tensor
from twinnet.pairing import Pair
from twinnet.precision import TINY
from twinnet.result import fact

if TYPE_CHECKING:
    from twinnet.judge.declared import Declared

__all__ = ["BLIND", "BornTest", "Frontier"]

Frontier = Callable[
    [Pair], "tuple[tuple[int, ...], dict[str, torch.Tensor], Mapping[str, torch.Tensor]] | None"
]
"""Gives a pair's segment: its layers, its inputs in the twin, and how far rounding may move each input."""

BLIND = 1000.0
"""A tensor must be this many floors large somewhere, else the data cannot show a fault in it.

A narrow format cannot reach that: float16 has 2^11 steps in all. There a tensor is tested as soon as a fault of a
few per cent (float16) or of half its size (bfloat16) would show.
"""

_NARROW_BLIND = 2.0**-5
_QUOTIENT = 1 + 2.0**-12
"""Engines divide by the step in float32: a value half way between two integers may become either."""
_STEPS_BLIND = 64.0

_SHAPE_KINDS = {"shape", "size", "rank"}


@dataclass(frozen=True)
class BornTest:
    """Judges pairs of one network and one twin, sample by sample.

    `unit` is the unit roundoff of the twin's declared precision; `inputs` maps the graph's input names to those of
    the samples; `observable` are the values the network's side can show (None: all); `spread` is how far two equal
    runs of the twin are apart, where it is not deterministic; `declared` knows the steps of a quantised twin; `half`
    means that it computes in float16, `as_deployed` that watching leaves its outputs about what they are, `apart` that
    it is watched in another program than the one that ships.
    """

    graph: Graph
    pairs: Sequence[Pair]
    _: KW_ONLY
    unit: float
    inputs: Mapping[str, str]
    limit: float = LIMIT
    observable: Collection[str] | None = None
    spread: Mapping[str, float] = field(default_factory=dict)
    declared: Declared | None = None
    half: bool = False
    as_deployed: bool = True
    apart: bool = False
    _segments: dict[tuple[str, frozenset[str]], tuple[tuple[int, ...], tuple[str, ...]]] = field(
        default_factory=dict, init=False, repr=False
    )

    @cached_property
    def by_tensor(self) -> dict[str, Pair]:
        """The pairs by the network's tensor."""
        return {p.site.tensor: p for p in self.pairs}

    @property
    def shape_values(self) -> frozenset[str]:
        """Values computed from shapes alone: equal on both sides, taken from the network's own run."""
        return self._shape_values

    @cached_property
    def _shape_values(self) -> frozenset[str]:
        found: set[str] = set()
        for layer in self.graph:
            operands = [n for n in layer.inputs if n is not None and n not in self.graph.constants]
            if layer.kind in _SHAPE_KINDS or (operands and all(n in found for n in operands)):
                found.update(layer.outputs)
        return frozenset(found if self.observable is None else found & set(self.observable))

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.by_tensor) | self.shape_values | frozenset(self.inputs)

    def segment(
        self, tensor: str, across: frozenset[str] = frozenset()
    ) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """The layers from the nearest known tensors to this one, and those tensors; `across` do not count as known."""
        key = (tensor, across)
        if key not in self._segments:
            self._segments[key] = self.graph.segment([tensor], self._known - across)
        return self._segments[key]

    def labels(self, tensor: str) -> tuple[str, ...]:
        """The names of a segment's layers, last layer first."""
        return self.named(self.segment(tensor)[0])

    def named(self, layers: Sequence[int]) -> tuple[str, ...]:
        """The names of layers, last one first."""
        return tuple(self.graph.layers[i].label for i in reversed(layers))

    # -- one sample ----------------------------------------------------------------------------------------------

    def on(
        self,
        sample: Mapping[str, np.ndarray],
        network_trace: Mapping[str, np.ndarray],
        twin_trace: Mapping[str, np.ndarray],
    ) -> Callable[[Pair], Born]:
        """Return a judge of pairs for one sample; it is valid as long as the traces are."""
        return _Sample(self, sample, network_trace, twin_trace).judge

    def frontiers(
        self,
        sample: Mapping[str, np.ndarray],
        network_trace: Mapping[str, np.ndarray],
        twin_trace: Mapping[str, np.ndarray],
    ) -> Frontier:
        """Return a function that gives a pair's segment and its inputs on one sample; None if an input is missing."""
        found = _Sample(self, sample, network_trace, twin_trace)

        def of(
            pair: Pair,
        ) -> tuple[tuple[int, ...], dict[str, torch.Tensor], Mapping[str, torch.Tensor]] | None:
            across = found.refuted.across(pair.site.tensor) if self.apart else None
            span = found.bridges.span(pair) if across is None else across[0]
            if any(not found._has(n) for n in span.frontier):
                return None
            values = {n: found._value(n) for n in span.frontier}
            return span.layers, values, Carried(lambda: found._carry(span.frontier))

        return of


class _Sample:
    def __init__(
        self,
        test: BornTest,
        sample: Mapping[str, np.ndarray],
        network_trace: Mapping[str, np.ndarray],
        twin_trace: Mapping[str, np.ndarray],
    ) -> None:
        self._test = test
        self._sample = sample
        self._network = network_trace
        self._twin = twin_trace
        self.bridges = Bridges(
            test.graph,
            # The steps of a quantised twin are known from tensor to tensor only.
            test.by_tensor if test.declared is None else {},
            network_trace,
            segment=test.segment,
            judge=self._judge,
            expected=lambda tensor, span: self._evaluate(tensor, span.layers, span.frontier, {})[0],
            value=self._value,
        )
        self.refuted = Refuted(self.bridges, twin_trace, test.unit)

    def judge(self, pair: Pair) -> Born:
        """The judgement by the pair's segment, or by a longer one across tensors that watching changed."""
        if pair.site.tensor not in self._test.graph.producer:
            return Born("not judged", reason=fact("born.no_layer"))
        _, born = self.bridges.judged(pair)
        if self._test.apart and born.status in ("fail", "pass"):
            return self.refuted.judged(pair, born)
        if born.status in ("pass", "untested") and not born.finite:
            if why := self.bridges.changed(pair):
                return replace(born, status="untested", reason=why)
            if self._test.as_deployed and (why := self.bridges.overflow(pair)):
                return replace(born, status="fail", ratio=None, born=None, floor=None, reason=why)
        return born

    def _judge(self, pair: Pair, span: Span) -> Born:
        """Judge a pair by a span: evaluate it, then compare shape and dtype class, NaN and Inf, and size."""
        test = self._test
        tensor, layers, frontier = pair.site.tensor, span.layers, span.frontier
        labels = test.named(layers)
        missing = [n for n in frontier if not self._has(n)]
        if missing:
            return Born("not judged", reason=fact("born.no_value", tensor=missing[0]), segment=labels)
        got = to_tensor(pair.transform.to_network(self._twin[pair.twin_site.tensor]))
        try:
            if self._moved_only(tensor, layers, frontier, got):
                finite = not got.is_floating_point() or bool(got.sum(dtype=torch.float64).isfinite())
                return Born("pass", 0.0, 0.0, 0.0, segment=labels, limit=test.limit, finite=finite)
            expected, error = self._evaluate(tensor, layers, frontier, {})
        except EngineError as unknown:
            # Not known to us, or not computable on what the twin put in: no judgement, and never a verdict.
            return Born("not judged", reason=fact("born.not_evaluated", error=unknown.what), segment=labels)
        if expected.shape != got.shape:
            reason = fact("shape.differs", network=tuple(expected.shape), twin=tuple(got.shape))
            return Born("fail", reason=reason, segment=labels)
        if class_of(expected) != class_of(got):
            reason = fact("type.differs", network=class_of(expected), twin=class_of(got))
            return Born("fail", reason=reason, segment=labels)
        if class_of(got) not in ("float", "complex"):
            return self._discrete(pair, span, expected, got, labels)
        verdict = self._numbers(pair, expected, error, got, labels)
        if verdict.status == "fail" and verdict.ratio is not None:
            carried = self._carry(frontier)
            expected, error = self._evaluate(tensor, layers, frontier, carried, flush=TINY)
            verdict = self._numbers(pair, expected, error, got, labels)
        if verdict.status == "fail" and verdict.ratio is not None:
            verdict = self._by_steps(pair, layers, frontier, got, labels) or verdict
        return verdict

    def _by_steps(
        self,
        pair: Pair,
        layers: Sequence[int],
        frontier: Sequence[str],
        got: torch.Tensor,
        labels: tuple[str, ...],
    ) -> Born | None:
        """The judgement by the steps that a quantised twin declares; None where it declares none here."""
        test = self._test
        if test.declared is None:
            return None
        from twinnet.judge.expectation import COARSE, SegmentRun, expect

        values = {name: self._value(name) for name in frontier}
        own = self._network.get(pair.site.tensor)
        expected = expect(test.declared, SegmentRun(pair, layers, values, self._twin, own, test.unit))
        if expected is None:
            return None
        allowed = expected.steps.double() * _QUOTIENT / test.limit
        if expected.floor is not None:
            allowed = allowed + expected.floor
        sizes = Sizes(got, expected.value, allowed, test.unit)
        if sizes.ratio <= test.limit:
            status = "pass" if sizes.level >= _STEPS_BLIND else "untested"
            reason = None if status == "pass" else fact("born.within_steps")
            found = Born(status, sizes.ratio, sizes.born, sizes.floor, reason, labels, test.limit)
            if expected.weights_used is not None and expected.weights_used < COARSE:
                coarse = fact("quantisation.coarse_weights", used=expected.weights_used)
                found = replace(found, status="fail", reason=coarse)
            return replace(found, used=expected.used)
        reason = fact("born.beyond_steps", clipped=expected.clipped)
        return Born("fail", sizes.ratio, sizes.born, sizes.floor, reason, labels, test.limit)

    def _has(self, name: str) -> bool:
        test = self._test
        if name in test.inputs or name in test.by_tensor:
            return True
        return name in test.shape_values and name in self._network

    def _value(self, name: str) -> torch.Tensor:
        test = self._test
        if name in test.inputs:
            return to_tensor(np.asarray(self._sample[test.inputs[name]]))
        pair = test.by_tensor.get(name)
        if pair is not None:
            return to_tensor(pair.transform.to_network(self._twin[pair.twin_site.tensor]))
        return to_tensor(self._network[name])

    def _evaluate(
        self,
        tensor: str,
        layers: Sequence[int],
        frontier: Sequence[str],
        errors: Mapping[str, torch.Tensor],
        *,
        flush: float = 0.0,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        test = self._test
        values = {name: self._value(name) for name in frontier}
        found = evaluate_with_error(
            test.graph, values, errors, unit=test.unit, layers=layers, keep=[tensor], flush=flush
        )
        return found[tensor]

    def _carry(self, frontier: Sequence[str], depth: int = 0) -> dict[str, torch.Tensor]:
        """How far each input may be off by its own segment's rounding; exact segments pass on that of their inputs."""
        test = self._test
        errors: dict[str, torch.Tensor] = {}
        for name in frontier:
            if name not in test.by_tensor or name not in test.graph.producer:
                continue
            layers, before = test.segment(name)
            if any(not self._has(n) for n in before):
                continue
            try:
                value, own = self._rounding(name, layers, before, depth)
                if value.is_floating_point() and not value.sum().isfinite():
                    # Nothing is known of it from what only looks infinite.
                    span = self.bridges.span(test.by_tensor[name])
                    if span.crossed:
                        value, own = self._rounding(name, span.layers, span.frontier, depth)
            except EngineError:
                continue
            if class_of(value) in ("float", "complex"):
                # An infinity is exact: what follows from it is not free to be anything.
                rounding = value.abs().mul_(test.unit).to(torch.float32)
                rounding = torch.where(rounding.isfinite(), rounding, 0.0)
                errors[name] = rounding if own is None else own + rounding
            elif own is not None:
                errors[name] = own
        return errors

    def _rounding(
        self, tensor: str, layers: Sequence[int], frontier: Sequence[str], depth: int
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        inherited = self._carry(frontier, depth + 1) if depth < 8 and self._exact(layers) else {}
        return self._evaluate(tensor, layers, frontier, inherited)

    def _exact(self, layers: Sequence[int]) -> bool:
        return all(kinds.get(self._test.graph.layers[i].kind).exact for i in layers)

    def _numbers(
        self,
        pair: Pair,
        expected: torch.Tensor,
        error: torch.Tensor | None,
        got: torch.Tensor,
        labels: tuple[str, ...],
    ) -> Born:
        test = self._test
        if expected.numel() == 0:
            return Born("pass", 0.0, 0.0, 0.0, segment=labels)
        if got.is_complex():  # judged by its parts; a bound of the modulus holds for each
            expected, got = as_real(expected), as_real(got)
            error = None if error is None else error.unsqueeze(-1)
        # A float16 twin that hands its results on as float32 has still lost what float16 cannot hold.
        spread = test.spread.get(pair.site.tensor, 0.0) + (TINY_HALF if test.half else 0.0)
        sizes = Sizes(got, expected, error, test.unit, spread)
        if not sizes.finite:
            reason = nonfinite(expected, got, pair, self._network)
            if reason:
                return Born("fail", reason=reason, segment=labels, limit=test.limit, finite=False)
        status, reason = "pass", None
        if sizes.ratio > test.limit:
            status, reason = "fail", fact("born.too_large")
        elif sizes.level < min(BLIND, _NARROW_BLIND / test.unit):
            nothing = not sizes.level and not sizes.finite
            status, reason = "untested", fact("born.nothing_finite" if nothing else "born.within_rounding")
        return Born(status, sizes.ratio, sizes.born, sizes.floor, reason, labels, test.limit, sizes.finite)

    def _moved_only(
        self, tensor: str, layers: Sequence[int], frontier: Sequence[str], got: torch.Tensor
    ) -> bool:
        """Whether the segment only moves or selects values, and the twin's result is bit-equal."""
        if not layers or not self._exact(layers):
            return False
        values = {name: self._value(name) for name in frontier}
        found = evaluate(self._test.graph, values, layers=layers, keep=[tensor], widen=False)[tensor]
        if found.dtype != got.dtype or not torch.equal(found, got):
            return False
        return not got.is_floating_point() or bool((got != 0).any())

    def _discrete(
        self,
        pair: Pair,
        span: Span,
        expected: torch.Tensor,
        got: torch.Tensor,
        labels: tuple[str, ...],
    ) -> Born:
        """Integers and flags must be equal, except where the reference itself was within rounding of flipping."""
        test = self._test
        limit = test.limit
        same = expected == got
        if bool(same.all()):
            return Born("pass", 0.0, 0.0, 0.0, segment=labels, limit=limit)
        values = {name: self._value(name) for name in span.frontier}
        errors = self._carry(span.frontier)
        if test.declared is not None:  # values that the twin's steps make equal may be told apart either way
            for name, half in test.declared.rounded_data(pair.twin_site.tensor).items():
                if name in values:
                    errors[name] = errors.get(name, torch.zeros(())) + torch.full(values[name].shape, half)
        run = Flipped(test.graph, span.layers, values, errors, test.unit)
        excused = run.excused(pair.site.tensor, expected, got)
        flips = int((~same).sum())
        if bool(excused.all()):
            return Born("excused", 0.0, 0.0, 0.0, fact("born.flips", count=flips), labels, limit)
        wrong = int((~excused).sum())
        off = float((got.to(torch.float64) - expected.to(torch.float64)).abs().max())
        reason = fact("born.elements", count=wrong, elements=expected.numel())
        return Born("fail", math.inf, off, 0.0, reason, labels, limit)
