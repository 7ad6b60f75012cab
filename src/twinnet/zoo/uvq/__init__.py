"""The networks of UVQ 1.5, which scores the quality of video, and the whole way from frames to a score.

>>> sum(p.numel() for p in DistortionNet().parameters())
3759228
"""

from __future__ import annotations

from twinnet.zoo.uvq.dense import depthwise_to_dense
from twinnet.zoo.uvq.initialise import calibrate, formula_init, smooth_images
from twinnet.zoo.uvq.nets import DEPTHS, AggregationNet, ContentNet, Depth, DistortionNet, distortionnet
from twinnet.zoo.uvq.score import FrameScore, Uvq, load_uvq
from twinnet.zoo.uvq.weights import load_weights

__all__ = [
    "DEPTHS",
    "AggregationNet",
    "ContentNet",
    "Depth",
    "DistortionNet",
    "FrameScore",
    "Uvq",
    "calibrate",
    "depthwise_to_dense",
    "distortionnet",
    "formula_init",
    "load_uvq",
    "load_weights",
    "smooth_images",
]
