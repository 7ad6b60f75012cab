"""Weights from files: checkpoints as published, and the constants of TFLite files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from tests.needs import need_data, need_engine
from tests.uvq import aggregation_net, golden, golden_inputs
from twinnet.errors import UsageError
from twinnet.zoo.uvq import AggregationNet, DistortionNet, distortionnet, load_weights
from twinnet.zoo.uvq.blocks import MBConv
from twinnet.zoo.uvq.initialise import smooth_images


def run_file(path: Path, x: np.ndarray) -> np.ndarray:
    need_engine("litert")
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(path))
    place = interpreter.get_input_details()[0]["index"]
    interpreter.resize_tensor_input(place, x.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(place, x)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def distance(net: nn.Module, x: torch.Tensor, file: np.ndarray) -> float:
    """Of the first sample; the files that take nine give the rest for nothing."""
    with torch.no_grad():
        made = net.eval()(x[:1]).numpy()
    file = file[:1]
    assert made.shape == file.shape and np.abs(file).max() > 0
    return float(np.abs(made - file).max() / np.abs(file).max())


@pytest.mark.parametrize("depth", ["minimal_single_batch", "medium_single_batch"])
def test_a_published_tflite_file_and_our_network_agree_to_rounding(depth: str) -> None:
    path = need_data("uvq", f"distortion_net_{depth}.tflite")
    net = DistortionNet("minimal" if depth.startswith("minimal") else "medium")
    load_weights(net, path)
    x = smooth_images(1, 360, 640)
    assert distance(net, x, run_file(path, x.permute(0, 2, 3, 1).numpy())) < 1e-5


@pytest.mark.slow
def test_both_published_single_blocks() -> None:
    path = need_data("uvq", "distortion_net_single.tflite")
    net = DistortionNet("single")
    load_weights(net, path)
    x = smooth_images(9, 360, 640)
    assert distance(net, x, run_file(path, x.permute(0, 2, 3, 1).numpy())) < 1e-5
    old = need_data("uvq", "distortion_net_single_v1_nchw.tflite")
    block = MBConv(16, 24, expand=6, kernel=3, stride=1)
    load_weights(block, old)
    x = torch.randn(9, 16, 180, 320, generator=torch.Generator().manual_seed(0))
    assert distance(block, x, run_file(old, x.numpy())) < 1e-5


def test_aggregation_net_from_its_tflite_file() -> None:
    net = AggregationNet().eval()
    load_weights(net, need_data("uvq", "aggregation_net.tflite"))
    own = aggregation_net().state_dict()
    assert all(torch.equal(t, own[n]) for n, t in net.state_dict().items())
    row = golden()[1]
    with torch.no_grad():
        assert float(net(*map(torch.from_numpy, golden_inputs(row)))) == pytest.approx(
            row["torch_f32"], abs=2e-6
        )


@pytest.mark.parametrize("prefix", ["", "model.", "module.distortion."])
def test_a_checkpoint_by_its_names(tmp_path: Path, prefix: str) -> None:
    right = distortionnet("single")
    state = {f"{prefix}{n}": t for n, t in right.state_dict().items()}
    torch.save(state, tmp_path / "a.pth")
    save_file(state, tmp_path / "a.safetensors")
    for name in ("a.pth", "a.safetensors"):
        net = DistortionNet("single")
        load_weights(net, tmp_path / name)
        assert all(torch.equal(t, right.state_dict()[n]) for n, t in net.state_dict().items())


def test_files_that_do_not_fit(tmp_path: Path) -> None:
    minimal = need_data("uvq", "distortion_net_minimal_single_batch.tflite")
    for path, said in [
        (minimal, "has 16 convolutions, DistortionNet has 81"),
        (need_data("uvq", "aggregation_net.pth"), "features.0.0.conv.weight is missing"),
        (tmp_path / "none.pth", "no such file"),
    ]:
        with pytest.raises(UsageError, match=said):
            load_weights(DistortionNet(), path)
    with pytest.raises(UsageError, match="holds int8 weights"):
        load_weights(AggregationNet(), need_data("uvq", "aggregation_net_int8.tflite"))
    state = DistortionNet("single").state_dict()
    state["features.0.0.conv.weight"] = torch.zeros(32, 3, 5, 5)
    torch.save(state, tmp_path / "wide.pth")
    with pytest.raises(UsageError, match="has the shape 32x3x5x5, the network's 32x3x3x3"):
        load_weights(DistortionNet("single"), tmp_path / "wide.pth")
    (tmp_path / "bad.pth").write_bytes(b"no checkpoint")
    with pytest.raises(UsageError, match="not a readable PyTorch file"):
        load_weights(DistortionNet("single"), tmp_path / "bad.pth")
