"""A right twin passes with strong evidence, and what the data could not show is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.hidden.attack import check_deployed, checked, function
from benchmarks.hidden.nets import Classifier, Clipped, Features, Head, Lookup, picture
from torch import nn

import twinnet


@pytest.mark.parametrize("depth", [1, 3, 6, 12])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_right_detector_head_passes_with_strong_evidence(depth: int, seed: int) -> None:
    torch.manual_seed(seed)
    net = Head(depth).eval()
    found = checked(net, picture(seed), function(net))
    assert (found.verdict, found.evidence) == ("PASS", "strong")


def test_a_right_twin_passes_unwatched_on_every_sample() -> None:
    net = Head().eval()
    found = check_deployed(net, function(net), [picture(1), picture(2), picture(3)])
    assert (found.verdict, found.evidence) == ("PASS", "strong")


def test_another_order_of_sums_is_rounding() -> None:
    """The same network, its channels summed in another order."""
    torch.manual_seed(2)
    net, order = Classifier().eval(), torch.randperm(16)
    other = Classifier().eval()
    other.load_state_dict(net.state_dict())
    with torch.no_grad():
        other.body[3].weight.copy_(net.body[3].weight[order])
        other.body[3].bias.copy_(net.body[3].bias[order])
        other.last.weight.copy_(net.last.weight[:, order])
    found = checked(net, [picture(1), picture(2)], function(other))
    assert (found.verdict, found.evidence) == ("PASS", "strong")


def test_synthetic_samples_reach_both_sides_of_every_bound() -> None:
    net = Clipped().eval()
    found = checked(net, None, function(net), shapes={"x": (1, 3, 16, 16)})
    assert (found.verdict, found.evidence) == ("PASS", "strong")
    assert "stretched" in found.inputs.description


def test_numbers_that_the_network_was_not_made_for_are_left_out() -> None:
    class Indexed(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.arange(16.0)[(x * 15).long()] + x.clamp(-3, 3)

    found = checked(Indexed(), None, function(Indexed()), shapes={"x": (1, 3, 8, 8)})
    assert found.verdict == "PASS", found.error


def test_what_given_data_does_not_reach_is_said() -> None:
    net = Clipped().eval()
    found = checked(net, picture(1), function(net))
    assert any("never sees a value below 0" in g.message for g in found.guards)
    table = Lookup().eval()
    said = checked(table, torch.arange(12)[None], function(table)).guards
    assert any("reads 12 of 5000 rows" in g.message for g in said)


def test_a_part_that_the_data_leaves_at_zero_is_said_to_be_untested() -> None:
    net = Features().eval()
    found = checked(net, [picture(1), picture(2)], function(net))
    assert (found.verdict, found.evidence) == ("PASS", "weak")
    assert any("of 864 elements" in g.message for g in found.guards)


def test_a_missing_output_and_another_dtype_are_named() -> None:
    net = Head().eval()
    said = checked(net, picture(1), lambda x: function(net)(x).astype(np.float64)).guards
    assert any("float64 in the twin, float32 in the network" in g.message for g in said)


def test_a_declared_precision_is_no_surprise() -> None:
    net = Classifier().eval()
    found = checked(net, picture(1), "torch?dtype=float64")
    assert (found.verdict, found.evidence) == ("PASS", "strong")


def test_the_limit_that_says_nothing_is_named() -> None:
    with pytest.raises(twinnet.errors.UsageError, match="atol nan is not a limit"):
        twinnet.Tolerance(atol=float("nan"))


def test_far_from_rounding_behind_layers_that_nobody_saw() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(*(layer for _ in range(5) for layer in (nn.Linear(16, 16), nn.Tanh()))).eval()
    for layer in net:
        if isinstance(layer, nn.Linear):
            nn.init.orthogonal_(layer.weight)
    x = torch.randn(4, 16)

    def far(x: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return net(torch.from_numpy(x)).numpy() * np.float32(1 + 150 * 2.0**-24)

    found = twinnet.check(net, x, far)
    assert (found.verdict, found.evidence) == ("PASS", "weak")
    assert any(g.fact.code == "coverage.far" for g in found.guards)
    near = twinnet.check(net, x, lambda x: net(torch.from_numpy(x)).detach().numpy())
    assert (near.verdict, near.evidence) == ("PASS", "strong")


class _Swish(nn.Module):
    """A hard swish in one operator, or written out: the same bounds in other words."""

    def __init__(self, written: bool) -> None:
        super().__init__()
        self.conv, self.written = nn.Conv2d(3, 4, 3), written

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        return y * (y + 3).clamp(0, 6) / 6 if self.written else nn.functional.hardswish(y)


@pytest.mark.parametrize("twin", [False, True])
def test_bounds_in_other_words_are_the_networks_own(twin: bool) -> None:
    net, other = _Swish(not twin).eval(), _Swish(twin).eval()
    other.load_state_dict(net.state_dict())
    found = checked(net, None, other, shapes={"x": (1, 3, 8, 8)})
    assert (found.verdict, found.evidence) == ("PASS", "strong")
    assert not [g for g in found.guards if g.fact.code.startswith("exercise.")]


def test_a_bound_of_the_twin_is_seen_where_its_engine_fuses_it_with_what_it_reads(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Hardswish(), nn.Conv2d(4, 4, 3)).eval()
    torch.onnx.export(net, (picture(1),), tmp_path / "net.onnx", dynamo=False, opset_version=17)
    found = checked(net, None, f"openvino:{tmp_path / 'net.onnx'}", shapes={"input": (1, 3, 12, 12)})
    assert (found.verdict, found.evidence) == ("PASS", "strong")
    assert not [g for g in found.guards if g.fact.code == "exercise.twin"]


def test_a_mask_is_not_stretched() -> None:
    """A twin may read a mask as yes and no."""

    class Masked(nn.Module):
        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return x.relu() * mask

    found = checked(
        Masked(),
        None,
        lambda x, m: np.maximum(x, 0) * (m > 0),
        shapes={"x": (1, 3, 8, 8), "mask": (1, 1, 8, 8)},
    )
    assert found.verdict == "PASS"
