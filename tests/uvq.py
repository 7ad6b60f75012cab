"""AggregationNet of UVQ 1.5 with its published weights, beside its published TFLite files."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from tests.needs import need_data
from twinnet.zoo.uvq import AggregationNet, load_weights

__all__ = ["aggregation_net", "golden", "golden_inputs"]


def aggregation_net() -> AggregationNet:
    """The network with its trained weights."""
    net = AggregationNet().eval()
    load_weights(net, need_data("uvq", "aggregation_net.pth"))
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
