"""AggregationNet of UVQ 1.5 with its published weights, beside its published TFLite files."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tests.needs import need_data

__all__ = ["AggregationNet", "aggregation_net", "golden", "golden_inputs"]


class AggregationNet(nn.Module):
    """Two maps of features, channels last, to one score between 1 and 5."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(256, 256, 1)
        self.ln1 = nn.LayerNorm([256, 4, 4], eps=1e-3)
        self.linear1 = nn.Linear(256, 1)

    def forward(self, content: Tensor, distortion: Tensor) -> Tensor:
        pooled = [
            nn.functional.adaptive_avg_pool2d(x.permute(0, 3, 1, 2), (4, 4)) for x in (content, distortion)
        ]
        x = torch.relu(self.ln1(self.conv1(torch.cat(pooled, 1))))
        x = nn.functional.max_pool2d(x, 4).flatten(1)
        return torch.tanh(self.linear1(x)) * 2.0 + 3.0


def aggregation_net() -> AggregationNet:
    """The network with its trained weights."""
    net = AggregationNet().eval()
    held = torch.load(need_data("uvq", "aggregation_net.pth"), weights_only=True, map_location="cpu")
    own = net.state_dict()
    net.load_state_dict({name: next(v for k, v in held.items() if k.endswith(name)) for name in own})
    return net


def golden() -> list[dict[str, Any]]:
    """Scores measured apart from twinnet: PyTorch, and both files under all kernel sets."""
    return json.loads(need_data("uvq", "agg_golden.json").read_text())


def golden_inputs(row: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """The inputs of a row."""
    rng = np.random.default_rng(row["seed"])
    content = rng.standard_normal((1, 8, 8, 128)) * row["scale_content"]
    distortion = rng.standard_normal((1, 24, 24, 128)) * row["scale_distortion"]
    return content.astype(np.float32), distortion.astype(np.float32)
