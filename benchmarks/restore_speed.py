"""The life of an experiment in seconds: export of a MuLUT network, and whether cutting crops keeps up with training.

CPU seconds of the process, one torch thread. Images of TWINNET_DATA/images/train where they are, else scenes of ours.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.bar import Bar
from twinnet.lut import export, lower
from twinnet.restore.data import Crops, open_pairs
from twinnet.restore.nets import mulut, srlut
from twinnet.restore.sample import write_samples
from twinnet.restore.steps import TableStep
from twinnet.restore.tasks.sr import SuperResolution

__all__ = ["bars", "data_bars", "export_bars"]


def _cpu(work: Callable[[], object], repeats: int = 1) -> float:
    began = time.process_time()
    for _ in range(repeats):
        work()
    return (time.process_time() - began) / repeats


def export_bars() -> list[Bar]:
    """All six tables of MuLUT sdy x2 x4 (17 nodes), as published: 64 features."""
    net = mulut.build("sdy", stages=2, scale=4)
    seconds = _cpu(lambda: lower(export(net)))
    return [Bar("export of a MuLUT network, s of CPU", seconds, 30)]


def _step(net: torch.nn.Module, low: torch.Tensor, high: torch.Tensor) -> None:
    net.zero_grad(set_to_none=True)
    torch.nn.functional.mse_loss(net(low), high).backward()


def data_bars() -> list[Bar]:
    """Cutting a batch of 32 crops of 48 pixels against the fastest steps that use it."""
    root = os.environ.get("TWINNET_DATA")
    found = Path(root, "images", "train", "CID22") if root else None
    with tempfile.TemporaryDirectory() as folder:
        if found is None or not found.is_dir():
            write_samples(folder, 8, rows=512, columns=512)
            found = Path(folder)
        began = time.perf_counter()
        crops = Crops(open_pairs(SuperResolution(4), [found]), 48)
        opened = time.perf_counter() - began
        again = _cpu(lambda: open_pairs(SuperResolution(4), [found]))
        cutting = _cpu(lambda: crops.batch(0, 0, 32), 20)
        low, high = (torch.from_numpy(part) for part in crops.batch(0, 0, 32))
    plain = srlut.build("S", scale=4).train()
    training = _cpu(lambda: _step(plain, low, high), 2)
    tables = TableStep(export(srlut.build("S", scale=4))).train()
    tables.net.rounding = "finetune"
    tuning = _cpu(lambda: _step(tables, low, high), 5)
    return [
        Bar("cutting a batch / a training step (SR-LUT, the smallest)", cutting / training, 0.1),
        Bar(f"cutting a batch / a fine-tuning step ({tables.kernel})", cutting / tuning, 0.5),
        Bar("cutting a batch, ms of CPU", 1000 * cutting),
        Bar("opening the images, s (first time: decoding and shrinking)", opened, note=found.name),
        Bar("opening them again, s of CPU", again),
    ]


def bars() -> list[Bar]:
    """For `make bench`."""
    torch.set_num_threads(1)
    return [*export_bars(), *data_bars()]
