"""The networks behind published files: which stages, taps and requantisations their names stand for."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from twinnet.errors import UsageError
from twinnet.lut.fixed import GAIN_BITS, WEIGHT_BITS, fixed_gains, fixed_weights, window_offsets
from twinnet.lut.npy import read_floats, read_int8
from twinnet.lut.patterns import PATTERNS
from twinnet.lut.plan import INPUT, Blend, Plan, Plane, Requant, Sample, Stage, Table, Term
from twinnet.lut.published import Options, Parts, Piece, dense_grid
from twinnet.lut.requants import centred, direct, srlut_2021

__all__ = ["Network", "folder_network", "srlut_network"]

VALUE_BITS = 8
"""Fraction bits of sampled values in networks with learned samplers."""


@dataclass(frozen=True)
class Network:
    """A plan read from published files."""

    name: str
    plan: Plan
    notes: tuple[str, ...]
    floats: dict[str, np.ndarray] = field(default_factory=dict)


def srlut_network(path: Path, name: dict[str, Any], options: Options) -> Network:
    """One `.npy` file: SR-LUT of the kind its name or its row count says."""
    values = read_int8(path)
    kind = name.get("kind")
    axes, grid = dense_grid(values, path, {"S": 4, "F": 3, "V": 2}[kind] if kind else None)
    last = options.last or 255
    scale = _side(values.shape[1], path)
    if name.get("scale") and int(name["scale"]) != scale:
        raise UsageError(
            f"{path}: the name says x{name['scale']}, but rows of {values.shape[1]} values are x{scale}"
        )
    kind = kind or {4: "S", 3: "F", 2: "V"}.get(axes)
    if kind is None:
        raise UsageError(f"{path}: a table of {axes} axes is not a published layout")
    notes = [
        f"SR-LUT {kind}: {axes} taps, reflect padding, requantisation srlut-2021",
        f"{grid.nodes} nodes per axis, {grid.step} apart, from {len(values)} rows",
        f"last node {'stated' if options.last else 'assumed'} as {last}",
    ]
    if options.compat:
        notes.append(f"interpolation slip {options.compat} repeated")
    elif axes == 4:
        notes.append("correct simplex; --compat srlut-2021 repeats the slip in the published results")
    offsets = PATTERNS["s" if kind == "S" else kind]
    term = Term(Sample((Plane(INPUT),), offsets, "reflect"), "stage1.in_c0.b0", compat=options.compat)
    table = Table(values, axes, grid.nodes, grid.step, last)
    plan = Plan.build([Stage("stage1", (term,), srlut_2021(), upscale=scale)], {"stage1.in_c0.b0": table})
    return Network(f"srlut-{kind}", plan, tuple(notes))


def folder_network(parts: Parts, options: Options) -> Network:
    """A folder: SPF-LUT if it has a channel table, else MuLUT; with samplers, their AutoLUT variants."""
    spf = any(piece.mode == "channel" for group in parts.pieces.values() for piece in group)
    auto = any(piece.sampler for group in parts.pieces.values() for piece in group)
    from_zero = min(stage for stage, _ in parts.pieces) == 0
    # AutoLUT on MuLUT counts stages from 0 and is the one exporter that evaluates its last node at 256.
    default = 256 if auto and from_zero else 255
    parts.grid_last = options.last or default
    parts.notes.append(f"last node {'stated' if options.last else 'assumed'} as {parts.grid_last}")
    if options.compat:
        raise UsageError(f"compat {options.compat!r} is about SR-LUT, not about this folder")
    builder = _Builder(parts, auto)
    return builder.spf() if spf else builder.mulut(int(from_zero))


def _side(payload: int, path: Path) -> int:
    side = math.isqrt(payload)
    if side * side != payload or side < 1:
        raise UsageError(f"{path}: rows of {payload} values are not a square block")
    return side


class _Builder:
    """Turns the pieces of a folder into stages and tables."""

    def __init__(self, parts: Parts, auto: bool) -> None:
        self.parts, self.auto = parts, auto
        self.tables: dict[str, Table] = {}
        self.stages: list[Stage] = []
        self.floats: dict[str, np.ndarray] = {}

    def pieces(self, stage: int, channel: int = 0) -> list[Piece]:
        found = self.parts.pieces.get((stage, channel))
        if not found:
            raise UsageError(f"the tables {self.parts.lut!r} lack stage {stage}, channel {channel}")
        return found

    def terms(
        self, name: str, group: str, pieces: list[Piece], source: Plane, previous: Plane | None
    ) -> list[Term]:
        terms = []
        for k, piece in enumerate(pieces):
            path = f"{name}.{group}.b{k}"
            self.tables[path] = self.parts.table(piece)
            sample, blend = self._sample(path, piece, source, previous)
            terms.append(Term(sample, path, group, f"b{k}", blend=blend))
        return terms

    def _sample(
        self, path: str, piece: Piece, source: Plane, previous: Plane | None
    ) -> tuple[Sample, Blend | None]:
        if piece.sampler is None:
            if self.auto:
                raise UsageError(f"{piece.where}: other tables here have a sampler, this one has none")
            offsets = PATTERNS.get(piece.mode)
            if offsets is None or len(offsets) != 4:
                raise UsageError(f"{piece.where}: no pattern is named {piece.mode!r}")
            return Sample((source,), offsets), None
        logits = read_floats(piece.sampler)
        window = math.isqrt(logits.size // 4)
        if logits.size != 4 * window * window:
            raise UsageError(f"{piece.sampler}: {list(logits.shape)} is not four square windows")
        if window < 1:
            raise UsageError(f"{piece.sampler}: the sampler is empty")
        self.floats[f"{path}.sample.logits"] = logits.reshape(4, -1)
        weights = tuple(tuple(row) for row in fixed_weights(logits.reshape(4, -1)).tolist())
        sample = Sample((source,), window_offsets(window), "edge", weights, WEIGHT_BITS, VALUE_BITS)
        if previous is None or piece.residual is None:
            return sample, None
        gains = read_floats(piece.residual).reshape(-1)
        if gains.size != 4:
            raise UsageError(f"{piece.residual}: a residual has 4 weights, not {gains.size}")
        self.floats[f"{path}.residual.weight"] = gains
        return sample, Blend((previous,), tuple(fixed_gains(gains).tolist()), GAIN_BITS)

    def add(
        self, name: str, terms: list[Term], requant: Requant, channels: int = 1, upscale: int = 1
    ) -> None:
        self.stages.append(Stage(name, tuple(terms), requant, channels, upscale))

    def done(self, name: str) -> Network:
        return Network(name, Plan.build(self.stages, self.tables), tuple(self.parts.notes), self.floats)

    def mulut(self, shift: int) -> Network:
        numbers = sorted({stage + shift for stage, _ in self.parts.pieces})
        if numbers != list(range(1, len(numbers) + 1)):
            raise UsageError(f"the tables {self.parts.lut!r} have stages {numbers}: some are missing")
        sources = [INPUT]
        for number in numbers:
            pieces = self.pieces(number - shift)
            last = number == numbers[-1]
            previous = Plane(sources[-2]) if number > 1 else None
            name = f"stage{number}"
            terms = self.terms(name, "in_c0", pieces, Plane(sources[-1]), previous)
            side = _side(self.tables[terms[0].table].payload, pieces[0].where)
            requant = direct(len(terms)) if last else centred(4 * len(terms))
            self.add(name, terms, requant, upscale=side)
            sources.append(name)
        modes = "".join(piece.mode for piece in self.pieces(numbers[0] - shift))
        kind = "AutoLUT on MuLUT" if self.auto else "MuLUT"
        self.parts.notes.append(f"{kind}: {len(numbers)} stages, branches {modes}, edge padding")
        return self.done(f"{'auto-' if self.auto else ''}mulut-{len(numbers)}")

    def spf(self) -> Network:
        inputs = [Plane(INPUT), *(Plane(f"convblock{k}", 1) for k in (1, 2, 3))]
        for k, source in enumerate(inputs):
            name = f"convblock{k + 1}"
            terms = self.terms(name, "in_c0", self.pieces(k + 1), source, inputs[k - 1] if k else None)
            self.add(name, terms, centred(4 * len(terms)), channels=2 if k < 3 else 1)
        across = self.pieces(5)[0]
        self.tables["channel.b0"] = self.parts.table(across)
        kept = tuple(Plane(f"convblock{k}", 0) for k in (1, 2, 3, 4))
        term = Term(Sample(kept, ((0, 0),) * 4), "channel.b0", "", "b0", rotations=(0,))
        self.add("channel", [term], centred(1), channels=4)
        ups = [
            term
            for c in range(4)
            for term in self.terms("upblock", f"in_c{c}", self.pieces(6, c), Plane("channel", c), inputs[c])
        ]
        side = _side(self.tables[ups[0].table].payload, self.pieces(6)[0].where)
        self.add("upblock", ups, direct(4, len(ups) // 4), upscale=side)
        kind = "AutoLUT on SPF-LUT" if self.auto else "SPF-LUT"
        self.parts.notes.append(f"{kind}: {len(ups) // 4} branches, edge padding")
        return self.done(f"{'auto-' if self.auto else ''}spf")
