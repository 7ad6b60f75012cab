"""What fitting reaches in which time, and how fast a fine-tuning step is, in one run.

Fits run on the images of TWINNET_DATA/images/train, are judged on images/valid while they run, and scored at the end
on Set5 by the native engine. Seconds are of CPU over two threads, halved: on a machine of its own that is the wall
clock, on a shared one it still says what the work takes.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from benchmarks.bar import Bar
from twinnet import lut
from twinnet.lut.model import load
from twinnet.restore.metrics import psnr_y
from twinnet.restore.native.step import forward
from twinnet.restore.nets import srlut
from twinnet.restore.new import new

__all__ = ["bars", "fit_bars", "step_bars"]

THREADS = 2


def _images() -> Path | None:
    root = os.environ.get("TWINNET_DATA")
    path = Path(root, "images") if root else None
    return path if path is not None and path.is_dir() else None


def _set5(table: Path, bench: Path) -> float:
    model, scores = load(table), []
    for path in sorted((bench / "Set5" / "HR").iterdir()):
        low = next((bench / "Set5" / "LR_x4").glob(f"{path.stem}*"))
        made = model(np.asarray(Image.open(low).convert("RGB")))
        good = np.asarray(Image.open(path).convert("RGB"))[: made.shape[0], : made.shape[1]]
        scores.append(psnr_y(made, good, 4))
    return float(np.mean(scores))


def fit_bars() -> list[Bar]:
    """One table within a minute, the default preset within three, all of it: decoding, fitting, writing."""
    from twinnet.restore.fit import fit

    images = _images()
    if images is None:
        print("fit: no images, set TWINNET_DATA")
        return []
    # CLIC is larger and smoother than what tables are asked for, and left out of the recipe.
    data = {
        "train": [str(images / "train" / name) for name in ("CID22", "gb82")],
        "valid": [str(images / "valid" / "CID22")],
    }
    table = [{"patterns": "s", "upscale": 4, "interval": 4}]
    cases = {
        "one table, 17 nodes": ({"preset": "own", "stages": table}, 29.88, 60),
        "preset default": ({"preset": "default"}, 30.60, 180),
    }
    found = []
    for name, (section, decibels, seconds) in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            experiment = Path(folder) / "fit"
            os.environ["TWINNET_CACHE"] = str(Path(folder) / "cache")  # decoding counts
            new(experiment, {"data": data, "fit": {**section, "threads": THREADS}})
            began = time.process_time()
            done = fit(experiment, quiet=True)
            cpu = (time.process_time() - began) / THREADS
            score = _set5(done.path, images / "bench")
        note = f"{done.result.nbytes:,} bytes, {done.result.lookups} lookups"
        found.append(Bar(f"{name}: Set5 x4, dB", score, decibels, at_least=True, note=note))
        found.append(
            Bar(f"{name}: seconds", cpu, seconds, note=f"CPU / {THREADS}; wall {done.seconds:.0f} s")
        )
    return found


def step_bars() -> list[Bar]:
    """One step of Adam on an SR-LUT x4 table: the fused step against plain autograd, back to back."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = lut.export(srlut.build("S", 4)).train()
    net.rounding = "finetune"
    low = torch.nn.functional.interpolate(torch.rand(32, 1, 12, 12), size=(48, 48), mode="bilinear")
    low, good = (low * 255).round() / 255, torch.rand(32, 1, 192, 192)
    optimiser = torch.optim.Adam(net.parameters(), 1e-4, fused=True)

    def step(run) -> float:
        began = time.process_time()
        optimiser.zero_grad()
        torch.nn.functional.mse_loss(run(low), good).backward()
        optimiser.step()
        return time.process_time() - began

    ratios, times = [], []
    for _ in range(5):
        plain = step(net)
        fused = min(step(lambda images: forward(net, images)) for _ in range(4))
        ratios.append(plain / fused)
        times.append(fused)
    note = f"{min(times) * 1e3:.1f} ms of CPU, batch of 32 crops of 48 x 48"
    return [
        Bar("fine-tuning step, times plain autograd", float(np.median(ratios)), 20, at_least=True, note=note)
    ]


def bars() -> list[Bar]:
    """All of them."""
    return [*step_bars(), *fit_bars()]
