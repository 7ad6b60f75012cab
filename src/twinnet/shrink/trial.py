"""One trial: does this part, on these inputs, still show the fault?"""

from __future__ import annotations

import time
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
import torch

from twinnet.engines import engine_for_format, known_engine, standalone_of
from twinnet.engines.floats import own_floats
from twinnet.errors import EngineError, foreign
from twinnet.judge.born import BornTest
from twinnet.judge.sizes import as_real
from twinnet.judge.verdicts import Born
from twinnet.layers import Graph, evaluate_with_error
from twinnet.network.arrays import to_numpy, to_tensor
from twinnet.onnx.cut import set_inputs
from twinnet.onnx.read import read_onnx
from twinnet.pairing import Pair
from twinnet.result import Fact, coded
from twinnet.shrink.repair import Repair, other_engine, own_file, own_steps
from twinnet.shrink.seed import Link, Runner
from twinnet.shrink.steps import Steps
from twinnet.site import Site

__all__ = ["Bench", "Candidate", "Outcome", "allowance", "exact_values", "run", "run_as_written"]

_TINY = 2.0**-126
_QUANTISERS = {"QuantizeLinear", "DequantizeLinear", "Relu", "Clip"}
_CLEAR = 2.0
"""A fault must exceed the limit by this factor, so that the file shows it on other processors too."""
_FAINTER = 0.01
"""A part whose ratio is below this share of the finding's shows something else."""


@dataclass(frozen=True)
class Candidate:
    """A part of both sides and its inputs. `network` and `twin` are one object if both sides run the same file."""

    network: onnx.ModelProto
    twin: onnx.ModelProto
    feeds: Mapping[str, np.ndarray]
    links: Mapping[str, Link]

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(o.name for o in self.network.graph.output)

    @property
    def same_file(self) -> bool:
        return self.network is self.twin

    @property
    def size(self) -> int:
        """Number of fed elements."""
        return sum(a.size for a in self.feeds.values())

    @property
    def alike(self) -> bool:
        """Whether both sides have the same operators in the same order, but for at most one that was replaced.

        Only then can both be cut alike without creating a new difference: a twin that folds a batch norm or a size
        into its weights computes the same result in other steps. Quantisers do not count, nor
        the ReLU that they replace.
        """
        quantised = any(n.op_type.startswith("Q") for n in self.twin.graph.node)
        ignored = {"Constant", "Identity"} | (_QUANTISERS if quantised else set())
        ours, theirs = (
            [op for n in m.graph.node if (op := n.op_type.removeprefix("QLinear")) not in ignored]
            for m in (self.network, self.twin)
        )
        return len(ours) == len(theirs) and sum(a != b for a, b in zip(ours, theirs, strict=True)) <= 1

    def twin_feeds(self) -> dict[str, np.ndarray]:
        """The inputs under the twin's names and in its form."""
        links = ((self.links.get(n, Link(n, n)), a) for n, a in self.feeds.items())
        return {
            k.twin: np.ascontiguousarray(k.transform.to_twin(a)).reshape(k.transform.to_twin(a).shape)
            for k, a in links
        }

    def fed(self, feeds: Mapping[str, np.ndarray]) -> Candidate:
        """The same part on other inputs."""
        return self.of(self.network, self.twin, feeds, self.links)

    @staticmethod
    def of(
        network: onnx.ModelProto,
        twin: onnx.ModelProto,
        feeds: Mapping[str, np.ndarray],
        links: Mapping[str, Link],
    ) -> Candidate:
        """A candidate whose models declare inputs of the shapes and types that are fed."""
        # Integers that count steps hold nothing between two steps.
        feeds = {
            n: k.transform.to_network(k.transform.to_twin(np.asarray(a)))
            if (k := links.get(n)) is not None and k.transform.scale is not None
            else a
            for n, a in feeds.items()
        }
        ours = set_inputs(deepcopy(network), feeds)
        held = {i.name for i in ours.graph.input}
        made = Candidate(ours, ours, {n: a for n, a in feeds.items() if n in held}, links)
        if twin is network:
            return made
        theirs = set_inputs(deepcopy(twin), replace(made, feeds=feeds).twin_feeds())
        needed = {i.name for i in theirs.graph.input}
        kept = {n: a for n, a in feeds.items() if n in held or links.get(n, Link(n, n)).twin in needed}
        return Candidate(ours, theirs, kept, links)


@dataclass(frozen=True)
class Outcome:
    """The result of a trial at the output that differs most."""

    output: str
    born: Born
    observed: np.ndarray

    @property
    def kind(self) -> str:
        """Numbers, integers, NaN and Inf, or shape: a part that fails in another way shows another fault."""
        if self.born.ratio is None:
            return "shape" if coded(self.born.reason, "shape.differs", "type.differs") else "nonfinite"
        return "numbers" if np.isfinite(self.born.ratio) else "discrete"


@dataclass
class Bench:
    """Runs trials. One that cannot run is counted, and never taken as showing the fault.

    With `quantised` parts are judged by the steps that the twin declares, and must pass once `cause` is repaired.
    """

    network_side: Runner
    twin_side: Runner
    unit: float
    limit: float
    quantised: bool = False
    cause: Fact | None = None
    trials: int = 400
    seconds: float = 0.0
    ran: int = 0
    failed: int = 0
    first: Outcome | None = None
    _healing: bool = False
    _start: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.seconds = self.seconds or allowance(self.twin_side.engine)

    @property
    def spent(self) -> bool:
        """Whether the budget of trials or time is used up."""
        return self.ran >= self.trials or time.monotonic() - self._start > self.seconds

    def shows(self, candidate: Candidate | None) -> Outcome | None:
        """The fault as this candidate shows it, or None."""
        if candidate is None or self.spent:
            return None
        self.ran += 1
        try:
            found = self.judge(candidate)
        except EngineError:  # the trial could not run, so it shows nothing
            self.failed += 1
            return None
        if found is None or not self._same(found):
            return None
        if self.first is None:
            self._healing = self._heals(candidate, found)
            self.first = found
        elif self._healing and not self._heals(candidate, found):
            return None
        return found

    def _heals(self, candidate: Candidate, found: Outcome) -> bool:
        """Whether a quantised part passes with its cause repaired."""
        repair = self.repair(candidate, found.output) if self.quantised else None
        return repair is not None and self.passes(repair)

    def passes(self, repair: Repair) -> bool:
        """Whether a repaired part runs and shows no fault."""
        try:
            return self.judge(repair.candidate, repair.side) is None
        except EngineError:
            return False

    def repair(self, candidate: Candidate, output: str) -> Repair | None:
        """The part with its cause repaired; None if that cannot be done."""
        if coded(self.cause, "steps.pairs"):
            return other_engine(candidate, self.twin_side, Runner("onnx-reference"))
        if candidate.same_file:
            engine = engine_for_format("ONNX")
            other = (
                self.network_side
                if self.network_side.engine
                else Runner(engine.name, dict(engine.as_written))
            )
            return other_engine(candidate, self.twin_side, other)
        if not self.quantised:
            return own_file(candidate, self.twin_side)
        if self.cause is None:
            return None
        try:
            return own_steps(candidate, self._steps(candidate), output, self.cause, self.twin_side)
        except EngineError:
            return None

    def expected(self, candidate: Candidate, output: str) -> tuple[np.ndarray, np.ndarray]:
        """What the network's part computes, and how far rounding, or the twin's steps, may move each element."""
        found = self._steps(candidate).expected(output, self.limit) if self.quantised else None
        graph = read_onnx(candidate.network)
        return found or exact_values(graph, candidate.feeds, output, self.unit, self.limit)

    def _steps(self, candidate: Candidate) -> Steps:
        graph = read_onnx(candidate.network)
        own = {
            n: exact_values(graph, candidate.feeds, n, self.unit, self.limit)[0] for n in candidate.outputs
        }
        return Steps(candidate, graph, own, self.unit)

    def _same(self, found: Outcome) -> bool:
        if self.first is not None and found.kind != self.first.kind:
            return False
        ratio = found.born.ratio
        if found.kind != "numbers" or ratio is None:
            return True
        whole = self.first.born.ratio if self.first is not None and self.first.born.ratio else 0.0
        return ratio > max(_CLEAR * self.limit, _FAINTER * whole)

    def judge(self, candidate: Candidate, side: Runner | None = None) -> Outcome | None:
        """Run the twin's part, and the network's where an engine is named for it; judge as the finding was."""
        got = run(side or self.twin_side, candidate.twin, candidate.twin_feeds())
        named = {n: candidate.links.get(n, Link(n, n)) for n in candidate.outputs}
        theirs = {n: np.asarray(k.transform.to_network(np.asarray(got[k.twin]))) for n, k in named.items()}
        graph = read_onnx(candidate.network)
        found = self._worst(
            graph, candidate.feeds, theirs, self._steps(candidate) if self.quantised else None
        )
        if found is None or not self.network_side.engine:
            return found
        # Two sides that are off by the same amount do not differ: the network's own run must agree.
        ours = run(self.network_side, candidate.network, candidate.feeds)
        own = self._worst(graph, candidate.feeds, {found.output: np.asarray(ours[found.output])})
        return found if own is None else None

    def _worst(
        self,
        graph: Graph,
        feeds: Mapping[str, np.ndarray],
        outputs: Mapping[str, np.ndarray],
        steps: Steps | None = None,
    ) -> Outcome | None:
        worst: Outcome | None = None
        for name, array in outputs.items():
            pair = Pair(Site(name), Site(name), "cut")
            test = BornTest(
                graph, [pair], unit=self.unit, limit=self.limit, inputs={n: n for n in feeds}, observable=()
            )
            born = test.on(feeds, {}, {name: array})(pair)
            if steps is not None and born.status == "fail" and born.ratio is not None:
                born = steps.judged(name, array, self.limit) or born
            if born.status != "fail":
                continue
            if worst is None or (born.ratio or 0.0) > (worst.born.ratio or 0.0):
                worst = Outcome(name, born, array)
        return worst


def run(side: Runner, model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The outputs of a model under an engine; `EngineError` where it does not run."""
    alone = standalone_of(side.engine)
    if alone is None:
        raise EngineError(f"{side.engine} cannot run a part of the network alone", stage="cut")
    data = model.SerializeToString()
    with own_floats(), foreign("run the part", side.engine):
        return alone.run(data, dict(side.options), dict(feeds))


def run_as_written(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The outputs of a model without optimisation, under the engine that runs ONNX unless another is named."""
    engine = engine_for_format("ONNX")
    return run(Runner(engine.name, dict(engine.as_written)), model, feeds)


def allowance(engine: str) -> float:
    """Time budget for making a network smaller, in seconds; a compiler needs more for every trial.

    >>> allowance("onnxruntime"), allowance("iree")
    (60.0, 300.0)
    """
    found = known_engine(engine)
    return 300.0 if found is not None and found.abilities.segment == "compile" else 60.0


def exact_values(
    graph: Graph, feeds: Mapping[str, np.ndarray], output: str, unit: float, limit: float
) -> tuple[np.ndarray, np.ndarray]:
    """What the network's layers compute in float64, and how far rounding may move each element."""
    values = {name: to_tensor(a) for name, a in feeds.items()}
    layers, _ = graph.segment([output], values)
    value, bound = evaluate_with_error(graph, values, {}, unit=unit, layers=layers, keep=[output])[output]
    if value.is_complex():  # by its two parts
        value, bound = as_real(value), None if bound is None else bound.unsqueeze(-1)
    if not value.is_floating_point():
        return to_numpy(value), np.zeros(tuple(value.shape))
    floor = value.abs() * unit + _TINY
    if bound is not None:
        floor = floor + bound.to(torch.float64)
    floor = torch.where(floor.isfinite(), floor, torch.zeros_like(floor))
    return to_numpy(value), to_numpy(floor * limit)
