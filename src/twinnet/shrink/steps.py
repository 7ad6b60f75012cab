"""Candidates of quantised twins: judged by the steps they declare, as their findings were, and repaired."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import numpy_helper

from twinnet.judge.declared import Declared
from twinnet.judge.expectation import Expectation, Kept, SegmentRun, expect, keep_segment
from twinnet.judge.sizes import Sizes
from twinnet.judge.verdicts import Born
from twinnet.network.arrays import to_numpy, to_tensor
from twinnet.onnx.cut import weights_of, with_weights
from twinnet.onnx.read import read_onnx
from twinnet.pairing import Pair, Transform
from twinnet.result import Fact, fact
from twinnet.shrink.seed import Link
from twinnet.site import Site

if TYPE_CHECKING:
    from twinnet.layers import Graph
    from twinnet.shrink.trial import Candidate

__all__ = ["Steps", "allowed_by", "with_range", "with_read_steps", "with_weights_repaired"]

_SLACK = 1.02


def allowed_by(expected: Expectation, limit: float) -> tuple[np.ndarray, np.ndarray]:
    """The value that is expected of a quantised twin, and how far its steps and rounding may move each element."""
    allowed = expected.steps.double()
    if expected.floor is not None:
        allowed = allowed + limit * expected.floor
    return to_numpy(expected.value), to_numpy(allowed.expand(expected.value.shape).contiguous())


class Steps:
    """What a candidate's twin declares. `own` are the exact values of the network's part, by output."""

    def __init__(
        self, candidate: Candidate, graph: Graph, own: Mapping[str, np.ndarray], unit: float
    ) -> None:
        self._candidate, self._graph, self._own, self._unit = candidate, graph, own, unit

    @property
    def pairs(self) -> dict[str, Pair]:
        """The ends of the part, by the network's name."""
        named = (*self._candidate.feeds, *self._candidate.outputs)
        links = [self._candidate.links.get(n, Link(n, n)) for n in named]
        return {k.network: Pair(Site(k.network), Site(k.twin), "cut", transform=k.transform) for k in links}

    @cached_property
    def declared(self) -> Declared:
        # Inputs are pairs too: those that the twin takes as integers are read as integers.
        return Declared(self._graph, read_onnx(self._candidate.twin), list(self.pairs.values()), {})

    @property
    def twin_values(self) -> dict[str, np.ndarray]:
        return self._candidate.twin_feeds()

    def _run(self, output: str) -> SegmentRun:
        layers, frontier = self._graph.segment([output], self._candidate.feeds)
        values = {n: to_tensor(np.asarray(self._candidate.feeds[n])) for n in frontier}
        own = self._own.get(output)
        return SegmentRun(self.pairs[output], layers, values, self.twin_values, own, self._unit)

    def expected(self, output: str, limit: float) -> tuple[np.ndarray, np.ndarray] | None:
        """The expected value of an output and what is allowed; None if nothing is quantised on the way to it."""
        found = expect(self.declared, self._run(output))
        return None if found is None else allowed_by(found, limit)

    def judged(self, output: str, observed: np.ndarray, limit: float) -> Born | None:
        """The judgement of an output by its steps; None if nothing is quantised on the way to it."""
        found = expect(self.declared, self._run(output))
        if found is None:
            return None
        value, allowed = allowed_by(found, limit)
        sizes = Sizes(to_tensor(observed), to_tensor(value), to_tensor(allowed) / limit, self._unit)
        status = "pass" if sizes.ratio <= limit else "fail"
        reason = fact("born.beyond_steps", clipped=found.clipped) if status == "fail" else None
        return Born(status, sizes.ratio, sizes.born, sizes.floor, reason, limit=limit)

    def kept(self, output: str) -> Kept | None:
        """The weights and steps of the part that leads to an output."""
        return keep_segment(self.declared, self._run(output))


# -- repairs -----------------------------------------------------------------------------------------------------------


def with_weights_repaired(model: onnx.ModelProto, kept: Kept, cause: Fact) -> onnx.ModelProto | None:
    """The twin's file with the weights that are off by more than half a step quantised again; None without any."""
    held, changed = weights_of(model), {}
    for weight in kept.weights:
        beyond = (weight.theirs - weight.ours).abs() > _SLACK * weight.half
        if not bool(beyond.any()) or weight.source is None:
            continue
        name, scale_name, zero_name, axis = weight.source
        if name not in held or scale_name not in held:
            continue
        integers, scale = held[name], held[scale_name].astype(np.float64)
        zero = held[zero_name].astype(np.float64) if zero_name in held else np.zeros_like(scale)
        ours = to_numpy(weight.ours.t() if weight.turned else weight.ours).reshape(integers.shape)
        info = np.iinfo(integers.dtype)
        along = Transform(axis=axis).along
        if cause.code == "steps.scale":
            channel = cause.params.get("channel")
            which = slice(None) if channel is None or scale.size == 1 else channel
            fitted = scale.reshape(-1).copy()
            fitted[which] /= float(cause.params["twin"])
            changed[scale_name] = fitted.reshape(scale.shape).astype(held[scale_name].dtype)
            continue
        if cause.code == "steps.saturated":
            others = tuple(a for a in range(ours.ndim) if scale.size == 1 or a != axis % ours.ndim)
            top = np.maximum(ours.max(others) / (info.max - zero), -ours.min(others) / (zero - info.min))
            scale = np.maximum(scale, top.reshape(scale.shape))
            changed[scale_name] = scale.astype(held[scale_name].dtype)
        s, z = (along(tuple(v.reshape(-1).tolist()), ours.ndim) for v in (scale, zero))
        changed[name] = np.clip(np.rint(ours / s) + z, info.min, info.max).astype(integers.dtype)
    return with_weights(model, changed) if changed else None


def with_range(
    candidate: Candidate, output: str, source: tuple[str, ...], ends: tuple[float, float]
) -> Candidate | None:
    """The candidate with the steps of its output wide enough for the network's own values."""
    held = weights_of(candidate.twin)
    scale, zero = (held.get(n) for n in (*source, "", "")[:2])
    if scale is None or zero is None or scale.size != 1:
        return None
    least, most = min(ends[0], 0.0), max(ends[1], 0.0)
    info = np.iinfo(zero.dtype)
    step = (most - least) / (int(info.max) - int(info.min))
    offset = int(np.clip(np.rint(info.min - least / step), info.min, info.max))
    new = {
        source[0]: np.full(scale.shape, step, scale.dtype),
        source[1]: np.full(zero.shape, offset, zero.dtype),
    }
    link = candidate.links.get(output, Link(output, output))
    if link.transform.scale is not None:
        link = replace(
            link, transform=replace(link.transform, scale=(float(np.float32(step)),), zero=(offset,))
        )
    twin = with_weights(candidate.twin, new)
    return replace(candidate, twin=twin, links={**candidate.links, output: link})


def with_read_steps(model: onnx.ModelProto, written: Mapping[str, Transform]) -> onnx.ModelProto | None:
    """The twin's file in which integers are read in the steps they were written in; None if they already are."""
    repaired, changed = deepcopy(model), False
    held = weights_of(model)
    for node in repaired.graph.node:
        step = written.get(node.input[0]) if node.op_type == "DequantizeLinear" else None
        if step is None or step.scale is None:
            continue
        read: dict[str, Any] = {n: held.get(n) for n in node.input[1:]}
        if any(v is None for v in read.values()) or len(read) < 2:
            continue
        for place, values in ((1, step.scale), (2, step.zero)):
            old = read[node.input[place]]
            new = np.array(values, old.dtype).reshape(old.shape if old.size == len(values) else (-1,))
            if not np.array_equal(old, new):
                name = f"{node.input[place]}_as_written"
                repaired.graph.initializer.append(numpy_helper.from_array(new, name))
                node.input[place] = name
                changed = True
    return repaired if changed else None
