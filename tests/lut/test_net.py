"""Networks in torch: rounding semantics, training, fine-tuning, recording, modes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.lut.zoo import CASES, random_net
from twinnet import lut
from twinnet.errors import UsageError
from twinnet.lut.nodes import AdaRL, AutoSample
from twinnet.lut.rounding import rounding
from twinnet.restore.nets import mulut, spf, srlut

COARSE = lut.Grid.bits(6)


def test_rounding_semantics_are_the_named_sums(noise):
    """A rounds each lookup, B the running sum, C nothing: recomputed here from the exact lookups."""
    net = random_net("mulut-sdy")
    exact: dict[str, torch.Tensor] = {}
    net.predict(noise, exact.__setitem__)
    lookups = [exact[f"stage1.in_c0.b{b}.rot{r}"] / 32 for b in range(3) for r in range(4)]
    a = sum(torch.round(x) for x in lookups)
    b = torch.zeros_like(lookups[0])
    for x in lookups:
        b = torch.round(b + x)
    for letter, expected in (("A", a), ("B", b), ("C", sum(lookups) * 32)):
        net.rounding = letter
        assert net.rounding == letter and {site.rounding for site in net.sites()} == {letter}
        seen: dict[str, torch.Tensor] = {}
        net.predict(noise, seen.__setitem__)
        assert torch.equal(seen["stage1.in_c0"].double(), expected.double()), letter
    assert not torch.equal(a, b)


def test_rounding_names():
    assert [rounding(n) for n in ("network", "finetune", "deploy")] == ["A", "B", "C"]
    with pytest.raises(UsageError, match="no rounding semantics 'D'"):
        rounding("D")


@pytest.mark.parametrize("name", ["mulut-sdy", "srlut-S", "auto-mulut", "spf"])
def test_networks_learn(name):
    """A few steps as a network, then a few on its tables, each bring the loss down."""
    torch.manual_seed(0)
    net = CASES[name]()
    x = torch.rand(2, 1, 8, 8)
    target = torch.nn.functional.interpolate(x, scale_factor=net.scale, mode="nearest") * 0.5 + 0.2

    def fit(steps: int, rate: float) -> tuple[float, float]:
        net.train()
        optimiser = torch.optim.Adam(net.parameters(), lr=rate)
        losses = []
        for _ in range(steps):
            optimiser.zero_grad()
            loss = torch.nn.functional.mse_loss(net(x), target)
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        return losses[0], min(losses)

    first, best = fit(25, 3e-3)
    assert best < 0.9 * first
    lut.export(net, grid=COARSE)
    net.rounding = "finetune"
    first, best = fit(12, 5e-3)
    assert best < 0.95 * first
    assert all(u.table.grad is not None and u.table.grad.abs().sum() > 0 for _, u in lut.units(net))


def test_samplers_and_residuals_are_tuned_through_their_fixed_point_forms():
    net = random_net("auto-mulut")
    net.train()
    net.rounding = "B"
    net(torch.rand(1, 1, 6, 6)).square().mean().backward()
    for module in net.modules():
        if isinstance(module, AutoSample):
            assert module.logits.grad is not None and module.logits.grad.abs().sum() > 0
        if isinstance(module, AdaRL):
            assert module.weight.grad is not None and module.weight.grad.abs().sum() > 0


def test_sites_of_a_network_are_in_pixel_units(noise):
    net = mulut.build("s", 2, 2, width=8)
    seen: dict[str, torch.Tensor] = {}
    net.predict(noise, seen.__setitem__)
    sites = {site.name: site for site in net.sites()}
    assert set(seen) == set(sites)
    assert sites["stage1.in_c0.input.x"].scale == 255 and sites["stage1.in_c0.b0.rot0.sr"].scale == 127
    pixels = seen["stage1.in_c0.input.x"][0, 0].numpy() * sites["stage1.in_c0.input.x"].scale
    assert np.allclose(pixels, noise, atol=1e-4)
    level = torch.round(seen["stage1.in_c0.b0.rot0.sr"] * 127)
    assert torch.equal(level, seen["stage1.in_c0.b0.rot0"])


def test_site_names_of_spf():
    names = [site.name for site in spf.build("s", 2, width=4).sites()]
    block = "convblock1.in_c0"
    expected = [f"{block}.input.x", f"{block}.b0.rot0.sr", f"{block}.b0.rot0", block, "convblock1"]
    assert set(expected) | {"upblock.in_c3.b0.rot3.sr", "channel", "upblock"} <= set(names)
    assert len(names) == len(set(names))


def test_rotations_are_turns_of_the_image(noise):
    """Rotation r of the image, looked up plainly and turned back, is what the `rot` sites record."""
    net = random_net("srlut-S")
    seen: dict[str, torch.Tensor] = {}
    net.predict(noise, seen.__setitem__)
    for r in range(4):
        turned: dict[str, torch.Tensor] = {}
        net.predict(np.ascontiguousarray(np.rot90(noise, r)), turned.__setitem__)
        plain = torch.rot90(turned["stage1.in_c0.b0.rot0"], -r, (2, 3))
        assert torch.equal(plain, seen[f"stage1.in_c0.b0.rot{r}"])


def test_modes_go_back_and_forth(noise):
    net = mulut.build("s", 1, 2, width=8, grid=COARSE)
    before = net.predict(noise)
    assert net.mode == "network" and lut.export(net).mode == "table"
    tables = net.predict(noise)
    lut.use(net, "network")
    assert net.mode == "network" and np.array_equal(net.predict(noise), before)
    lut.use(net, "table")
    assert np.array_equal(net.predict(noise), tables)


def test_a_table_is_the_network_at_its_nodes():
    """With step 51 every multiple of 51 is a node, so tables and network agree there."""
    net = srlut.build("S", 2, width=16, grid=lut.Grid.even(51))
    image = np.random.default_rng(0).integers(0, 6, (8, 8)).astype(np.uint8) * 51
    as_network, as_table = {}, {}
    net.predict(image, as_network.__setitem__)
    lut.export(net).predict(image, as_table.__setitem__)
    exact = torch.round(as_network["stage1.in_c0.b0.rot1.sr"].clamp(-1, 1) * 127)
    assert (as_table["stage1.in_c0.b0.rot1.sr"] / 51 - exact).abs().max() <= 1e-6


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mulut.build("q"), "no pattern named 'q'"),
        (lambda: mulut.build("s", stages=0), "at least one stage"),
        (lambda: srlut.build("X"), "no SR-LUT of kind"),
        (lambda: lut.Grid(20, 13, 255), "does not span"),
        (lambda: lut.Grid.even(16), "does not divide 255"),
        (lambda: lut.Grid.bits(9), "0..8"),
        (lambda: lut.Unit(None, 9, 1), "1 to 6 inputs"),
        (lambda: lut.export(torch.nn.Linear(1, 1)), "no lut.Unit"),
        (lambda: mulut.build("s", width=4)(torch.zeros(1, 1, 0, 4)), "takes"),
        (lambda: lut.lower(mulut.build("s", width=4)), "table mode"),
    ],
)
def test_wrong_use_is_told(make, message):
    with pytest.raises(UsageError, match=message):
        make()
