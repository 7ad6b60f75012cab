"""Real networks: no false alarm between optimisation levels and engines, a planted fault found at its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import twinnet
from tests.models import MODELS, model_path
from tests.needs import need_engine
from tests.onnx_edit import save, scale_channel
from twinnet.result import Result


def _check(*args: Any, **options: Any) -> Result:
    need_engine("onnxruntime")
    found = twinnet.check(*args, **options)
    assert isinstance(found, Result)
    return found


def _inputs(name: str, **shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    from dataclasses import replace

    real = MODELS[name]
    return replace(real, shapes={**real.shapes, **shapes}).inputs()


@pytest.mark.parametrize(
    "name",
    [
        "magika",
        pytest.param("ppocr-det", marks=pytest.mark.slow),
        "ppocr-cls",
        "orientation",
        "basic-pitch",
        "vad",
    ],
)
def test_optimised_or_not_it_is_the_same_network(name: str) -> None:
    shapes = {"x": (1, 3, 320, 320)} if name == "ppocr-det" else {}
    found = _check(str(model_path(name)), _inputs(name, **shapes), "onnxruntime?opt=all")
    assert found.verdict == "PASS" and found.evidence == "strong", repr(found)
    assert not found.findings and not [p for p in found.pairs if p.status == "fail"]
    assert found.coverage.judged >= 0.5 * found.coverage.paired > 0


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The detector with the last output channel of its middle convolution scaled by 1.5."""
    model = onnx.load(str(model_path("ppocr-det")))
    convolutions = [n for n in model.graph.node if n.op_type == "Conv"]
    scale_channel(model, convolutions[len(convolutions) // 2], -1, 1.5)
    return save(model, tmp_path_factory.mktemp("faulty") / "det.onnx")


@pytest.mark.parametrize("level", [pytest.param("off", marks=pytest.mark.slow), "all"])
def test_one_wrong_channel_in_a_detector_is_one_finding(faulty: Path, level: str) -> None:
    inputs = _inputs("ppocr-det", x=(1, 3, 320, 320))
    found = _check(str(model_path("ppocr-det")), inputs, f"onnxruntime?opt={level}:{faulty}")
    assert found.verdict == "FAIL"
    (finding,) = found.findings
    if level == "off":
        assert finding.site.tensor == "depthwise_conv2d_13.tmp_0"
        assert finding.site.op == "Conv" and finding.inherited_by > 50
    assert any("depthwise_conv2d_13.tmp_0" in label for label in finding.segment)


@pytest.mark.parametrize("name", ["vad-ifless", "vad-op15", "vad-openvino"])
def test_the_reference_evaluator_agrees(name: str) -> None:
    found = _check(str(model_path(name)), _inputs(name), "onnx-reference")
    assert found.verdict == "PASS", repr(found)


def test_what_the_reference_evaluator_does_otherwise_is_found() -> None:
    # Before opset 14 it normalises by the statistics of the batch wherever a momentum is stated, which a trained
    # network does not: every batch norm of the classifier is at fault, and nothing else is.
    found = _check(str(model_path("ppocr-cls")), _inputs("ppocr-cls"), "onnx-reference")
    assert found.verdict == "FAIL" and {f.site.op for f in found.findings} == {"BatchNormalization"}


def test_what_the_reference_evaluator_cannot_run_is_an_error_never_a_failure() -> None:
    # Its Squeeze finds an axis that is not there, in a network that ONNX Runtime runs.
    found = _check(str(model_path("magika")), _inputs("magika"), "onnx-reference")
    assert found.verdict == "ERROR" and found.exit_code == 3
    assert "(Squeeze): axis 2 is out of bounds" in found.error and not found.findings


def _light(name: str) -> Path:
    import onnx.backend.test

    return Path(str(onnx.backend.test.__file__)).parent / "data" / "light" / f"light_{name}.onnx"


@pytest.mark.parametrize(
    "name", ["squeezenet", *(pytest.param(n, marks=pytest.mark.slow) for n in ("shufflenet", "densenet121"))]
)
def test_classic_networks_and_their_expected_outputs(name: str, tmp_path: Path) -> None:
    path = _light(name)
    wanted = onnx.numpy_helper.to_array(onnx.load_tensor(str(path.with_name(f"{path.stem}_output_0.pb"))))
    graph = onnx.load(str(path)).graph
    weights = {t.name for t in graph.initializer}
    (value,) = [i for i in graph.input if i.name not in weights]
    shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
    ramp = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) / np.float32(np.prod(shape))
    found = _check(str(path), {value.name: ramp}, "onnxruntime?opt=all", keep="all", out=tmp_path / "run")
    assert found.verdict == "PASS", repr(found)
    expected = _check(
        str(path), {value.name: ramp}, lambda *_: wanted, tolerance=twinnet.Tolerance(rtol=1e-3, atol=1e-5)
    )
    assert expected.verdict == "PASS", repr(expected)
    assert (
        _check(
            str(path), {value.name: ramp}, lambda *_: wanted * 1.01, tolerance=twinnet.Tolerance(rtol=1e-3)
        ).verdict
        == "FAIL"
    )
