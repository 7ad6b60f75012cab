"""The networks that faults are planted in, each run once: model, sample, reference session and its
tensors.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from twinnet.engines import find_engine
from twinnet.engines.base import Session
from twinnet.job import Arrays, Job
from twinnet.layers.graph import Graph
from twinnet.network import load_network
from twinnet.onnx.network import OnnxNetwork
from twinnet.trace import Trace, TraceBuilder

__all__ = ["Subject", "subjects"]

_SHAPES = {"ppocr-det": {"x": (1, 3, 96, 128)}}
_REAL = ("ppocr-det", "ppocr-cls", "magika", "orientation", "basic-pitch")
_NETS = ("mbconv", "transformer", "unet", "lstm", "norms", "pooling")


class _Once(Session):
    """A session whose one run is kept: every trial compares with the same reference tensors."""

    live = False

    def __init__(self, inner: Session, sample: Arrays) -> None:
        self._inner = inner
        self.engine, self.version, self.precision = inner.engine, inner.version, inner.precision
        self.signature, self.notes = inner.signature, inner.notes
        self._outputs = inner.run(sample)
        trace = inner.trace(sample, {s.tensor for s in inner.sites}, TraceBuilder(1 << 30))
        self.tensors = {n: np.array(trace[n]) for n in trace}
        trace.close()

    inputs = property(lambda self: self._inner.inputs)
    output_tensors = property(lambda self: self._inner.output_tensors)
    provenance = property(lambda self: self._inner.provenance)
    sites = property(lambda self: self._inner.sites)

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        return dict(self._outputs)

    def trace(self, inputs: Arrays, watch: Collection[str], builder: TraceBuilder) -> Trace:
        for name, array in self.tensors.items():
            builder.add(name, array)
        return builder.done()

    @cached_property
    def _graph(self) -> Graph | None:
        return self._inner.graph()

    def graph(self) -> Graph | None:
        return self._graph


@dataclass(frozen=True)
class Subject:
    """One network ready for trials."""

    name: str
    path: Path
    model: onnx.ModelProto
    network: OnnxNetwork
    sample: dict[str, np.ndarray]
    session: _Once
    module: Any = None
    """The PyTorch module it was exported from, with its example, where there is one."""


def subjects(folder: Path, only: Collection[str] = ()) -> Iterator[Subject]:
    """All networks; the files of exported ones are written to `folder`."""
    from tests.models import MODELS, model_path

    for name in _REAL:
        if only and name not in only:
            continue
        real = MODELS[name]
        real = replace(real, shapes=_SHAPES.get(name, real.shapes))
        yield _subject(name, model_path(name), real.inputs(0))
    for name in _NETS:
        if only and name not in only:
            continue
        path, sample, module = _exported(name, folder)
        yield replace(_subject(name, path, sample), module=module)


def _subject(name: str, path: Path, sample: dict[str, np.ndarray]) -> Subject:
    network = load_network(str(path))
    job = Job(inputs=sample)
    session = find_engine("onnxruntime").open(network, {"opt": "off"}, None, job)
    return Subject(name, path, onnx.load(str(path)), network, sample, _Once(session, sample))  # type: ignore[arg-type]


def _exported(name: str, folder: Path) -> tuple[Path, dict[str, np.ndarray], Any]:
    import torch
    from tests.nets import NETS

    module, args, kwargs = NETS[name]()
    path = folder / f"{name}.onnx"
    with torch.no_grad():
        program = torch.onnx.export(module, args, kwargs=kwargs, dynamo=True, verbose=False, opset_version=20)
    assert program is not None
    held = io.BytesIO()
    onnx.save(program.model_proto, held)
    path.write_bytes(held.getvalue())
    names = [i.name for i in program.model_proto.graph.input]
    flat = [*args, *kwargs.values()]
    return path, {n: np.asarray(a) for n, a in zip(names, flat, strict=True)}, (module, (args, kwargs))
