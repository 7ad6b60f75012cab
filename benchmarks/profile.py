"""Profiles of real networks: parts against the whole, what is joined, and what looking costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bar import Bar

__all__ = ["bars"]

_FILES = ("orientation", "ppocr-det", "magika")
_FOR_FILES = ("onnxruntime", "openvino")
_MODULES = ("ResNet", "ViT", "MobileNetV2")
_FOR_MODULES = ("torch",)
_TABLES = ("sr-x2-strong", "sr-x4-fast", "deblock-20")
_FOR_TABLES = ("lut-native",)
_SIZES = {"ViT": {"hidden_size": 192, "intermediate_size": 768, "num_attention_heads": 3}}
"""The small one of its family."""
_LESS = {"iree": _FILES, "executorch?delegate=xnnpack": ("ViT",), "litert": ("MobileNetV2",)}
"""Engines of which 80 % must be joined, each on what it builds in a minute or two."""


def bars() -> list[Bar]:
    """Steps add up to the whole within 15 %, and 95 % of their time (80 for some) belongs to layers of the network."""
    found: list[Bar] = []
    for engines, names in ((_FOR_FILES, _FILES), (_FOR_MODULES, _MODULES), (_FOR_TABLES, _TABLES)):
        for engine in engines:
            for name in names:
                found += _of(engine, name, 0.95)
    for engine, names in _LESS.items():
        for name in names:
            found += _of(engine, name, 0.8)
    return found


def _of(engine: str, name: str, joined: float) -> list[Bar]:
    from twinnet.checking.options import Limits, Options
    from twinnet.profiling import Plan, profile_with

    network, inputs = _network(name)
    options = Options(limits=Limits(threads=1))
    (made,) = profile_with(options, network, inputs, engine, Plan(30, 3))
    profile = made.profile
    what, note = f"{engine}, {name}", f"{profile.bare.p50 * 1e3:.1f} ms, {len(profile.rows)} steps"
    return [
        # Of steps that were run alone it is only stated.
        Bar(
            f"{what}: part of the whole outside the steps",
            abs(profile.gap),
            None if profile.alone else 0.15,
            note=note,
        ),
        Bar(f"{what}: time joined to layers", profile.joined, joined, at_least=True),
        Bar(f"{what}: what looking costs", profile.overhead),
    ]


def _network(name: str) -> tuple[Any, Any]:
    """A file of a wheel, tables of the package, or an architecture with weights at random."""
    if name in _TABLES:
        from twinnet import models

        image = np.random.default_rng(0).random((1, 3, 96, 160), dtype=np.float32)
        return str(Path(models.__file__).parent / name / f"{name}.lut.safetensors"), image
    import torch

    if name in _FILES:
        from tests.models import MODELS, model_path

        return str(model_path(name)), MODELS[name].inputs()
    import transformers

    class Logits(torch.nn.Module):
        """The network without the wrapping of its output."""

        def __init__(self) -> None:
            super().__init__()
            config = getattr(transformers, f"{name}Config")(**_SIZES.get(name, {}))
            self.model = getattr(transformers, f"{name}ForImageClassification")(config)

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            return self.model(pixels).logits

    torch.manual_seed(0)
    return Logits().eval(), torch.rand(1, 3, 224, 224)
