"""An engine with one fault: ONNX Runtime that refuses one kind of operator, or computes another in its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import onnx
import onnxruntime
import torch
from torch import nn

from twinnet.engines import register
from twinnet.engines.base import Abilities, Engine, Session, one_of, read_options
from twinnet.engines.onnx_session import TappedSession
from twinnet.errors import EngineError
from twinnet.job import Job
from twinnet.onnx.export import onnx_artefact

__all__ = ["Block", "net_with"]


class _Loaded:
    def __init__(self, model: onnx.ModelProto) -> None:
        self._session = onnxruntime.InferenceSession(
            model.SerializeToString(), providers=["CPUExecutionProvider"]
        )
        self.inputs = [i.name for i in self._session.get_inputs()]
        self.outputs = [o.name for o in self._session.get_outputs()]

    def __call__(self, feeds: Mapping[str, Any]) -> list[np.ndarray]:
        return self._session.run(self.outputs, {n: np.asarray(feeds[n]) for n in self.inputs})  # type: ignore


class _PlantedSession(TappedSession):
    engine, version = "planted", "1"

    def __init__(self, artefact: Any, job: Job, op: str, do: str) -> None:
        self._op, self._do = op, do
        super().__init__(artefact, job)

    def load_part(self, model: onnx.ModelProto) -> Any:
        changed = onnx.ModelProto()
        changed.CopyFrom(model)
        for node in changed.graph.node:
            if node.op_type == self._op and self._do == "refuse":
                raise EngineError(f"planted has no kernel for {self._op}", stage="compile the network")
            if node.op_type == self._op and self._do == "mute":
                raise EngineError("planted failed with status 3", stage="compile the network")
            if node.op_type == self._op and self._do == "change":
                node.op_type = "Relu"
                del node.attribute[:]
        return _Loaded(changed)


@register
class PlantedEngine(Engine):
    """`op` is the kind of operator that it cannot do; `kernels=plain` computes everything right."""

    name: ClassVar[str] = "planted"
    abilities: ClassVar[Abilities] = Abilities(segment="cheap")
    options: ClassVar[Mapping[str, str]] = {
        "op": "a kind",
        "do": "refuse|mute|change",
        "kernels": "fast|plain",
    }
    calmer: ClassVar[tuple[Mapping[str, str], ...]] = ({"kernels": "plain"},)
    takes = "onnx"

    def version(self) -> str:
        return "1"

    def open(self, network: Any, options: Mapping[str, str], file: str | None, job: Job) -> Session:
        chosen = read_options(
            self, options, op=str, do=one_of("refuse", "mute", "change"), kernels=one_of("fast", "plain")
        )
        do = "" if chosen.get("kernels") == "plain" else chosen.get("do", "refuse")
        return _PlantedSession(onnx_artefact(network, file, job), job, chosen.get("op", ""), do)


@register
class ClosedEngine(PlantedEngine):
    """The same with a converter of its own: nobody sees an ONNX file between the network and the engine."""

    name: ClassVar[str] = "planted-closed"
    takes = ""


class Block(nn.Module):
    """A convolution, an activation, and whatever else is wanted at its end."""

    def __init__(self, inputs: int, outputs: int, tail: nn.Module | None = None) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.act = nn.Tanh()
        self.tail = nn.Identity() if tail is None else tail

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.tail(self.act(self.conv(x)))


def net_with(tail: nn.Module | None, channels: int = 4, after: int | None = None) -> nn.Module:
    """Five blocks, the third of which ends in `tail`."""
    torch.manual_seed(0)
    third = Block(4, channels, tail)
    blocks = (Block(3, 4), Block(4, 4), third, Block(after or channels, 4), Block(4, 4))
    return nn.Sequential(*blocks).eval()
