"""Plans as plain JSON data, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from typing import Any

import numpy as np

from twinnet.errors import UsageError
from twinnet.lut.band import band_index
from twinnet.lut.plan import Blend, Plan, Plane, Requant, Sample, Stage, Table, Term

__all__ = ["plan_from_dict", "plan_to_dict", "term_from_dict"]


def plan_to_dict(plan: Plan) -> dict[str, Any]:
    """The plan without its arrays, as plain JSON data; `plan_from_dict` with the arrays gives it back."""
    tables = {
        name: {
            k: getattr(t, k) for k in ("axes", "nodes", "step", "last", "near", "width", "thin")
        } for name, t in plan.tables.items()
    }  # fmt: skip
    return {"stages": [asdict(stage) for stage in plan.stages], "tables": tables}


def plan_from_dict(data: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Plan:
    """Rebuild and check a plan. Arrays are named `{table}` and, if banded, `{table}.coarse`; `.index` may be given."""
    try:
        tables = {
            name: Table(
                values=arrays[name],
                index=_index(facts, arrays.get(f"{name}.index")),
                coarse=arrays.get(f"{name}.coarse"),
                **facts,
            )
            for name, facts in data["tables"].items()
        }
        stages = [_stage(stage) for stage in data["stages"]]
        for stage in stages:
            _check_types(stage)
        return Plan.build(stages, tables)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, MemoryError, IndexError) as error:
        raise UsageError(f"the description of this table network is damaged: {error!r}") from error


def _index(facts: Mapping[str, Any], given: np.ndarray | None) -> np.ndarray | None:
    """The index of a band, which follows from its size."""
    nodes, near, width = facts["nodes"], facts["near"], facts["width"]
    if given is not None or not near:
        return given
    if not (0 < nodes <= 257 and 0 < near < 16 and 0 < width < nodes) or nodes ** (near + 1) > 1 << 24:
        raise ValueError(f"a band of {width} on {near} of {nodes} nodes is impossible")
    return _band(nodes, near, width)


@cache
def _band(nodes: int, near: int, width: int) -> np.ndarray:
    """Made once for all tables of a size."""
    index = band_index(nodes, near, width)
    index.flags.writeable = False
    return index


def _check_types(stage: Stage) -> None:
    """JSON can put anything anywhere; the dataclasses trust their types."""
    words: list[Any] = [stage.name, stage.requant.name]
    numbers: list[Any] = [stage.channels, stage.upscale, stage.cell]
    for term in stage.terms:
        planes = (*term.sample.planes, *(term.blend.planes if term.blend else ()))
        words += [term.table, term.group, term.branch, term.compat, term.interpolation, term.sample.padding]
        words += [plane.register for plane in planes]
        numbers += [*term.rotations, *(plane.channel for plane in planes)]
    constants = [c for step in stage.requant.steps for c in step[1:]]
    if not all(type(word) is str for word in words) or not all(type(n) is int for n in numbers):
        raise TypeError(f"stage {stage.name!r} has a name or a number of the wrong type")
    if not all(type(c) in (int, float) and math.isfinite(c) for c in constants):
        raise TypeError(f"stage {stage.name!r} requantises with something that is not a number")
    if max(stage.channels, stage.upscale, stage.cell) > 256:
        raise ValueError(f"stage {stage.name!r} is impossibly large")


def _planes(data: Any) -> tuple[Plane, ...]:
    return tuple(Plane(**plane) for plane in data)


def _sample(data: Mapping[str, Any]) -> Sample:
    weights = data["weights"]
    return Sample(
        planes=_planes(data["planes"]),
        offsets=tuple((int(dy), int(dx)) for dy, dx in data["offsets"]),
        padding=data["padding"],
        weights=None if weights is None else tuple(tuple(int(w) for w in row) for row in weights),
        weight_bits=int(data["weight_bits"]),
        value_bits=int(data["value_bits"]),
    )


def term_from_dict(data: Mapping[str, Any]) -> Term:
    blend = data["blend"]
    return Term(
        **{
            **data,
            "sample": _sample(data["sample"]),
            "rotations": tuple(data["rotations"]),
            "blend": None
            if blend is None
            else Blend(
                _planes(blend["planes"]), tuple(int(g) for g in blend["gains"]), int(blend["gain_bits"])
            ),
        }
    )


def _requant(data: Mapping[str, Any]) -> Requant:
    return Requant(data["name"], tuple(tuple(step) for step in data["steps"]))


def _stage(data: Mapping[str, Any]) -> Stage:

    return Stage(
        **{
            **data,
            "terms": tuple(term_from_dict(t) for t in data["terms"]),
            "requant": _requant(data["requant"]),
        }
    )
