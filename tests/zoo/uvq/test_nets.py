"""Parameters, shapes and values of the networks, against figures measured apart from twinnet."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch import nn

from tests.needs import need_data
from tests.uvq import aggregation_net, golden, golden_inputs
from twinnet.errors import UsageError
from twinnet.result import Result
from twinnet.zoo.uvq import AggregationNet, ContentNet, DistortionNet, depthwise_to_dense, distortionnet
from twinnet.zoo.uvq.blocks import Make, same_pads
from twinnet.zoo.uvq.initialise import smooth_images


def count(net: nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


def test_parameters_and_shapes_of_every_depth() -> None:
    expected = {
        "single": (17_496, (1, 180, 320, 24)),
        "minimal": (31_378, (1, 86, 148, 128)),
        "medium": (349_620, (1, 19, 28, 128)),
        "full": (3_759_228, (1, 8, 8, 128)),
    }
    for depth, (parameters, shape) in expected.items():
        with torch.device("meta"):
            net = DistortionNet(depth)  # pyright: ignore[reportArgumentType]
            made = net(torch.empty(1, 3, 360, 640))
        assert (count(net), tuple(made.shape)) == (parameters, shape), depth


def test_the_other_networks() -> None:
    with torch.device("meta"):
        content, aggregation = ContentNet(), AggregationNet()
        features = content(torch.empty(2, 3, 256, 256))
        score = aggregation(features, torch.empty(2, 24, 24, 128))
        dense = DistortionNet(depthwise=False)
    assert (count(content), count(aggregation), count(dense)) == (3_759_228, 74_241, 161_585_532)
    assert (tuple(features.shape), tuple(score.shape)) == ((2, 8, 8, 128), (2, 1))


def test_names_and_buffers_are_those_of_the_published_weights() -> None:
    with torch.device("meta"):
        net = DistortionNet()
    names = list(net.state_dict())
    assert len(names) == 353 and sum(b.numel() for b in net.buffers()) == 39_504
    assert {
        "features.0.0.conv.weight",
        "features.0.1.num_batches_tracked",
        "features.1.block.0.0.conv.weight",
        "features.1.block.1.fc1.bias",
        "features.16.block.2.fc2.weight",
        "features.16.block.3.1.running_var",
        "features.17.conv.weight",
    } <= set(names)


def test_padding_is_that_of_tensorflow() -> None:
    cases = {
        (180, 5, 2): (1, 2),
        (40, 5, 2): (1, 2),
        (23, 5, 2): (2, 2),
        (12, 2, 1): (0, 1),
        (90, 5, 1): (2, 2),
    }
    assert {case: same_pads(*case) for case in cases} == cases


def test_a_depth_that_is_none() -> None:
    with pytest.raises(UsageError, match="one of single, minimal, medium, full"):
        distortionnet("huge")


def test_formula_weights_give_the_golden_values() -> None:
    expected: dict[str, Any] = json.loads(need_data("uvq", "distortionnet_golden.json").read_text())
    net = distortionnet(init="formula")
    places = torch.arange(3 * 360 * 640, dtype=torch.float64)
    x = torch.sin(0.37 * places + (1e-6 * places * places) % 6.283).reshape(1, 3, 360, 640).float()
    with torch.no_grad():
        for stage, part in zip(expected["stages"], net.features, strict=True):
            x = part(x)
            seen = [float(x.mean()), float(x.std()), float(x.abs().max())]
            assert list(x.shape) == stage["shape"]
            # A mean is a sum that cancels: it is as exact as the values are large.
            assert seen == pytest.approx([stage["mean"], stage["std"], stage["absmax"]], rel=1e-4, abs=1e-5)
        x = net.avgpool(x)
    assert list(x.shape) == expected["out_shape"]
    assert x.flatten()[:8].tolist() == pytest.approx(expected["out_first8_f64"], abs=2e-5)
    assert float(x.mean()) == pytest.approx(expected["out_mean"], abs=1e-5)


def test_aggregation_net_gives_the_golden_scores() -> None:
    net = aggregation_net()
    rows = golden()
    assert len(rows) == 6
    for row in rows:
        content, distortion = map(torch.from_numpy, golden_inputs(row))
        with torch.no_grad():
            assert float(net(content, distortion)) == pytest.approx(row["torch_f64"], abs=2e-6)
            assert float(net.double()(content.double(), distortion.double())) == pytest.approx(
                row["torch_f64"], abs=1e-12
            )
        net.float()


def test_only_the_calibrated_network_looks_at_its_input() -> None:
    images = smooth_images(2, 144, 320, seed=5)

    def both(net: nn.Module) -> tuple[float, float]:
        """How alike two outputs are, and how large."""
        with torch.no_grad():
            a, b = (net(image[None]).flatten() for image in images)
        return float(torch.corrcoef(torch.stack([a, b]))[0, 1]), float(a.abs().max())

    assert both(distortionnet("medium", init="formula"))[0] > 0.999999
    assert both(distortionnet("medium", init="random"))[1] < 1e-5
    alike, large = both(distortionnet("medium"))
    assert alike < 0.8 and large > 1.0
    again = distortionnet("medium").state_dict()
    assert all(torch.equal(again[n], t) for n, t in distortionnet("medium").state_dict().items())


def test_dense_convolutions_compute_the_same() -> None:
    from twinnet import check

    net = distortionnet("minimal")
    dense = depthwise_to_dense(net)
    assert count(dense) == count(DistortionNet("minimal", depthwise=False)) > count(net)
    assert not any(m.groups > 1 for m in dense.modules() if isinstance(m, nn.Conv2d))
    # As a function: as networks they differ in the shapes of their weights.
    result = check(net, smooth_images(2, 36, 64), lambda x: dense(torch.from_numpy(x)).detach().numpy())
    assert isinstance(result, Result)
    assert (result.verdict, result.evidence) == ("PASS", "strong")


def test_symmetric_padding_keeps_shapes_and_names() -> None:
    right, wrong = DistortionNet("minimal"), DistortionNet("minimal", make=Make(symmetric=True))
    wrong.load_state_dict(right.state_dict())
    x = smooth_images(1, 36, 64)
    with torch.no_grad():
        assert right(x).shape == wrong(x).shape and not torch.allclose(right(x), wrong(x))
