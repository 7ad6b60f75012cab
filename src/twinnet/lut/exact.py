"""What each site of a table network must hold, given what it was computed from.

The meaning is that of `twinnet.lut.reference`, one site at a time: a Unit's numerators from the planes it samples, a
rotation from its Unit, a group's sum from its rotations, a stage from its groups.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from twinnet.lut.executors.recording import place
from twinnet.lut.plan import INPUT, Plan, Plane, Stage, Term
from twinnet.lut.reference import lookup_term

__all__ = ["Exact", "Expected"]

Values = Callable[[str], np.ndarray]
"""The integers a run recorded at a site."""


@dataclass(frozen=True)
class Exact:
    """The integers a site must hold, each within `slack`."""

    value: np.ndarray
    slack: int


@dataclass(frozen=True)
class _Place:
    kind: str
    stage: Stage
    term: Term | None = None
    rotation: int = 0
    group: str = ""


class Expected:
    """The meaning of a plan, site by site. `slack` is by how many units an entry of a table may be off."""

    def __init__(self, plan: Plan, slack: int = 0) -> None:
        self._plan = plan
        self._slack = slack
        self._places: dict[str, _Place] = {}
        for stage in plan.stages:
            for group in stage.groups:
                prefix = f"{stage.name}.{group}" if group else stage.name
                self._places[f"{prefix}.input.x"] = _Place("input", stage, self._terms(stage, group)[0])
                blended = [t for t in self._terms(stage, group) if t.blend is not None]
                if blended:
                    self._places[f"{prefix}.input.prev_x"] = _Place("previous", stage, blended[0])
                for term in self._terms(stage, group):
                    for r in term.rotations:
                        base = f"{stage.name}.{term.name}.rot{r}"
                        self._places[f"{base}.sr"] = _Place("unit", stage, term, r)
                        self._places[base] = _Place("rotation", stage, term, r)
                if group:
                    self._places[prefix] = _Place("group", stage, group=group)
            self._places[stage.name] = _Place("stage", stage)

    @staticmethod
    def _terms(stage: Stage, group: str) -> list[Term]:
        return [t for t in stage.terms if t.group == group]

    def sources(self, name: str) -> tuple[str, ...]:
        """The sites that decide what this one must hold; the image itself is none."""
        at = self._places.get(name)
        if at is None:
            return ()
        if at.kind == "rotation":
            return (f"{name}.sr",)
        if at.kind == "group":
            return self._rotations(at.stage, at.group)
        if at.kind == "stage":
            return tuple(n for g in at.stage.groups for n in self._rotations(at.stage, g))
        assert at.term is not None
        planes: list[Plane] = list(at.term.sample.planes if at.kind != "previous" else ())
        if at.term.blend is not None and at.kind != "input":
            planes += at.term.blend.planes
        return tuple(dict.fromkeys(p.register for p in planes if p.register != INPUT))

    def _rotations(self, stage: Stage, group: str) -> tuple[str, ...]:
        return tuple(f"{stage.name}.{t.name}.rot{r}" for t in self._terms(stage, group) for r in t.rotations)

    def at(self, name: str, image: np.ndarray, values: Values) -> Exact:
        """What `name` must hold, from the image and the values recorded at its sources."""
        at = self._places[name]
        stage = at.stage
        if at.kind == "rotation":
            return Exact(place(values(f"{name}.sr"), stage.channels, stage.upscale, at.rotation), 0)
        if at.kind in ("group", "stage"):
            groups = [at.group] if at.kind == "group" else list(stage.groups)
            total = sum(self._sum(stage, g, values) for g in groups)
            if at.kind == "group":
                return Exact(np.asarray(total), 0)
            return Exact(stage.requant(np.asarray(total), stage.denominator).astype(np.int64), 0)
        registers = {INPUT: image[None].astype(np.int64)}
        registers.update({source: values(source) for source in self.sources(name)})
        assert at.term is not None
        if at.kind in ("input", "previous"):
            planes = at.term.sample.planes if at.kind == "input" else at.term.blend.planes  # type: ignore[union-attr]
            return Exact(np.stack([registers[p.register][p.channel] for p in dict.fromkeys(planes)]), 0)
        table = self._plan.tables[at.term.table]
        numerator = lookup_term(at.term, table, stage.cell, registers, at.rotation)
        # Interpolation is a weighted mean of entries: off by one unit each, it is off by one unit at most.
        return Exact(numerator, self._slack * at.term.denominator(table))

    def _sum(self, stage: Stage, group: str, values: Values) -> np.ndarray:
        total: np.ndarray | int = 0
        for term in self._terms(stage, group):
            factor = stage.denominator // term.denominator(self._plan.tables[term.table])
            for r in term.rotations:
                total = total + factor * values(f"{stage.name}.{term.name}.rot{r}")
        return np.asarray(total)
