"""Describe a network: its stages, shapes, parameters and operators."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from twinnet.network import ModuleNetwork, Network
from twinnet.report.figures import grouped
from twinnet.report.quoting import screen
from twinnet.report.sentences import counted
from twinnet.signature import dims
from twinnet.site import Site

__all__ = ["Inspection", "Stage", "inspect", "render"]

_MOST_STAGES = 40


@dataclass(frozen=True, slots=True)
class Stage:
    """One part of a network: a child of the module tree, or a run of an ONNX graph."""

    name: str
    kind: str
    parameters: int
    output: str = ""


@dataclass(frozen=True)
class Inspection:
    """The description of a network."""

    name: str
    format: str
    parameters: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    stages: tuple[Stage, ...] = ()
    operators: Mapping[str, int] = field(default_factory=dict)
    delegated: Mapping[str, int] = field(default_factory=dict)
    """How many of each kind XNNPACK runs, for a TFLite file on a machine with LiteRT."""
    notes: tuple[str, ...] = ()
    sites: tuple[Site, ...] = ()
    """Where a tensor can be observed; `--watch`, `--skip`, `--names` and rules take these names."""

    def to_json(self) -> str:
        """Machine-readable form."""
        return json.dumps(asdict(self), indent=1)


def inspect(
    network: Any,
    *,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    trust: bool = False,
    ops: bool = False,
    sites: bool = False,
) -> Inspection:
    """Describe a network. A module with known input shapes is also exported, to list operators and shapes.

    `trust` lets code in a .pt2 file run. With `ops` a TFLite file is also loaded, to see what XNNPACK takes over; with
    `sites` all tensors are listed.

    >>> import torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU())
    >>> inspect((net, torch.ones(1, 4))).operators
    {'linear': 1, 'relu': 1}
    """
    from twinnet.network import load_network

    loaded = load_network(network, shape=shapes, trust=trust)
    if isinstance(loaded, ModuleNetwork):
        found = _torch(loaded)
    elif loaded.format == "TFLite":
        found = _tflite(loaded, ops)
    else:
        found = _onnx(loaded) if loaded.format == "ONNX" else _plain(loaded)
    return replace(found, sites=_sites(loaded, found.outputs)) if sites else found


def _sites(network: Network, outputs: Sequence[str]) -> tuple[Site, ...]:
    from twinnet.structure import graph_of

    graph = graph_of(network)
    called = dict(zip(graph.outputs, (text.partition(":")[0] for text in outputs), strict=False))
    return tuple(
        replace(
            layer.site(index, role="output" if name in graph.outputs else "inner"),
            op=layer.op or layer.kind,
            shape=graph.shapes.get(name),
            output=called.get(name, ""),
        )
        for layer in graph
        for index, name in enumerate(layer.outputs)
        if name
    )


def _plain(network: Network) -> Inspection:
    """What every network says of itself."""
    inputs, outputs = (tuple(map(str, s)) for s in (network.signature.inputs, network.signature.outputs))
    return Inspection(network.name, network.format, network.parameters, inputs, outputs)


def _tflite(network: Any, ops: bool) -> Inspection:
    graph = network.model.main
    operators = Counter(op.op for op in graph.operators)
    notes = [f"quantised: {network.quantised}"] if network.quantised else []
    if len(network.model.subgraphs) > 1:
        notes.append(f"{len(network.model.subgraphs)} graphs; the first is described")
    delegated: Counter[str] = Counter()
    if ops:
        from twinnet.engines.litert_ops import assignment
        from twinnet.errors import TwinnetError

        try:
            found = assignment(network)
        except TwinnetError as error:
            notes.append(f"delegates are not known: {error.what.splitlines()[0]}")
        else:
            delegated = Counter(graph.operators[i].op for i in found.delegated)
            count = f"{len(found.delegated)} of {len(graph.operators)}"
            notes.append(f"XNNPACK runs {count} operators, in {counted(found.pieces, 'piece')}")
    common = dict(operators.most_common())
    return replace(_plain(network), operators=common, delegated=dict(delegated), notes=tuple(notes))


def _onnx(network: Any) -> Inspection:
    graph = network.model.graph
    weights = {t.name: t.dims for t in graph.initializer}
    operators = Counter(n.op_type if not n.domain else f"{n.domain}.{n.op_type}" for n in graph.node)
    groups: dict[str, list[int]] = {}
    for node in graph.node:
        place = (node.name or node.output[0]).strip("/").split("/")
        size = sum(math.prod(weights[i]) for i in node.input if i in weights)
        group = groups.setdefault(place[0] if len(place) > 1 else "", [0, 0])
        group[0] += 1
        group[1] += size
    stages = tuple(
        Stage(name or "(top level)", f"{count} nodes", size) for name, (count, size) in groups.items()
    )
    opsets = ", ".join(f"{o.domain or 'ai.onnx'} {o.version}" for o in network.model.opset_import)
    return replace(
        _plain(network),
        stages=stages if 1 < len(stages) <= _MOST_STAGES else (),
        operators=dict(operators.most_common()),
        notes=(f"opset {opsets}, IR version {network.model.ir_version}",),
    )


def _torch(network: ModuleNetwork) -> Inspection:
    program = None
    notes: list[str] = []
    if not any(i.dynamic for i in network.signature.inputs):
        from twinnet.inputs import load_inputs

        sample = load_inputs(network.signature, (), samples=1, bounds=network.bounds()).samples[0]
        program = network.exported(sample)
        if program is None:
            notes.append(f"torch.export failed {network.failure.what}")
    else:
        notes.append(
            "shapes are unknown: give --shape, or return example inputs from the factory, to see operators"
        )
    operators: Counter[str] = Counter()
    shapes: dict[str, str] = {}
    found = _plain(network)
    outputs = found.outputs
    if program is not None:
        from twinnet.layers.read_fx import read_fx
        from twinnet.network import output_nodes

        graph = read_fx(program)
        for layer in graph:
            operators[layer.op or layer.kind] += 1
            shape = "x".join(map(str, graph.shapes.get(layer.outputs[0], ())))
            parts = layer.module.split(".") if layer.module else []
            for depth in range(1, len(parts) + 1):
                shapes[".".join(parts[:depth])] = shape
        outputs = tuple(
            f"{name}: {'x'.join(map(str, graph.shapes.get(node, ()))) or 'scalar'}"
            for name, node in output_nodes(program).items()
        )
    stages = tuple(
        Stage(name, type(child).__name__, sum(p.numel() for p in child.parameters()), shapes.get(name, ""))
        for name, child in _parts(network.module)
    )
    common = dict(operators.most_common())
    return replace(found, outputs=outputs, stages=stages, operators=common, notes=tuple(notes))


def _parts(module: Any) -> list[tuple[str, Any]]:
    """The children of a module; those of a plain container in its place, as long as the list stays short."""
    from torch import nn

    found: list[tuple[str, Any]] = list(module.named_children())
    for name, child in found.copy():
        inner = [(f"{name}.{n}", c) for n, c in child.named_children()]
        if type(child) in (nn.Sequential, nn.ModuleList) and len(found) + len(inner) <= _MOST_STAGES:
            place = found.index((name, child))
            found[place : place + 1] = inner
    return found


def render(found: Inspection, *, ops: bool = False) -> str:
    """The description as text."""
    lines = [f"network  {found.name} ({found.format}, {grouped(found.parameters)} parameters)"]
    lines += [f"{'inputs' if i == 0 else '':<9}{text}" for i, text in enumerate(found.inputs)]
    lines += [f"{'outputs' if i == 0 else '':<9}{text}" for i, text in enumerate(found.outputs)]
    lines += [f"note     {note}" for note in found.notes]
    if found.stages:
        lines.append("")
        name = max(len(s.name) for s in found.stages)
        kind = max(len(s.kind) for s in found.stages)
        for stage in found.stages:
            row = f"  {stage.name:<{name}}  {stage.kind:<{kind}}  {grouped(stage.parameters):>12}  {stage.output}"
            lines.append(row.rstrip())
    if ops and found.operators:
        lines.append("")
        lines += [f"  {count:>6}  {op}{_by(found, op)}" for op, count in found.operators.items()]
    elif found.operators:
        total = sum(found.operators.values())
        lines.append(f"\n{grouped(total)} operators of {len(found.operators)} kinds; --ops counts them")
    if found.sites:
        lines += ["", *_table([("tensor", "module", "operator", "shape"), *map(_row, found.sites)])]
    return screen("\n".join(lines))


def _row(site: Site) -> tuple[str, ...]:
    known = "" if site.shape is None else dims(site.shape)
    if site.role != "output":
        return site.tensor, site.module, site.op, known
    said = f"output {site.output}" if site.output and site.output != site.tensor else "output"
    return site.tensor, site.module, site.op, f"{known} ({said})"


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths)).rstrip() for row in rows]


def _by(found: Inspection, op: str) -> str:
    """Who runs an operator of a TFLite file, where that is known."""
    if not found.delegated:
        return ""
    count = found.delegated.get(op, 0)
    return f"  (XNNPACK: {'all' if count == found.operators[op] else count or 'none'})"
