"""The shared fixtures of table networks, and a small experiment that went through its whole life."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lut.conftest import data, noise, picture
from twinnet.restore.new import new
from twinnet.restore.sample import write_samples

__all__ = ["data", "noise", "picture"]

QUICK = {
    "model": {"type": "mulut", "modes": "s", "stages": 1, "scale": 2, "features": 8},
    "data": {"train": ["../photos"], "bench": "../bench", "benchmarks": ["Scenes"], "batch_size": 4, "crop_size": 12},
    "train": {
        "iterations": 6, "log_every": 2, "checkpoint_every": 2, "validate_every": 3, "tensorboard": False,
    },
    "export_lut": {"dfc": True},
    "finetune_lut": {
        "iterations": 4, "log_every": 2, "checkpoint_every": 2, "validate_every": 2, "batch_size": 0,
        "tensorboard": False,
    },
}  # fmt: skip


def changed(**sections):
    """`QUICK` with other values."""
    return {name: {**QUICK.get(name, {}), **sections.get(name, {})} for name in {**QUICK, **sections}}


@pytest.fixture(scope="session")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with photos/ to train on and bench/Scenes/HR to test on."""
    root = tmp_path_factory.mktemp("scenes")
    write_samples(root / "photos", 4, rows=64, columns=72)
    write_samples(root / "bench" / "Scenes" / "HR", 2, rows=48, columns=48, first=100)
    return root


@pytest.fixture
def make(scenes, tmp_path):
    """Makes experiments beside the scenes, in a folder of the test's own."""
    for name in ("photos", "bench"):
        (tmp_path / name).symlink_to(scenes / name)

    def made(name: str = "exp", **sections) -> Path:
        return new(tmp_path / name, changed(**sections)).parent

    return made


@pytest.fixture(scope="session")
def finished(scenes) -> Path:
    """An experiment that was trained, exported, compressed and fine-tuned. Read only."""
    from twinnet.restore.export import export
    from twinnet.restore.finetune import finetune
    from twinnet.restore.train import train

    folder = new(scenes / "finished", QUICK).parent
    train(folder, quiet=True)
    export(folder, quiet=True)
    finetune(folder, quiet=True)
    return folder
