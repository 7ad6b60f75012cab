"""Differences stated by the twin's own plan: other taps, padding, interpolation, requantisation, or other entries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from twinnet.blame.causes.family import Candidate
from twinnet.blame.problem import Patch, Problem
from twinnet.lut.differences import Aspect, of_requants, of_tables, of_terms
from twinnet.lut.variants import Lookup, Place
from twinnet.result import fact
from twinnet.tables.causes.steps import candidate, groups


def propose(problem: Problem) -> Iterator[Candidate]:
    """What the twin's own plan states differently."""
    if problem.twin is None:
        return
    theirs = {layer.node: layer.attrs.get("step") for layer in problem.twin.layers}
    for group in groups(problem):
        other = theirs.get(problem.layers[group.where[0]].node)
        if isinstance(other, Lookup):
            yield from _lookups(problem, group.where, group.step, other)
    for i, layer in enumerate(problem.layers):
        other: Any = theirs.get(layer.node)
        if other is None:
            continue
        own: Any = layer.attrs.get("step")
        if layer.kind == "requant":
            for aspect in of_requants(own.requant, other.requant):
                change = lambda s, q=other.requant: replace(s, requant=q)  # noqa: E731
                yield _candidate(problem, (i,), aspect, change)
        elif layer.kind == "place" and own != other:
            aspect = Aspect("shuffle", fact("table.block", network=_block(own), twin=_block(other)))
            yield _candidate(problem, (i,), aspect, lambda s, o=other: o)
        elif layer.kind == "sum_lookups" and own.names != other.names:
            missing = [n for n in own.names if n not in other.names]
            if missing and len(other.names) == len(own.names) - len(missing):
                said = fact("table.left_out", names=missing, network=own.names, twin=other.names)
                aspect = Aspect("rotation", said)
                counts = tuple(float(n not in missing) for n in own.names)
                yield _candidate(problem, (i,), aspect, lambda s, c=counts: replace(s, counts=c))


def _block(step: Place) -> tuple[int, int, int]:
    return step.upscale, step.channels, step.rotation


def _lookups(problem: Problem, where: tuple[int, ...], own: Lookup, other: Lookup) -> Iterator[Candidate]:
    terms = of_terms(own.term, other.term)
    tables = of_tables(own.table, other.table)
    aspects = [a for a in terms if a.part not in ("rotations", "table")] + tables
    if own.cell != other.cell:
        aspects.append(Aspect("sampler", fact("table.cell", network=own.cell, twin=other.cell), "cell"))
    for aspect in aspects:
        yield _candidate(problem, where, aspect, _change(aspect, other))
    if len(aspects) > 1:
        said = fact("table.several", facts=tuple(a.fact for a in aspects[:3]))

        def change(p: Problem) -> Patch:
            layers = list(p.layers[where[0] : where[-1] + 1])
            for aspect in aspects:
                patch = candidate(p, "", said, where, _change(aspect, other)).change(
                    replace(p, layers=(*p.layers[: where[0]], *layers, *p.layers[where[-1] + 1 :]))
                )
                layers = list(patch.layers)
            return Patch(where[0], where[-1] + 1, tuple(layers))

        both = _candidate(problem, where, Aspect("several", said), lambda s: s)
        yield replace(both, change=change, cost=2.0)


def _candidate(
    problem: Problem, where: tuple[int, ...], aspect: Aspect, change: Callable[[Any], Any]
) -> Candidate:
    return candidate(problem, aspect.what, aspect.fact, where, change, static=True)


def _change(aspect: Aspect, other: Lookup) -> Callable[[Lookup], Lookup]:
    """A lookup with one part of the twin's."""
    sample = other.term.sample
    match aspect.part:
        case "padding":
            return lambda s: s.sampling(padding=sample.padding)
        case "offsets":
            return lambda s: s.sampling(offsets=sample.offsets)
        case "weights":
            return lambda s: s.sampling(
                weights=sample.weights, weight_bits=sample.weight_bits, value_bits=sample.value_bits
            )
        case "planes":
            return lambda s: s.sampling(planes=sample.planes)
        case "blend":
            return lambda s: replace(s, term=replace(s.term, blend=other.term.blend))
        case "interpolation":
            kind, compat = other.term.interpolation, other.term.compat
            return lambda s: replace(s, term=replace(s.term, interpolation=kind, compat=compat))
        case "cell":
            return lambda s: replace(s, cell=other.cell)
    return lambda s: replace(s, table=other.table)
