"""Faults in TFLite files: PyTorch networks converted by litert-torch, then damaged in the file."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import twinnet
from benchmarks.faults.clean import Clean
from benchmarks.faults.tflite_edit import TfliteEdit
from benchmarks.faults.trial import Outcome
from twinnet.engines import find_engine
from twinnet.errors import TwinnetError
from twinnet.job import Job
from twinnet.layers import evaluate
from twinnet.network import load_network
from twinnet.result import Result
from twinnet.site import Site
from twinnet.tflite.model import read_model
from twinnet.tflite.network import TfliteNetwork
from twinnet.tflite.read import read_tflite
from twinnet.tflite.view import View

__all__ = ["FAULTS", "run_litert"]

_TRIES = 8
_KERNELS = ("xnnpack", "builtin", "reference")


class _Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.expand = nn.Sequential(
            nn.Conv2d(channels, 2 * channels, 1), nn.BatchNorm2d(2 * channels), nn.ReLU6()
        )
        self.depthwise = nn.Conv2d(2 * channels, 2 * channels, 3, padding=1, groups=2 * channels)
        self.project = nn.Conv2d(2 * channels, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.project(nn.functional.leaky_relu(self.depthwise(self.expand(x)), 0.1))


class _Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU())
        self.first, self.second = _Block(8), _Block(8)
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(8 * 16, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.second(self.pool(self.first(self.stem(x))))
        return torch.softmax(self.head(x.flatten(1)), -1)


class _Restorer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv2d(3, 8, 3, padding=1)
        self.down = nn.Conv2d(8, 12, 3, 2, 1)
        self.middle = nn.Sequential(
            nn.Conv2d(12, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 12, 3, padding=1)
        )
        self.up = nn.Upsample(scale_factor=2, mode="bilinear")
        self.join = nn.Conv2d(20, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = torch.relu(self.enter(x))
        b = self.up(self.middle(torch.relu(self.down(a))))
        return x + torch.tanh(self.join(torch.cat([a, b], 1)))


@dataclass(frozen=True)
class _Subject:
    name: str
    module: nn.Module
    inputs: torch.Tensor
    data: bytes


def _subjects(seed: int, only: Sequence[str] = ()) -> list[_Subject]:
    from twinnet.engines._litert_make import converted

    found = []
    for kind in (_Classifier, _Restorer):
        torch.manual_seed(seed)
        net = kind().eval()
        for module in net.modules():
            if isinstance(module, nn.BatchNorm2d):
                for values, low, high in ((module.running_mean, -0.5, 0.5), (module.running_var, 0.5, 2.0)):
                    assert values is not None
                    nn.init.uniform_(values, low, high)
                nn.init.uniform_(module.weight, 0.5, 2.0)
                nn.init.uniform_(module.bias, -0.5, 0.5)
        x = 4 * torch.randn(1, 3, 16, 16)
        made = converted(load_network((net, (x,))), Job({"x": x.numpy()}))
        found.append(_Subject(f"litert-{kind.__name__[1:].lower()}", net, x, made.data))
    return found


# -- faults: each damages the file and returns the operator, or None where there is no place for it -----------------

Plant = Callable[[TfliteEdit, np.random.Generator], Any]


def _one(found: Sequence[Any], rng: np.random.Generator) -> Any:
    return found[int(rng.integers(len(found)))] if found else None


def _products(edit: TfliteEdit) -> list[Any]:
    return [op for n in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED") for op in edit.operators(n)]


def _scaled_channel(edit: TfliteEdit, rng: np.random.Generator) -> Any:
    op = _one(edit.operators("CONV_2D"), rng)
    weight = edit.constant(op, 1)
    weight[int(rng.integers(len(weight)))] *= np.float32(1.25)
    edit.give(op, 1, weight)
    return op


def _one_weight(edit: TfliteEdit, rng: np.random.Generator) -> Any:
    op = _one(_products(edit), rng)
    weight = edit.constant(op, 1)
    flat = weight.reshape(-1)
    flat[int(np.abs(flat).argmax())] *= -1
    edit.give(op, 1, weight)
    return op


def _lost_bias(edit: TfliteEdit, rng: np.random.Generator) -> Any:
    op = _one([op for op in _products(edit) if len(op.inputs) > 2 and edit.constant(op, 2).any()], rng)
    if op is not None:
        edit.give(op, 2, np.zeros_like(edit.constant(op, 2)))
    return op


def _shifted_padding(edit: TfliteEdit, rng: np.random.Generator) -> Any:
    pad = _one(edit.operators("PAD"), rng)
    if pad is None:
        return None
    edit.give(pad, 1, np.array([[0, 0], [0, 2], [0, 2], [0, 0]], np.int32))
    return next(op for op in edit.graph.operators if pad.outputs[0] in op.inputs)


def _other_activation(edit: TfliteEdit, rng: np.random.Generator) -> Any:
    op = _one([op for op in edit.operators("CONV_2D") if op.builtinOptions.fusedActivationFunction], rng)
    if op is not None:
        before = op.builtinOptions.fusedActivationFunction
        op.builtinOptions.fusedActivationFunction = 0 if before == 1 else 1
    return op


def _other_pool(edit: TfliteEdit, rng: np.random.Generator) -> Any:
    op = _one(edit.operators("MAX_POOL_2D"), rng)
    if op is not None:
        edit.become(op, "AVERAGE_POOL_2D")
    return op


def _other_corners(edit: TfliteEdit, rng: np.random.Generator) -> Any:
    op = _one(edit.operators("RESIZE_BILINEAR"), rng)
    if op is not None:
        op.builtinOptions.halfPixelCenters = False
        op.builtinOptions.alignCorners = bool(rng.integers(2))
    return op


def _swapped_operands(edit: TfliteEdit, rng: np.random.Generator) -> Any:
    op = _one(edit.operators("CONCATENATION"), rng)
    if op is not None:
        op.inputs = [int(t) for t in reversed(op.inputs)]
    return op


def _other_slope(edit: TfliteEdit, rng: np.random.Generator) -> Any:
    op = _one(edit.operators("LEAKY_RELU"), rng)
    if op is not None:
        op.builtinOptions.alpha = 0.3
    return op


def _flattened_as_stored(edit: TfliteEdit, rng: np.random.Generator) -> Any:
    makers = {int(t): op for op in edit.graph.operators for t in op.outputs}
    found = [
        op for op in edit.operators("RESHAPE") if edit.code(makers.get(int(op.inputs[0]), op)) == "TRANSPOSE"
    ]
    op = _one(found, rng)
    if op is not None:
        edit.give(makers[int(op.inputs[0])], 1, np.array([0, 1, 2, 3], np.int32))
    return op


FAULTS: dict[str, tuple[Plant, tuple[str, ...]]] = {
    "a channel of a weight scaled": (_scaled_channel, ("scale", "weights", "scale and bias")),
    "the largest weight negated": (_one_weight, ("weights", "weight", "scale")),
    "a bias lost": (_lost_bias, ("bias", "scale and bias")),
    "padding shifted": (_shifted_padding, ("padding",)),
    "another activation": (_other_activation, ("activation", "clip")),
    "another pool": (_other_pool, ("pooling",)),
    "other corners of a resize": (_other_corners, ("resize",)),
    "operands swapped": (_swapped_operands, ("operand order",)),
    "another slope": (_other_slope, ("activation", "constant")),
    "an image flattened as stored": (_flattened_as_stored, ("layout",)),
}
"""What is planted, and the kinds of cause that name it rightly."""


# -- trials ---------------------------------------------------------------------------------------------------------


def run_litert(
    trials: int, seed: int, folder: Path, clean: bool = True, show: Callable[[Outcome], None] | None = None
) -> tuple[list[Outcome], list[Clean]]:
    """Outcomes of the trials, and the clean pairs; nothing where LiteRT or its converter is not installed."""
    try:
        find_engine("litert").version()
        known = _subjects(seed)
    except TwinnetError:
        return [], []
    rng = np.random.default_rng([seed, 15])
    outcomes: list[Outcome] = []
    names = list(FAULTS)
    for number in range(trials):
        done = None
        for _ in range(_TRIES):
            subject = known[int(rng.integers(len(known)))]
            bare = bool((number + number // len(names)) % 2)
            done = _trial(subject, names[number % len(names)], _KERNELS[number % 3], bare, rng, folder)
            if done is not None and done.state == "scored":
                break
        if done is not None:
            outcomes.append(done)
            if show is not None:
                show(done)
    return outcomes, _clean(known, folder) if clean else []


def _trial(
    subject: _Subject, name: str, kernels: str, bare: bool, rng: np.random.Generator, folder: Path
) -> Outcome | None:
    """One fault; in a `bare` twin the names say nothing, as if another converter had written the file."""
    plant, causes = FAULTS[name]
    edit = TfliteEdit(subject.data)
    op = plant(edit, rng)
    if op is None:
        return None
    tensor = edit.output(op).name.decode()
    if bare:
        tensor = edit.rename()[tensor]
    path = folder / "faulty.tflite"
    path.write_bytes(edit.data())
    kind = "litert-b" if bare else "litert"
    base = Outcome(subject.name, name, kind, "does not run", tensor, wanted=causes)
    if not _matters(subject.data, path.read_bytes(), subject.inputs):
        return replace(base, state="no effect")
    start = time.perf_counter()
    result = twinnet.check(subject.module, subject.inputs, f"litert?kernels={kernels}:{path}", keep="none")
    assert isinstance(result, Result)
    if result.verdict == "ERROR":
        return base
    seconds = time.perf_counter() - start
    model = TfliteNetwork.load(path).model
    graph = read_tflite(model, View(model.main))
    known = {p.twin_site.tensor for p in result.pairs}

    def inside(site: Site) -> bool:
        """Whether the damaged operator lies in the segment that ends at a tensor of the twin.

        A lost activation lies between a tensor and its readers: their segments are as right a place.
        """
        layers, before = graph.segment([site.tensor], known)
        here = site.tensor == tensor or any(graph.layers[i].node == tensor for i in layers)
        return here or (name == "another activation" and tensor in before)

    twins = {p.site.tensor: p.twin_site for p in result.pairs}
    at = [k for k, f in enumerate(result.findings) if inside(twins[f.site.tensor])]
    cause = result.findings[at[0]].cause if at else None
    right = cause is not None and cause.kind in causes
    return replace(
        base,
        state="scored",
        accused=result.findings[0].site.tensor if result.findings else "",
        found=bool(at),
        first=bool(at) and at[0] == 0,
        alarms=len(result.findings) - len(at),
        cause=cause.kind if cause else "",
        sentence=cause.sentence if cause else "",
        right=right,
        wrong=cause is not None and not right,
        layer=bool(at) and _KINDS.get(edit.code(op), "") in result.findings[at[0]].place.op,
        share=result.findings[at[0]].born_share if at else None,
        seconds=seconds,
        blame=float(result.timings.get("blame", 0.0)),
    )


def _matters(clean: bytes, faulty: bytes, inputs: torch.Tensor) -> bool:
    """Whether the fault moves the output beyond rounding, computed in float64."""
    found = []
    for data in (clean, faulty):
        model = read_model(data)
        graph = read_tflite(model, View(model.main))
        values = {graph.inputs[0]: inputs}
        found.append(evaluate(graph, values, keep=graph.outputs)[graph.outputs[0]].to(torch.float64))
    one, two = found
    return one.shape != two.shape or bool((one - two).abs().max() > 1e-5 * one.abs().max())


_KINDS = {
    "CONV_2D": "conv",
    "DEPTHWISE_CONV_2D": "conv",
    "FULLY_CONNECTED": "linear",
    "RESIZE_BILINEAR": "upsample",
    "CONCATENATION": "cat",
    "AVERAGE_POOL_2D": "pool",
    "LEAKY_RELU": "leaky",
}
"""The PyTorch operator that must be named for one of TFLite."""


def _clean(known: list[_Subject], folder: Path) -> list[Clean]:
    found = []
    for subject in known:
        for twin in (
            "litert",
            "litert?kernels=builtin",
            "litert?kernels=reference",
            "litert?quantize=dynamic",
        ):
            result = twinnet.check(subject.module, subject.inputs, twin, keep="none")
            assert isinstance(result, Result)
            state = {"PASS": "agrees", "FAIL": "alarm"}.get(result.verdict, "does not run")
            found.append(Clean(subject.name, twin, state, "" if state == "agrees" else str(result)[:300]))
    return found
