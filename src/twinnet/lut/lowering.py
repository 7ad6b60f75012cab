"""From a network in table mode to its plan, and back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from twinnet.errors import UsageError
from twinnet.lut.fixed import GAIN_BITS, WEIGHT_BITS
from twinnet.lut.grid import Grid
from twinnet.lut.net import LutNet
from twinnet.lut.nodes import AdaRL, AutoSample, Branch, LookupStage, Taps
from twinnet.lut.plan import Blend, Plan, Sample, Stage, Table, Term
from twinnet.lut.unit import Unit

__all__ = ["lower", "raise_plan"]


def lower(net: LutNet) -> Plan:
    """The plan of a network in table mode.

    >>> from twinnet.lut import export
    >>> from twinnet.restore.nets import srlut
    >>> plan = lower(export(srlut.build("V", scale=2, width=4)))
    >>> plan.scale, list(plan.tables)
    (2, ['stage1.in_c0.b0'])
    """
    if net.mode != "table":
        raise UsageError("only a network in table mode has a plan", hint="call twinnet.lut.export(net) first")
    tables: dict[str, Table] = {}
    stages = []
    for name, stage in net.stages():
        terms = []
        for group in stage.group_names:
            for path, branch in stage.branches(group):
                tables[f"{name}.{path}"] = branch.unit.as_table()
                terms.append(_term(f"{name}.{path}", group, path.rpartition(".")[2], branch))
        stages.append(Stage(name, tuple(terms), stage.requant, stage.channels, stage.upscale, stage.cell))
    return Plan.build(stages, tables)


def _term(table: str, group: str, key: str, branch: Branch) -> Term:
    sampler = branch.sample
    sample = Sample(branch.planes, sampler.offsets, branch.padding, value_bits=sampler.value_bits)
    if isinstance(sampler, AutoSample):
        weights = tuple(tuple(row) for row in sampler.fixed_weights().tolist())
        sample = replace(sample, weights=weights, weight_bits=WEIGHT_BITS)
    blend = None
    if branch.residual is not None:
        blend = Blend(branch.previous, tuple(branch.residual.fixed_gains().tolist()), GAIN_BITS)
    unit = branch.unit
    return Term(sample, table, group, key, branch.rotations, blend, unit.interpolation, unit.compat)


def raise_plan(plan: Plan, name: str = "lut", task: str = "sr") -> LutNet:
    """A network in table mode that lowers to `plan` again: to fine-tune tables, to watch them, to compare."""
    stages: dict[str, LookupStage] = {}
    for stage in plan.stages:
        groups: dict[str, list[Branch]] = {group: [] for group in stage.groups}
        for term in stage.terms:
            if term.branch != f"b{len(groups[term.group])}":
                raise UsageError(f"{stage.name}.{term.name}: branches must be b0, b1, ... in order")
            groups[term.group].append(_branch(term, plan.tables[term.table], f"{stage.name}.{term.name}"))
        stages[stage.name] = LookupStage(
            dict(groups), stage.requant, stage.channels, stage.upscale, stage.cell
        )
    return LutNet(stages, name=name, task=task)


def _branch(term: Term, table: Table, where: str) -> Branch:
    sample = term.sample
    if sample.weights is None:
        sampler: Taps | AutoSample = Taps(sample.offsets)
        sampler.value_bits = sample.value_bits
    else:
        window = round(len(sample.offsets) ** 0.5)
        sampler = AutoSample(window, len(sample.weights), sample.value_bits)
        if sample.offsets != sampler.offsets or sample.weight_bits != WEIGHT_BITS:
            raise UsageError(f"{where}: only square sampling windows with {WEIGHT_BITS} bits can be trained")
        # Zero weights get a logit far below half a unit; `fixed_weights` gives the same integers back.
        soft = np.maximum(np.array(sample.weights, np.float64), 1e-6)
        with torch.no_grad():
            sampler.logits.copy_(torch.from_numpy(np.log(soft / (1 << WEIGHT_BITS))))
    residual = None
    if term.blend is not None:
        residual = AdaRL(term.blend.planes, sampler.axes)
        with torch.no_grad():
            gains = torch.tensor(term.blend.gains, dtype=torch.float64) / (1 << term.blend.gain_bits)
            residual.weight.copy_(gains)
    grid = Grid(table.step, table.nodes, table.last)
    unit = Unit(None, table.axes, table.payload, grid, term.interpolation, compat=term.compat)
    unit.set_table(table)
    return Branch(sampler, unit, sample.planes, sample.padding, term.rotations, residual)
