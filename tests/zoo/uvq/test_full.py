"""The whole DistortionNet on every engine."""

from __future__ import annotations

import pytest

from tests.needs import need_engine
from twinnet import check
from twinnet.result import Result
from twinnet.zoo.uvq import depthwise_to_dense, distortionnet, smooth_images


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["onnxruntime", "openvino", "litert", "executorch", "iree"])
def test_it_agrees(engine: str) -> None:
    need_engine(engine)
    result = check(distortionnet(), smooth_images(1, 360, 640, seed=1), engine, keep="none")
    assert isinstance(result, Result)
    assert (result.verdict, result.evidence) == ("PASS", "strong"), result


@pytest.mark.slow
def test_without_depthwise_convolutions_too() -> None:
    import torch

    net = distortionnet("medium")
    dense = depthwise_to_dense(net)
    result = check(net, smooth_images(1, 360, 640), lambda x: dense(torch.from_numpy(x)).detach().numpy())
    assert isinstance(result, Result) and result.verdict == "PASS"
