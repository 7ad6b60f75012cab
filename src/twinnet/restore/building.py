"""From a config to its network."""

from __future__ import annotations

import torch

from twinnet.lut.grid import Grid
from twinnet.lut.net import LutNet
from twinnet.restore.config import Config
from twinnet.restore.nets import auto, mulut, spf, srlut
from twinnet.restore.nets.mulut import StageSpec
from twinnet.restore.nets.style import Style

__all__ = ["build"]

_ACTIVATIONS = {"relu": torch.relu, "gelu": torch.nn.functional.gelu}
_KINDS = {"s": "S", "V": "V", "F": "F"}


def build(config: Config) -> LutNet:
    """The network of an experiment with fresh weights, which follow from its seed.

    >>> from twinnet.restore.config import parse
    >>> build(parse("version = 1\\n[model]\\nfeatures = 8\\nscale = 2\\n")).scale
    2
    """
    m, e = config.model, config.export_lut
    grid = Grid.bits(e.interval, e.last_node)
    style: Style = {
        "width": m.features,
        "grid": grid,
        "padding": m.padding,
        "interpolation": m.interpolation,
        "activation": _ACTIVATIONS[m.activation],
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.train.seed)
        match m.type:
            case "srlut":
                net = srlut.build(_KINDS[m.modes], m.scale, grid, m.features, m.padding, m.interpolation)
            case "mulut":
                net = mulut.build(m.modes, m.stages, m.scale, **style)
            case "cascade":
                stages = [
                    StageSpec(s.patterns, s.upscale, s.cell, s.centred, Grid.bits(s.interval, e.last_node))
                    for s in m.cascade
                ]
                net = mulut.cascade(stages, **style)
            case "spf":
                net = spf.build(m.modes, m.scale, **style)
            case "auto-mulut":
                net = auto.build_mulut(m.modes, m.stages, m.scale, m.sample_size, **style)
            case "auto-spf":
                net = auto.build_spf(m.modes, m.scale, m.sample_size, **style)
    net.task = m.task
    return net
