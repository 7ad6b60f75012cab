"""Whole images through a network of ours, in strips, so that memory does not grow with the image."""

from __future__ import annotations

import numpy as np
import torch

from twinnet.lut.net import LutNet
from twinnet.restore.tasks import Image

__all__ = ["predict", "reach"]

_SITES = 1 << 15
"""Sites per strip and plane: hidden layers hold some hundred numbers for each."""


def reach(net: LutNet) -> int:
    """How many input pixels around itself an output pixel can depend on, at most.

    >>> from twinnet.restore.nets import mulut
    >>> reach(mulut.build("sd", stages=2, scale=2, width=4))
    4
    """
    total = 0
    for _, stage in net.stages():
        offsets = [
            abs(step)
            for group in stage.group_names
            for _, branch in stage.branches(group)
            for offset in branch.sample.offsets
            for step in offset
        ]
        total += max(offsets, default=0) + stage.cell - 1
    return total


@torch.no_grad()
def predict(net: LutNet, low: Image) -> np.ndarray:
    """A bad image, uint8 or float in 0..255, to the restored one, uint8."""
    planes = low[None] if low.ndim == 2 else np.moveaxis(low, -1, 0)
    device = next(net.parameters()).device
    n, far = net.scale, reach(net)
    rows, columns = planes.shape[1:]
    height = max(1, _SITES // columns)
    out = np.empty((len(planes), rows * n, columns * n), np.uint8)
    was_training = net.training
    net.eval()
    try:
        for top in range(0, rows, height):
            bottom = min(top + height, rows)
            first, last = max(top - far, 0), min(bottom + far, rows)
            for k, plane in enumerate(planes):
                part = torch.from_numpy(np.ascontiguousarray(plane[first:last], np.float32) / np.float32(255))
                result = net(part.to(device)[None, None])[0, 0]
                result = result[(top - first) * n : (bottom - first) * n].float()
                out[k, top * n : bottom * n] = (
                    (result.clamp(0, 1) * 255).round().to(torch.uint8).cpu().numpy()
                )
    finally:
        net.train(was_training)
    return out[0] if low.ndim == 2 else np.moveaxis(out, 0, -1)
