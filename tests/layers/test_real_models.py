"""Every layer of real networks, judged on onnxruntime's own tensors: rounding explains all of them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from tests.layers.judging import UNIT, capture, judge, tappable
from tests.models import MODELS, model_path
from twinnet.layers import evaluate
from twinnet.onnx.read import read_onnx

LIMIT = 4.0


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=pytest.mark.slow if n in ("smart-turn", "ddddocr") else ())
        for n in sorted(MODELS)
    ],
)
def test_every_layer_is_within_its_floor(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    model = onnx.load(model_path(name))
    graph = read_onnx(model)
    assert not {layer.op for layer in graph if layer.attrs.get("unknown")}
    tensors = capture(model, tappable(graph, model), MODELS[name].inputs())
    ratios = judge(graph, tensors, UNIT, only=tuple(tensors))
    assert len(ratios) >= len(graph.outputs)
    worst = ratios[0]
    with capsys.disabled():
        kinds = ", ".join(f"{r.layer.kind} {r.ratio:.2f}" for r in ratios[:3])
        print(f"\n  {name}: {len(ratios)} tensors, worst {kinds}")
    assert worst.ratio <= LIMIT, (worst.layer.kind, worst.layer.node, worst.tensor, worst.ratio)


@pytest.mark.parametrize("name", ["ppocr-cls", "orientation", "magika"])
def test_a_fault_of_a_thousandth_is_seen(name: str) -> None:
    model = onnx.load(model_path(name))
    graph = read_onnx(model)
    tensors = capture(model, tappable(graph, model), MODELS[name].inputs())
    linear = [
        n
        for n in tensors
        if n in graph.producer and graph.layers[graph.producer[n]].kind in ("conv", "matmul")
    ]
    assert linear
    for tensor in linear[:: max(len(linear) // 6, 1)]:
        changed = {**tensors, tensor: tensors[tensor] * (1 + 1e-3)}
        (born,) = judge(graph, changed, only=(tensor,))
        assert born.ratio > LIMIT, tensor
        (clean,) = judge(graph, tensors, only=(tensor,))
        assert clean.ratio <= LIMIT, tensor


def test_a_float16_network_is_within_the_floor_of_its_own_format() -> None:
    from onnxruntime.transformers.float16 import convert_float_to_float16

    model = convert_float_to_float16(onnx.load(model_path("ppocr-cls")), keep_io_types=True)
    graph = read_onnx(model)
    tensors = capture(model, tappable(graph, model), MODELS["ppocr-cls"].inputs())
    assert sum(t.dtype == torch.float16 for t in tensors.values()) > 100
    # below 2^-14 float16 has a fixed step of 2^-24
    assert judge(graph, tensors, unit=2.0**-11, tiny=2.0**-24)[0].ratio <= LIMIT
    assert judge(graph, tensors)[0].ratio > LIMIT


@pytest.mark.parametrize("name", ["vad", "vad-ifless", "ppocr-rec"])
def test_outputs_from_inputs_alone(name: str) -> None:
    model = onnx.load(model_path(name))
    inputs = MODELS[name].inputs()
    graph = read_onnx(model)
    ours = evaluate(graph, {n: torch.from_numpy(np.asarray(v)) for n, v in inputs.items()})
    theirs = capture(model, [], inputs)
    for output in graph.outputs:
        assert ours[output].shape == theirs[output].shape
        assert float((ours[output] - theirs[output]).abs().max()) < 1e-4


def _light() -> list[Any]:
    """The classic networks. VGG and ZFNet take longest, and have no operator that AlexNet has not."""
    import onnx.backend.test

    folder = Path(str(onnx.backend.test.__file__)).parent / "data" / "light"
    names = {path.stem.removeprefix("light_"): path for path in sorted(folder.glob("light_*.onnx"))}
    return [
        pytest.param(path, id=name, marks=pytest.mark.slow if name in ("vgg19", "zfnet512") else ())
        for name, path in names.items()
    ]


@pytest.mark.parametrize("path", _light())
def test_classic_networks_reach_their_expected_output(path: Path) -> None:
    model = onnx.load(path)
    graph = read_onnx(model)
    assert not [layer for layer in graph if layer.kind == "opaque"]
    expected = path.with_name(f"{path.stem}_output_0.pb")
    wanted = torch.from_numpy(onnx.numpy_helper.to_array(onnx.load_tensor(expected)).copy())
    (name,) = graph.inputs
    shape = tuple(int(s) for s in graph.shapes[name])
    values = np.arange(math.prod(shape), dtype=np.float32).reshape(shape) / math.prod(shape)
    got = evaluate(graph, {name: torch.from_numpy(values)})[graph.outputs[0]]
    assert got.shape == wanted.shape
    assert torch.allclose(got, wanted.to(torch.float64), rtol=1e-3, atol=1e-5)
