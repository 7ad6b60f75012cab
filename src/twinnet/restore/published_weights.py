"""Published checkpoints of SR-LUT and MuLUT as networks of ours."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from twinnet.errors import UsageError
from twinnet.lut.bodies import DenseBody, PlainBody
from twinnet.lut.net import LutNet
from twinnet.pth import read_pth
from twinnet.restore.nets import mulut, srlut
from twinnet.store import read_npz

__all__ = ["from_checkpoint", "from_state"]

_MULUT = re.compile(r"^s(\d+)_([a-z])\.model\.")


def from_checkpoint(path: str | Path) -> LutNet:
    """A network from a `.pth` file (read by the inert reader) or an `.npz` of plain arrays."""
    source = Path(path)
    if source.suffix != ".npz":
        return from_state(read_pth(source), str(source))
    return from_state(read_npz(source), str(source))


def from_state(state: Mapping[str, np.ndarray], where: str = "the checkpoint") -> LutNet:
    """A network from parameters under their published names; what it is follows from the names."""
    try:
        if "conv1.weight" in state:
            return _srlut(state)
        if any(_MULUT.match(name) for name in state):
            return _mulut(state)
    except (KeyError, RuntimeError, ValueError) as error:
        raise UsageError(f"{where}: the parameters do not fit together: {error}") from error
    raise UsageError(
        f"{where} is neither an SR-LUT nor a MuLUT checkpoint", hint=f"it holds {', '.join(list(state)[:4])}"
    )


def _scale(outputs: int) -> int:
    scale = round(outputs**0.5)
    if scale * scale != outputs:
        raise ValueError(f"{outputs} outputs are not a square block")
    return scale


def _fill(body: PlainBody | DenseBody, state: Mapping[str, np.ndarray], names: list[str]) -> None:
    layers = [*body.layers, body.last]
    with torch.no_grad():
        for layer, name in zip(layers, names, strict=True):
            assert isinstance(layer, torch.nn.Linear)
            weight = np.ascontiguousarray(state[f"{name}.weight"], np.float32)
            layer.weight.copy_(torch.from_numpy(weight.reshape(weight.shape[0], -1)))
            layer.bias.copy_(torch.from_numpy(np.ascontiguousarray(state[f"{name}.bias"], np.float32)))


def _srlut(state: Mapping[str, np.ndarray]) -> LutNet:
    scale = _scale(state["conv6.weight"].shape[0])
    net = srlut.build("S", scale, width=state["conv1.weight"].shape[0])
    body = net.get_submodule("stage1.in_c0.b0.unit.body")
    assert isinstance(body, PlainBody)
    _fill(body, state, [f"conv{k}" for k in range(1, 7)])
    return net


def _mulut(state: Mapping[str, np.ndarray]) -> LutNet:
    found = [match.groups() for name in state if (match := _MULUT.match(name))]
    modes = "".join(dict.fromkeys(mode for stage, mode in found if stage == "1"))
    stages = max(int(stage) for stage, _ in found)
    first = state[f"s1_{modes[0]}.model.conv1.conv.weight"]
    scale = _scale(state[f"s{stages}_{modes[0]}.model.conv6.conv.weight"].shape[0])
    net = mulut.build(modes, stages, scale, width=first.shape[0])
    for stage in range(1, stages + 1):
        for k, mode in enumerate(modes):
            prefix = f"s{stage}_{mode}.model."
            body = net.get_submodule(f"stage{stage}.in_c0.b{k}.unit.body")
            assert isinstance(body, DenseBody)
            middle = [f"{prefix}conv{j}.conv1.conv" for j in range(2, 6)]
            _fill(body, state, [f"{prefix}conv1.conv", *middle, f"{prefix}conv6.conv"])
    return net
