"""One trial: plant a fault, check, score."""

from __future__ import annotations

import math
import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import onnx
import torch

from benchmarks.faults.edit import INJECTORS, Edit, Fault
from benchmarks.faults.networks import Subject
from twinnet.checking.case import Case
from twinnet.checking.options import Options
from twinnet.checking.run import run_case
from twinnet.checking.sides import Sides
from twinnet.engines import parse_spec
from twinnet.errors import TwinnetError
from twinnet.layers import evaluate, evaluate_with_error
from twinnet.layers.graph import Graph
from twinnet.network.arrays import to_tensor
from twinnet.onnx.read import read_onnx
from twinnet.result import InputsInfo, Result
from twinnet.site import Site

__all__ = ["FLAT", "Outcome", "plant", "run_trial", "twin_of"]

FLAT = 16
"""Where one number is left of so many elements, whatever ends in it explains them, and no cause can be asked for."""


@dataclass(frozen=True)
class Outcome:
    """What came of one trial. `state` is "scored", "no effect" (within the noise floor) or "does not run"."""

    network: str
    fault: str
    twin: str
    state: str
    tensor: str = ""
    accused: str = ""
    found: bool = False
    first: bool = False
    alarms: int = 0
    cause: str = ""
    sentence: str = ""
    wanted: tuple[str, ...] = ()
    right: bool = False
    wrong: bool = False
    layer: bool = False
    """Whether the layer that the headline names is the planted one, and not only its segment."""
    share: float | None = None
    seconds: float = 0.0
    blame: float = 0.0
    naive: bool = False
    cosine: bool = False


def plant(subject: Subject, name: str, rng: np.random.Generator) -> tuple[onnx.ModelProto, Fault] | None:
    """A copy of the model with one fault of that name; None where the network has no place for it."""
    model = onnx.ModelProto()
    model.CopyFrom(subject.model)
    edit = Edit(model, rng, subject.session.tensors)
    made = INJECTORS[name](edit)
    if made is None:
        return None
    node, causes = made
    tensor = node if isinstance(node, str) else node.output[0]
    between = tensor.startswith("fault_inner")
    place = _final(model, tensor, subject.session.tensors) if between else tensor
    return model, Fault(name, place, tuple(causes), between, edit.open, edit.least)


def _final(model: onnx.ModelProto, tensor: str, known: Collection[str]) -> str:
    """The original name behind nodes that were put after one."""
    for _ in range(8):
        reader = next(n for n in model.graph.node if tensor in n.input)
        tensor = reader.output[0]
        if tensor in known:
            break
    return tensor


def twin_of(path: Path, kind: str, subject: Subject) -> Any:
    """The faulty model as a twin: with its graph at hand, fused, or as a function that only shows its
    tensors.
    """
    if kind == "file":
        return parse_spec(f"onnxruntime?opt=off:{path}")
    if kind == "fused":
        return parse_spec(f"onnxruntime:{path}")
    import onnxruntime as ort

    model = onnx.load(str(path))
    outputs = [o.name for o in model.graph.output]
    shown = [
        n
        for node in model.graph.node
        if node.op_type != "Constant"
        for n in node.output
        if n in subject.session.tensors
    ]
    for name in shown:
        if name not in outputs:
            model.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]

    def run(*arrays: np.ndarray) -> dict[str, np.ndarray]:
        made = [o.name for o in session.get_outputs()]
        results = dict(zip(made, session.run(made, dict(zip(names, arrays, strict=True))), strict=True))
        ordered = {n: results[n] for n in outputs}
        ordered.update({n: a for n, a in results.items() if isinstance(a, np.ndarray)})
        return ordered

    return run


def judged(subject: Subject, twin: Any) -> Result:
    """The check itself, beside the kept reference run."""
    feed = SimpleNamespace(samples=[subject.sample], notes=(), info=InputsInfo(1, "benchmark", False))
    case = Case.of(subject.network, feed, twin, Options(keep="none"), reference=subject.session)
    sides = Sides(case)
    try:
        return run_case(case, sides).result
    finally:
        sides.close()


def run_trial(subject: Subject, fault: Fault, model: onnx.ModelProto, twin: str, folder: Path) -> Outcome:
    """Check the faulty model and score what was said."""
    causes = () if twin == "opaque" and _open(subject, fault, model) else fault.causes
    base = Outcome(subject.name, fault.name, twin, "does not run", fault.tensor, wanted=causes)
    path = folder / "faulty.onnx"
    onnx.save(model, str(path))
    try:
        made = twin_of(path, twin, subject)
        start = time.perf_counter()
        result = judged(subject, made)
        seconds = time.perf_counter() - start
    except TwinnetError:
        return base
    except Exception as error:
        if type(error).__module__.startswith("onnxruntime"):
            return base
        raise
    places = {fault.tensor, *_readers(subject.model, fault)}
    graph = subject.session.graph()
    assert graph is not None
    known = [*(p.site.tensor for p in result.pairs), *graph.inputs]

    def inside(tensor: str) -> bool:
        """Whether the planted fault lies in the segment that ends at a tensor."""
        return tensor in places or any(
            places & set(graph.layers[i].outputs) for i in graph.segment([tensor], known)[0]
        )

    at = [k for k, f in enumerate(result.findings) if inside(f.site.tensor)]
    # Steps between a tensor and its readers show at the readers where the tensor itself was paired before them.
    moved = {p.site.tensor for p in result.pairs if p.twin_site.tensor.startswith("fault_inner")}
    ends = [t for t in known if inside(t) and t not in moved] or [fault.tensor]
    if not at and not any(
        _matters(subject, model, t, {*known} - moved) for t in ends if t in subject.session.tensors
    ):
        return replace(base, state="no effect", alarms=len(result.findings), seconds=seconds)
    cause = result.findings[at[0]].cause if at else None
    named = cause is not None
    right = cause.kind in fault.causes if cause is not None else not causes
    visible = [p.site.tensor for p in result.pairs if p.difference.max_abs > 1e-3]
    turned = [p.site.tensor for p in result.pairs if p.difference.cosine < 0.999]
    return replace(
        base,
        state="scored",
        accused=result.findings[0].site.tensor if result.findings else "",
        found=bool(at),
        first=bool(at) and at[0] == 0,
        alarms=len(result.findings) - len(at),
        cause=cause.kind if cause else "",
        sentence=cause.sentence if cause else (str(result.findings[at[0]].reason or "") if at else ""),
        right=right,
        wrong=named and not right,
        layer=bool(at) and _names(result.findings[at[0]].place, places, graph),
        share=result.findings[at[0]].born_share if at else None,
        seconds=seconds,
        blame=float(result.timings.get("blame", 0.0)),
        naive=bool(visible) and inside(visible[0]),
        cosine=bool(turned) and inside(turned[0]),
    )


def _names(place: Site, planted: Collection[str], graph: Graph) -> bool:
    """Whether a place is where the fault was planted; one node of a file may be several layers."""
    nodes = {graph.layers[graph.producer[t]].node for t in planted if t in graph.producer} - {""}
    return place.tensor in planted or place.node in nodes


def _readers(model: onnx.ModelProto, fault: Fault) -> set[str]:
    """Steps put between a tensor and its readers belong to neither: a reader's segment is as right a
    place.
    """
    return {n.output[0] for n in model.graph.node if fault.tensor in n.input} if fault.between else set()


class _Effect(NamedTuple):
    """What a fault does to a tensor.

    How many elements it moves beyond what rounding may, the tensor's size in noise floors, and whether one number
    everywhere is left of it.
    """

    moved: float = math.inf
    level: float = math.inf
    flat: bool = False


def _open(subject: Subject, fault: Fault, model: onnx.ModelProto) -> bool:
    """Whether the numbers of a twin that shows every tensor leave the cause open."""
    effect = _effect(subject, model, fault.tensor, subject.session.tensors)
    return fault.open or effect.flat or effect.moved < fault.least


def _matters(subject: Subject, model: onnx.ModelProto, tensor: str, known: Collection[str]) -> bool:
    """Whether the fault moves a tensor beyond what rounding may."""
    effect = _effect(subject, model, tensor, known)
    return effect.moved > 0 and effect.level > 1000


def _effect(subject: Subject, model: onnx.ModelProto, tensor: str, known: Collection[str]) -> _Effect:
    """Both sides computed in float64 from the same values of the nearest tensors that the check could see."""
    clean, faulty = subject.session.graph(), read_onnx(model)
    assert clean is not None
    tensors = subject.session.tensors
    given = {n: to_tensor(tensors[n]) for n in tensors if n != tensor and (n in known or n in clean.inputs)}
    layers, frontier = clean.segment([tensor], given)
    changed_layers, changed_from = faulty.segment([tensor], given)
    try:
        values = {n: given[n] for n in frontier}
        expected, bound = evaluate_with_error(clean, values, {}, unit=2.0**-24, layers=layers, keep=[tensor])[
            tensor
        ]
        changed = evaluate(faulty, {n: given[n] for n in changed_from}, layers=changed_layers, keep=[tensor])[
            tensor
        ]
    except (TwinnetError, KeyError):
        return _Effect()
    if changed.shape != expected.shape or not expected.is_floating_point():
        return _Effect()
    floor = expected.abs() * 2.0**-24 + 2.0**-126 + (0.0 if bound is None else bound)
    off = (changed.to(torch.float64) - expected).abs() / floor
    flat = changed.numel() >= FLAT and bool((changed == changed.reshape(-1)[0]).all())
    return _Effect(int((off > 4).sum()), float((expected.abs() / floor).max()), flat)
