"""Small projects with suites, for tests: networks whose layers are known, and an engine with planted faults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.onnx_edit import make_model, save

__all__ = ["OUR_PLUGIN", "PLANTED", "names", "outcomes", "project", "small_net", "write_net"]

OUR_PLUGIN = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p twinnet.suite.plugin"}
"""The environment of a pytest with no plugin but ours: all that tests need take five seconds to load."""


def small_net(seed: int = 0) -> onnx.ModelProto:
    """Convolution, twice the same ReLU, a shape chain, and a matrix product: five layers, two of them identical."""
    rng = np.random.default_rng(seed)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], name="conv"),
        helper.make_node("Relu", ["c"], ["r"], name="first"),
        helper.make_node("Relu", ["r"], ["r2"], name="second"),
        helper.make_node("Shape", ["r2"], ["shape"], name="shape"),
        helper.make_node("Gather", ["shape", "zero"], ["batch"], name="batch"),
        helper.make_node("Concat", ["batch", "rest"], ["to"], axis=0, name="to"),
        helper.make_node("Reshape", ["r2", "to"], ["flat"], name="flatten"),
        helper.make_node("MatMul", ["flat", "m"], ["y"], name="product"),
    ]
    weights = {
        "w": rng.standard_normal((4, 3, 3, 3)).astype(np.float32),
        "m": rng.standard_normal((64, 5)).astype(np.float32) * 0.1,
        "zero": np.array([0], np.int64),
        "rest": np.array([-1], np.int64),
    }
    return make_model(nodes, {"x": (1, 3, 4, 4)}, ["y"], weights)


def write_net(folder: Path, name: str = "net", seed: int = 0) -> Path:
    """A small net in `folder/models`."""
    (folder / "models").mkdir(exist_ok=True)
    return save(small_net(seed), folder / "models" / f"{name}.onnx")


PLANTED = '''
from twinnet.engines import register
from twinnet.engines.onnxruntime import OnnxRuntimeEngine
from twinnet.errors import EngineError
from twinnet.onnx.network import OnnxNetwork
from twinnet.time_limit import time_up

@register
class Planted(OnnxRuntimeEngine):
    """ONNX Runtime that computes one tensor wrongly, wherever it occurs, or cannot compile it."""
    name = "planted"
    suffixes = ()
    formats = ()

    def open(self, network, options, file, job):
        import numpy as np
        import onnx
        options = dict(options)
        at, how = options.pop("at", ""), options.pop("how", "scale")
        model = onnx.ModelProto()
        model.CopyFrom(network.model)
        for node in list(model.graph.node):
            if at not in node.output:
                continue
            if how == "refuse":
                what = f"planted could not compile the network: no kernel for {node.op_type}"
                raise EngineError(what, stage="compile")
            if how == "wait":
                raise time_up("planted could not compile the network in time", "compile")
            inner = at + "/right"
            node.output[list(node.output).index(at)] = inner
            model.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(1.01), at + "/factor"))
            model.graph.node.insert(
                list(model.graph.node).index(node) + 1,
                onnx.helper.make_node("Mul", [inner, at + "/factor"], [at]),
            )
        return super().open(OnnxNetwork(model, name=network.name), options, file, job)
'''


def project(pytester: pytest.Pytester, settings: str = 'engines = ["onnxruntime"]', **models: int) -> Path:
    """A project folder with these models (name to seed) and settings, and the faulty engine in its conftest."""
    for name, seed in (models or {"net": 0}).items():
        write_net(pytester.path, name, seed)
    (pytester.path / "pyproject.toml").write_text(f"[tool.twinnet]\n{settings}\n")
    pytester.makeconftest(PLANTED)
    return pytester.path


def outcomes(folder: Path) -> dict[str, dict[str, Any]]:
    """The results in session.json, by case."""
    import json

    data = json.loads((folder / "runs/suite/session.json").read_text())
    assert data["schema"] == 1
    return {one["name"]: one for one in data["results"]}


def names(result: Any) -> list[str]:
    """The cases that --collect-only -q lists."""
    return [line.partition("::")[2] for line in result.outlines if "::" in line]
