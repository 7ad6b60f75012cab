"""Linear layers and ReLUs in numpy, with a ReLU that can be smooth."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from twinnet.engines.base import Abilities, Engine, Session, one_of, read_options
from twinnet.errors import EngineError
from twinnet.layers.read_fx import read_fx
from twinnet.site import Site
from twinnet.trace import TraceBuilder

KERNELS = {
    "linear": lambda x, w, b: x @ w.T + b,
    "relu": lambda x: np.maximum(x, 0),
    "smooth relu": lambda x: np.log1p(np.exp(8 * x)) / 8,
}


class NumpySession(Session):
    engine, version, precision = "numpy-mlp", np.__version__, "float32"

    def __init__(self, network, job, relu):
        program = network.exported(job.inputs)
        self.signature, self._graph = network.signature, read_fx(program)
        self._inputs = network.placeholders(program)
        self._kernels = {**KERNELS, "relu": KERNELS[relu]}
        for layer in self._graph:
            if layer.kind not in KERNELS:
                raise EngineError(f"numpy-mlp has no kernel for {layer.kind}", stage="convert")

    inputs = property(lambda self: self._inputs)
    output_tensors = property(lambda self: self._graph.outputs)

    @property
    def sites(self):
        role = dict.fromkeys(self._graph.outputs, "output")
        named = ((layer.outputs[0], layer) for layer in self._graph)
        return tuple(Site(n, n, layer.op, layer.module, role=role.get(n, "inner")) for n, layer in named)

    def trace(self, inputs, watch, builder):
        values = {name: tensor.numpy() for name, tensor in self._graph.constants.items()}
        values.update({self._inputs[name]: array for name, array in inputs.items()})
        for layer in self._graph:
            values[layer.outputs[0]] = self._kernels[layer.kind](*(values[name] for name in layer.inputs))
        for name in (*self._inputs.values(), *watch, *self.output_tensors):
            builder.add(name, values[name])
        return builder.done()

    def run(self, inputs):
        trace = self.trace(inputs, (), TraceBuilder())
        return {name: trace[name] for name in self.output_tensors}


class NumpyEngine(Engine):
    name = "numpy-mlp"
    summary = "linear layers and ReLUs in numpy"
    abilities = Abilities(note="all tensors, in numpy")
    options: ClassVar = {"relu": "hard|smooth (default hard)"}
    suffixes = (".mlp",)

    def version(self):
        return np.__version__

    def open(self, network, options, file, job):
        chosen = read_options(self, options, relu=one_of("hard", "smooth"))
        return NumpySession(network, job, "smooth relu" if chosen.get("relu") == "smooth" else "relu")
