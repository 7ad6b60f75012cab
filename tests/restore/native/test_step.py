"""The fused step of table networks: same numbers as the plain one, same gradients, for every kind of network."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from twinnet import lut
from twinnet.lut.net import LutNet
from twinnet.restore.native.step import can_fuse, forward
from twinnet.restore.nets import auto, mulut, spf, srlut
from twinnet.restore.nets.mulut import StageSpec, cascade

BUILD = {
    "srlut": lambda: srlut.build("S", 4, width=4),
    "srlut V x3": lambda: srlut.build("V", 3, width=4),
    "mulut": lambda: mulut.build("sdy", 2, 2, width=4),
    "cascade": lambda: cascade(
        [
            StageSpec("P1+P2", upscale=2, grids=lut.Grid.bits(5)),
            StageSpec("Q1+R5", upscale=2, cell=2, grids=lut.Grid.even(17)),
            StageSpec("Q1", upscale=4, cell=2),
        ],
        width=4,
    ),
    "spf": lambda: spf.build("s", 2, width=4),
    "auto-mulut": lambda: auto.build_mulut(1, 2, 2, window=3, width=4),
    "auto-spf": lambda: auto.build_spf(1, 2, 3, width=4),
}
COMPRESSED = ("srlut", "mulut", "auto-mulut")


@pytest.fixture(scope="module")
def nets() -> dict[str, LutNet]:
    torch.manual_seed(0)
    made: dict[str, LutNet] = {}
    for name, build in BUILD.items():
        made[name] = lut.export(build())
        for _, unit in lut.units(made[name]):
            assert unit.table is not None
            with torch.no_grad():  # rough tables, and some entries beyond int8
                unit.table += torch.randn_like(unit.table) * 0.3
        if name in COMPRESSED:
            made[f"{name} compressed"] = lut.compress(copy.deepcopy(made[name]))
    return made


def gradients(net: LutNet, run, x: torch.Tensor, wanted: torch.Tensor) -> tuple[torch.Tensor, dict]:
    net.zero_grad()
    out = run(x)
    torch.nn.functional.mse_loss(out, wanted).backward()
    return out.detach(), {k: p.grad.clone() for k, p in net.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("how", ["B", "C", "A"])
@pytest.mark.parametrize("training", [True, False])
def test_same_output_as_the_plain_network(nets: dict[str, LutNet], how: str, training: bool) -> None:
    x = torch.rand(2, 2, 9, 13)
    for name, net in nets.items():
        net.rounding = how
        net.train(training)
        assert can_fuse(net) == "", name
        with torch.no_grad():
            assert torch.equal(forward(net, x), net(x)), name


def test_same_gradients_of_tables_in_one_stage(nets: dict[str, LutNet]) -> None:
    x, random = torch.rand(2, 1, 9, 11), torch.Generator().manual_seed(1)
    for name in ("srlut", "srlut V x3", "srlut compressed"):
        net = nets[name].train()
        net.rounding = "B"
        wanted = torch.rand(net(x).shape, generator=random)
        _, plain = gradients(net, net, x, wanted)
        _, fused = gradients(net, lambda images, net=net: forward(net, images), x, wanted)
        assert plain.keys() == fused.keys()
        for key, grad in plain.items():
            torch.testing.assert_close(fused[key], grad, atol=2e-6 * float(grad.abs().max()), rtol=1e-4)


def no_ties(random: np.random.Generator) -> torch.Tensor:
    """A 4x4 image whose pixels all lie differently in their bins of 16, so that every order is unique."""
    values = random.permutation(16) + 16 * random.integers(0, 15, 16)
    return torch.from_numpy(values.reshape(1, 1, 4, 4)).float() / 255


@pytest.mark.parametrize("seed", range(4))
def test_same_gradients_of_pixels(nets: dict[str, LutNet], seed: int) -> None:
    """Where several fractions are equal either side's derivative is right; elsewhere they must agree."""
    x = no_ties(np.random.default_rng(seed))
    for name in ("srlut", "srlut compressed", "srlut V x3"):
        net = nets[name].train()
        for how in "BC":
            net.rounding = how
            a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
            wanted = torch.rand(net(x).shape)
            gradients(net, net, a, wanted)
            gradients(net, lambda images, net=net: forward(net, images), b, wanted)
            assert a.grad is not None and b.grad is not None
            torch.testing.assert_close(b.grad, a.grad, atol=1e-6 * float(a.grad.abs().max()), rtol=1e-4)


def test_gradients_through_two_stages_equal_differences() -> None:
    """Of the first stage's entries, without any rounding in between: a smooth net, a tiny step."""
    torch.manual_seed(3)
    net = lut.export(mulut.build("s", 2, 2, width=4)).train()
    net.rounding = "B"
    x = torch.rand(2, 1, 8, 8)
    wanted = torch.rand(2, 1, 16, 16)
    _, plain = gradients(net, net, x, wanted)
    _, fused = gradients(net, lambda images: forward(net, images), x, wanted)
    name = "stage1.in_c0.b0.unit.table"
    a, b = plain[name].reshape(-1), fused[name].reshape(-1)
    # Ties make single entries differ; the directions must be the same.
    assert float((a @ b) / (a.norm() * b.norm())) > 0.8
    second = "stage2.in_c0.b0.unit.table"
    torch.testing.assert_close(fused[second], plain[second], atol=1e-7, rtol=1e-3)


def test_samplers_and_residuals_learn(nets: dict[str, LutNet]) -> None:
    net = nets["auto-mulut"].train()
    net.rounding = "B"
    _, fused = gradients(
        net, lambda images: forward(net, images), torch.rand(1, 1, 8, 8), torch.rand(1, 1, 16, 16)
    )
    for ending in ("sample.logits", "residual.weight", "unit.table"):
        found = [grad for key, grad in fused.items() if key.endswith(ending)]
        assert found and all(float(grad.abs().max()) > 0 for grad in found)


def test_what_cannot_be_fused_runs_as_it_is() -> None:
    net = lut.export(srlut.build("S", 2, width=4, interpolation="multilinear"))
    assert "multilinear" in can_fuse(net)
    x = torch.rand(1, 1, 6, 6)
    assert torch.equal(forward(net, x), net(x))
    assert "table mode" in can_fuse(srlut.build("S", 2, width=4))
