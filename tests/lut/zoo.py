"""Small networks of every kind, with random tables: entries with no structure hide no mistake."""

from __future__ import annotations

import numpy as np
import torch

from twinnet import lut
from twinnet.lut.net import LutNet
from twinnet.lut.nodes import AdaRL, AutoSample
from twinnet.lut.plan import Table
from twinnet.restore.nets import auto, mulut, spf, srlut
from twinnet.restore.nets.mulut import StageSpec

COARSE = lut.Grid.even(51)

CASES = {
    "srlut-S": lambda: srlut.build("S", 2, width=4, grid=lut.Grid.bits(5)),
    "srlut-S-slip": lambda: srlut.build("S", 4, width=4, grid=lut.Grid.bits(6), compat="srlut-2021"),
    "srlut-V-step17": lambda: srlut.build("V", 3, grid=lut.Grid.even(17), width=4),
    "srlut-F-0bit": lambda: srlut.build("F", 2, grid=lut.Grid.bits(6, 255), width=4),
    "mulut-sdy": lambda: mulut.build("sdy", 2, 2, width=4, grid=lut.Grid.bits(5)),
    "mulut-eho-x1": lambda: mulut.build("eho", 3, 1, width=4, grid=lut.Grid.bits(5), padding="reflect"),
    "mulut-multilinear": lambda: mulut.build("sd", 2, 2, width=4, grid=COARSE, interpolation="multilinear"),
    "cascade": lambda: mulut.cascade(
        [
            StageSpec("P1+P2", upscale=2, grids=lut.Grid.bits(5)),
            StageSpec([[(0, 1), (1, 0), (1, -1)], "Q2"], upscale=4, cell=2, grids=[lut.Grid(), COARSE]),
        ],
        width=4,
    ),
    "spf": lambda: spf.build("s", 2, width=4, grid=lut.Grid.bits(5)),
    "auto-mulut": lambda: auto.build_mulut("ss", 2, 2, 3, width=4, grid=lut.Grid.bits(5)),
    "auto-mulut-multilinear": lambda: auto.build_mulut(
        1, 3, 1, 2, width=4, grid=COARSE, interpolation="multilinear"
    ),
    "auto-spf": lambda: auto.build_spf("y", 2, 5, width=4, grid=lut.Grid.bits(5)),
}


def random_net(name: str, compressed: bool = False) -> LutNet:
    """A network of a kind, in table mode, with random entries, samplers and residuals."""
    torch.manual_seed(len(name))
    net = CASES[name]()
    rng = np.random.default_rng(len(name))
    for module in net.modules():
        if isinstance(module, AutoSample):
            torch.nn.init.normal_(module.logits, std=2)
        if isinstance(module, AdaRL):
            torch.nn.init.uniform_(module.weight)
    for _, unit in lut.units(net):
        grid = unit.grid
        entries = rng.integers(-90, 128, (grid.rows(unit.axes), unit.outputs)).astype(np.int8)
        unit.set_table(Table(entries, unit.axes, grid.nodes, grid.step, grid.last))
    if compressed:
        lut.compress(net, "xyz", 2, thin=2)
    return net
