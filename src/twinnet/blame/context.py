"""Cause and impact of a failing pair, from the traces of one sample."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from twinnet.blame.causes.nondeterminism import unsteady
from twinnet.blame.impact import impact_of, output_error
from twinnet.blame.problem import Patch, Problem
from twinnet.blame.search import Explanation, holds, solve
from twinnet.errors import EngineError
from twinnet.judge.verdicts import LIMIT
from twinnet.layers import evaluate
from twinnet.layers.graph import Graph, Layer
from twinnet.network.arrays import to_tensor
from twinnet.pairing import Pair
from twinnet.result import Cause, Fact, Finding, fact

if TYPE_CHECKING:
    from twinnet.blame.causes import Candidate
    from twinnet.blame.repertoire import Repertoire
    from twinnet.judge.born import Frontier
    from twinnet.judge.declared import Declared

__all__ = ["Blame", "Context", "blame", "contradicted", "impact_and_share", "outside", "problem_of"]

_FEW_STEPS = 2.0
"""An error up to this many times what the steps of a quantised twin allow has no cause that could be told apart."""


@dataclass(frozen=True)
class Context:
    """What blame may look at: both graphs, the pairs, and one sample's tensors.

    `frontier` gives for a pair the network's layers of its segment, the twin's inputs of it and their error
    bounds (`BornTest.on(...).frontier`). `outputs` are pairs of output names, (network, twin);
    `twin_inputs` maps the twin graph's inputs to the network graph's. `varying` marks the elements in which two equal
    runs of the twin differ, `spread` says by how much, for the tensors where they do. `declared`
    knows the steps of a quantised twin, `repertoire` the causes of a network with its own meaning.
    """

    graph: Graph
    pairs: Sequence[Pair]
    frontier: Frontier
    trace: Mapping[str, np.ndarray]
    twin_trace: Mapping[str, np.ndarray]
    inputs: Mapping[str, torch.Tensor]
    unit: float = 2.0**-24
    twin_graph: Graph | None = None
    twin_inputs: Mapping[str, str] = field(default_factory=dict)
    outputs: Sequence[tuple[str, str]] = ()
    varying: Mapping[str, np.ndarray] = field(default_factory=dict)
    spread: Mapping[str, float] = field(default_factory=dict)
    declared: Declared | None = None
    repertoire: Repertoire | None = None


@dataclass(frozen=True)
class Blame:
    """What blame found about one finding."""

    ratio: float
    cause: Cause | None = None
    reason: Fact | None = None
    impact: float | None = None
    born_share: float | None = None
    confirmed: bool | None = None
    confirmation: Fact | None = None
    patch: Patch | None = field(default=None, compare=False, repr=False)
    """What the cause changes in the segment."""
    candidate: Candidate | None = field(default=None, compare=False, repr=False)
    """The hypothesis behind the cause."""
    sample: int = 0
    unexplained: Problem | None = field(default=None, compare=False, repr=False)
    """The segment on this sample, if nothing explains it: a cause found on another must explain it too."""

    def on(self, finding: Finding) -> Finding:
        """The finding with this added; evidence replaces a reason that only says "too large"."""
        reason = finding.reason
        if self.reason is not None and self.cause is None:
            told = reason is not None and reason.code != "born.too_large"
            reason = fact("because", what=reason, why=self.reason) if told else self.reason
        return replace(
            finding,
            cause=self.cause or finding.cause,
            impact=self.impact,
            born_share=self.born_share,
            reason=reason,
            confirmed=self.confirmed,
            confirmation=self.confirmation,
        )


def problem_of(pair: Pair, context: Context) -> Problem | None:
    """The segment of a pair as a problem; None if it cannot be evaluated."""
    tensor = pair.site.tensor
    if tensor not in context.graph.producer:
        return None
    found = context.frontier(pair)
    if found is None:
        return None
    indices, values, errors = found
    layers = tuple(context.graph.layers[i] for i in indices)
    read = {n for layer in layers for n in layer.inputs if n is not None}
    constants = {n: context.graph.constants[n] for n in read if n in context.graph.constants}
    got = to_tensor(pair.transform.to_network(context.twin_trace[pair.twin_site.tensor]))
    kept, steps = None, {}
    if context.declared is not None:
        from twinnet.judge.expectation import SegmentRun, keep_segment

        own = context.trace.get(tensor)
        run = SegmentRun(pair, indices, values, context.twin_trace, own, context.unit)
        kept, steps = keep_segment(context.declared, run), context.declared.steps_of_data(values)
    if kept is not None:
        # Explained as it was judged: with the twin's own weights and steps.
        return Problem(
            kept.graph.layers,
            {n: v for n, v in kept.graph.constants.items() if any(n in layer.inputs for layer in kept.graph)},
            values,
            tensor,
            kept.unrounded(got),
            unit=context.unit,
            kept=kept,
            steps=steps,
            graph_inputs=frozenset(context.inputs),
        )
    if got.is_complex():  # explained by real and imaginary part
        parts = Layer("view_as_real", (tensor,), (f"{tensor} (parts)",))
        layers, tensor, got = (*layers, parts), parts.outputs[0], torch.view_as_real(got)
    return Problem(
        layers,
        constants,
        values,
        tensor,
        got,
        unit=context.unit,
        errors=errors,
        steps=steps,
        twin=_twin_part(pair, indices, context),
        graph_inputs=frozenset(context.inputs),
        network=context.graph,
        repertoire=context.repertoire,
    )


def error_of(pair: Pair, context: Context) -> tuple[torch.Tensor, torch.Tensor] | None:
    """The error that a segment creates, and what it should compute; None where these cannot be told.

    The same as of its `Problem`, without the bounds that only a judgement needs.
    """
    tensor = pair.site.tensor
    got = to_tensor(pair.transform.to_network(context.twin_trace[pair.twin_site.tensor]))
    found = context.frontier(pair) if tensor in context.graph.producer else None
    if found is None:
        return None
    if got.is_complex() or context.repertoire is not None:
        problem = problem_of(pair, context)
        if problem is None or not problem.same_shape or not problem.is_float:
            return None
        return problem.error, problem.expected
    indices, values, _ = found
    graph = None
    if context.declared is not None:
        from twinnet.judge.expectation import SegmentRun, declared_segment

        run = SegmentRun(pair, indices, values, context.twin_trace, context.trace.get(tensor), context.unit)
        graph = declared_segment(context.declared, run)
    if graph is not None:
        expected = evaluate(graph, values)[tensor]
    else:
        expected = evaluate(context.graph, values, layers=indices, keep=[tensor])[tensor]
    if expected.shape != got.shape or not (expected.is_floating_point() and got.is_floating_point()):
        return None
    return got.to(expected.dtype) - expected, expected


def _impact(pair: Pair, problem: Problem, context: Context) -> tuple[float | None, float | None]:
    if not problem.same_shape or not problem.is_float:
        return None, None
    born = problem.error
    if pair.site.tensor in dict(context.outputs):  # the error of an output is stated in finite numbers
        born = torch.where(born.isfinite(), born, 0.0)
    return impact_and_share(pair.site.tensor, born, context)


def impact_and_share(tensor: str, born: torch.Tensor, context: Context) -> tuple[float | None, float | None]:
    """The output error that an error at a tensor causes, and its share of the whole output error."""
    names = tuple(ours for ours, _ in context.outputs)
    if tensor in context.trace and np.iscomplexobj(context.trace[tensor]):
        born = torch.view_as_complex(born.contiguous())
    impact = impact_of(context.graph, tensor, born, context.trace, context.inputs, names)
    if impact is None:
        return None, None
    total = 0.0
    for ours, theirs in context.outputs:
        if ours in context.trace and theirs in context.twin_trace:
            a, b = to_tensor(context.trace[ours]), to_tensor(context.twin_trace[theirs])
            total = max(total, output_error(a, b))
    return impact, impact / total if total > 0 and np.isfinite(total) else None


def blame(
    pairs: Iterable[tuple[Pair, float]], context: Context, *, impacts: int = 4, sample: int = 0
) -> dict[str, Blame]:
    """Cause and, for the first few, impact of failing pairs, by network tensor."""
    found: dict[str, Blame] = {}
    for number, (pair, ratio) in enumerate(pairs):
        found[pair.site.tensor] = Blame(ratio, sample=sample)
        try:
            problem = problem_of(pair, context)
            if problem is None:
                continue
            explanation = _unsteady(pair, problem, context) or solve(problem)
            if context.declared is not None and ratio <= _FEW_STEPS * LIMIT:
                explanation = _certain(explanation)
            impact, share = _impact(pair, problem, context) if number < impacts else (None, None)
        except EngineError:
            continue
        found[pair.site.tensor] = Blame(
            ratio,
            explanation.cause,
            explanation.reason,
            impact,
            share,
            patch=explanation.patch,
            candidate=explanation.candidate,
            sample=sample,
            unexplained=problem if explanation.cause is None and _small(problem) else None,
        )
    return found


_KEPT = 1 << 20


def _small(problem: Problem) -> bool:
    return sum(v.numel() for v in (problem.got, *problem.inputs.values())) <= _KEPT


def contradicted(told: Blame, problem: Problem | None, number: int) -> Fact | None:
    """Why the cause found on one sample is not the cause: it does not explain sample `number`. None if it does."""
    cause = told.cause
    if cause is None or told.candidate is None or problem is None:
        return None
    try:
        if holds(cause, told.candidate, problem):
            return None
    except EngineError:
        return None
    return fact("cause.samples", first=cause.fact, found=told.sample, sample=number)


def _certain(explanation: Explanation) -> Explanation:
    """Without a cause that only fits the numbers: within a few steps of a quantised twin many do by chance."""
    cause = explanation.cause
    seen = cause is not None and cause.fact.code.startswith("steps.") and cause.fact.code != "steps.range"
    return explanation if seen else replace(explanation, cause=None, patch=None)


def _unsteady(pair: Pair, problem: Problem, context: Context) -> Explanation | None:
    """Nondeterminism as the cause, if the error changes from run to run; no other is then looked for."""
    tensor = pair.site.tensor
    if tensor not in context.varying:
        return None
    cause = unsteady(problem, context.varying[tensor], context.spread.get(tensor, 0.0))
    return None if cause is None else Explanation(cause)


def outside(pair: Pair, layers: Iterable[int], context: Context) -> list[Pair]:
    """The pairs at which a segment of these layers may begin: not its own pair, nor one inside it."""
    inside = {n for i in layers for n in context.graph.layers[i].outputs} | {pair.site.tensor}
    return [p for p in context.pairs if p.site.tensor not in inside]


def _twin_part(pair: Pair, layers: Iterable[int], context: Context) -> Graph | None:
    """The twin's own layers of the segment, their values under the network's names where they correspond."""
    graph = context.twin_graph
    if graph is None or pair.twin_site.tensor not in graph.producer or not pair.transform.is_identity:
        return None
    paired = {p.twin_site.tensor: p for p in (*outside(pair, layers, context), pair)}
    ours = {name: p.site.tensor for name, p in paired.items() if p.transform.is_identity}
    ours.update(context.twin_inputs)
    indices, frontier = graph.segment([pair.twin_site.tensor], [*ours, *paired])
    # A tensor that the twin holds with permuted axes is a transpose of the network's.
    turned = {n: paired[n] for n in frontier if n not in ours}
    if not all(p.transform.is_permutation for p in turned.values()):
        return None
    known = {n: ours[n] for n in (*frontier, pair.twin_site.tensor) if n in ours}

    def named(name: str | None) -> str | None:
        return None if name is None else known.get(name, f"twin/{name}")

    part = [
        Layer(
            "transpose",
            (p.site.tensor,),
            (f"twin/{n}",),
            {"perm": tuple(np.argsort(p.transform.perm).tolist())},
        )
        for n, p in turned.items()
        if p.transform.perm is not None
    ]
    constants = {}
    for i in indices:
        layer = graph.layers[i]
        for name in layer.inputs:
            if name is not None and name in graph.constants:
                constants[f"twin/{name}"] = graph.constants[name]
        outputs = tuple(named(n) or "" for n in layer.outputs)
        part.append(replace(layer, inputs=tuple(named(n) for n in layer.inputs), outputs=outputs))
    inputs = (*known.values(), *(p.site.tensor for p in turned.values()))
    return Graph(tuple[Layer, ...](part), inputs, (pair.site.tensor,), constants)
